// The current route, kept in step with the browser's address. Plain links work: clicks on those that lead to another part
// of the page are answered without loading it again.
import { createStore } from "./store";
import { directory, formatAddress, parseAddress, type Route } from "./address";

export const route = createStore<Route>(parseAddress(location.pathname, location.search));

const follow = (): void => route.set(parseAddress(location.pathname, location.search));

function visit(href: string): void {
  const before = route.get().path;
  history.pushState(null, "", href);
  follow();
  if (route.get().path === before) return;
  window.scrollTo(0, 0);
  document.getElementById("main")?.focus({ preventScroll: true });
}

/** `isPart` knows the paths that this page can show itself. */
export function startRouter(isPart: (path: string) => boolean): void {
  window.addEventListener("popstate", follow);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const anchor = event.target instanceof Element ? event.target.closest("a") : null;
    if (anchor === null || anchor.target !== "" || anchor.hasAttribute("download")) return;
    const url = new URL(anchor.href);
    const inside = url.origin === location.origin && directory(url.pathname) === directory(location.pathname);
    if (!inside || !isPart(parseAddress(url.pathname, url.search).path)) return;
    event.preventDefault();
    visit(url.href);
  });
}

/** Goes to a part; a step of its own in the history. */
export function go(path: string, params: Readonly<Record<string, string | undefined>> = {}): void {
  visit(formatAddress(path, params));
}

/** Changes parameters of the current part in place: no step in the history. Empty ones are left out. */
export function adjust(change: Readonly<Record<string, string | undefined>>): void {
  const { path, params } = route.get();
  const next = Object.entries({ ...params, ...change }).filter(([, value]) => value !== "");
  history.replaceState(null, "", formatAddress(path, Object.fromEntries(next)));
  follow();
}
