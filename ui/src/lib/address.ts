// Addresses of the page's parts: `targets?search=x`, relative to wherever the page is served.
// Invariants: every part is one segment below the root, so that links and requests work behind any prefix;
// parse(format(x)) equals x.

export interface Route {
  /** Path with its leading slash and no trailing one; `/` is the first page. */
  path: string;
  params: Readonly<Record<string, string>>;
}

/** Prometheus' other names for the same pages. */
const ALIASES: Readonly<Record<string, string>> = { "/graph": "/query", "/index.html": "/" };

export function parseAddress(pathname: string, search: string): Route {
  const last = `/${pathname.slice(pathname.lastIndexOf("/") + 1)}`;
  const params: Record<string, string> = {};
  for (const [key, value] of new URLSearchParams(search)) params[key] = value;
  return { path: ALIASES[last] ?? last, params };
}

/** Undefined parameters are left out; keys keep their order, so equal states give equal links. */
export function formatAddress(path: string, params: Readonly<Record<string, string | undefined>> = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) if (value !== undefined) search.set(key, value);
  const query = search.toString();
  return `./${path.slice(1)}${query === "" ? "" : `?${query}`}`;
}

/** Everything up to and including the last slash: what links are relative to. */
export const directory = (pathname: string): string => pathname.slice(0, pathname.lastIndexOf("/") + 1);
