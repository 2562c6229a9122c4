// The page's whole state lives in the URL hash: `#/query?expr=up&range=1h`. Invariant: parse(format(x)) equals x.

export interface Route {
  /** Path with its leading slash and no trailing one; `/` is the first page. */
  path: string;
  params: Readonly<Record<string, string>>;
}

export function parseHash(hash: string): Route {
  const text = hash.replace(/^#/, "");
  const mark = text.indexOf("?");
  const raw = mark < 0 ? text : text.slice(0, mark);
  const path = `/${raw.replace(/^\/+|\/+$/g, "")}`;
  const params: Record<string, string> = {};
  for (const [key, value] of new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1))) params[key] = value;
  return { path, params };
}

/** Empty and undefined parameters are left out; keys keep their order, so equal states give equal links. */
export function formatHash(path: string, params: Readonly<Record<string, string | undefined>> = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) if (value !== undefined && value !== "") search.set(key, value);
  const query = search.toString();
  return `#${path}${query === "" ? "" : `?${query}`}`;
}
