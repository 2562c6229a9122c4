// Which sections a person has folded up; kept while the page is open, also when its parts change.
import { createStore } from "./store";

export const collapsed = createStore<ReadonlySet<string>>(new Set());

export function setCollapsed(names: readonly string[], closed: boolean): void {
  const before = collapsed.get();
  if (names.every((name) => before.has(name) === closed)) return;
  const next = new Set(before);
  for (const name of names) {
    if (closed) next.add(name);
    else next.delete(name);
  }
  collapsed.set(next);
}
