// State in the URL hash survives the way there and back.
import { expect, test } from "vitest";
import { formatHash, parseHash } from "./hash";

test("paths with and without parameters", () => {
  expect(parseHash("")).toEqual({ path: "/", params: {} });
  expect(parseHash("#/")).toEqual({ path: "/", params: {} });
  expect(parseHash("#query")).toEqual({ path: "/query", params: {} });
  expect(parseHash("#/query/?expr=up")).toEqual({ path: "/query", params: { expr: "up" } });
  // As typed by hand, not as written by the page.
  expect(parseHash("#/query?expr=a?b")).toEqual({ path: "/query", params: { expr: "a?b" } });
  expect(formatHash("/")).toBe("#/");
  expect(formatHash("/targets", { health: undefined, filter: "" })).toBe("#/targets");
});

test("expressions come back unchanged", () => {
  for (const expr of ['sum by (a) (rate(x{b=~"c|d",e!="f?g#h&i=j"}[5m])) + 1 % 2', "ü\n{\"日本\"}", "a+b", "50%"]) {
    expect(parseHash(formatHash("/query", { expr, tab: "graph" }))).toEqual({ path: "/query", params: { expr, tab: "graph" } });
  }
});
