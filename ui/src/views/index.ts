// The pages, in the order of the navigation. A new page is one file and one line here.
import type { ComponentType } from "preact";
import { HostView } from "./host";
import { QueryView } from "./query";
import { TargetsView } from "./targets";

export interface View {
  path: string;
  title: string;
  /** Refreshes by itself, so that it can be paused. */
  live: boolean;
  component: ComponentType;
}

export const VIEWS: readonly View[] = [
  { path: "/", title: "Overview", live: true, component: HostView },
  { path: "/query", title: "Query", live: false, component: QueryView },
  { path: "/targets", title: "Targets", live: true, component: TargetsView },
];

export function viewAt(path: string): View | null {
  return VIEWS.find((view) => view.path === path) ?? null;
}
