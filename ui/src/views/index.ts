// The pages, in the order of the navigation. A new page is one file and one line here; the server must know its path, too
// (`PAGES` in crates/ui/src/lib.rs).
import type { ComponentType } from "preact";
import { HostView } from "./host";

export interface View {
  path: string;
  title: string;
  /** Its place in the navigation; views of one section are told apart below it. */
  section: string;
  /** Refreshes by itself, so that it can be paused. */
  live: boolean;
  fetch: Fetch;
  /** The component of a view that is there from the start: the first page needs no second request. */
  present: ComponentType | null;
}

/** Brings the component of a view that is not there from the start. */
type Fetch = () => Promise<{ default: ComponentType }>;

const view = (path: string, title: string, section: string, live: boolean, fetch: Fetch, present: ComponentType | null = null): View => ({
  path, title, section, live, fetch, present,
});

export const VIEWS: readonly View[] = [
  view("/", "Overview", "Overview", true, () => Promise.resolve({ default: HostView }), HostView),
  view("/query", "Query", "Query", false, () => import("./query")),
  view("/queries", "Running and expensive", "Query", true, () => import("./activity")),
  view("/metric-usage", "Metric usage", "Query", true, () => import("./usage")),
  view("/alerts", "Alerts", "Alerts", true, () => import("./alerts")),
  view("/rules", "Rules", "Alerts", true, () => import("./rules")),
  view("/targets", "Targets", "Targets", true, () => import("./targets")),
  view("/service-discovery", "Service discovery", "Targets", true, () => import("./discovery")),
  view("/segments", "Segments", "Targets", true, () => import("./segments")),
  view("/status", "Runtime", "Status", true, () => import("./status")),
  view("/tsdb-status", "TSDB", "Status", true, () => import("./tsdb")),
  view("/remote-write", "Remote write", "Status", true, () => import("./remote_write")),
  view("/config", "Configuration", "Status", false, () => import("./config")),
  view("/flags", "Flags", "Status", false, () => import("./flags")),
];

/** Names of the navigation, each with the view it leads to. */
export const SECTIONS: readonly View[] = VIEWS.filter(({ section }, i) => VIEWS.findIndex((one) => one.section === section) === i);

export function viewAt(path: string): View | null {
  return VIEWS.find((one) => one.path === path) ?? null;
}
