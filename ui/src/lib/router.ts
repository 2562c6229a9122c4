// The current route, kept in step with the URL hash.
import { createStore } from "./store";
import { formatHash, parseHash, type Route } from "./hash";

export const route = createStore<Route>(parseHash(location.hash));

export function startRouter(): void {
  window.addEventListener("hashchange", () => route.set(parseHash(location.hash)));
}

/** Goes to a page; a step of its own in the history. */
export function go(path: string, params: Readonly<Record<string, string | undefined>> = {}): void {
  location.hash = formatHash(path, params);
}

/** Changes parameters of the current page in place: no step in the history. */
export function adjust(change: Readonly<Record<string, string | undefined>>): void {
  const { path, params } = route.get();
  history.replaceState(null, "", formatHash(path, { ...params, ...change }));
  route.set(parseHash(location.hash));
}
