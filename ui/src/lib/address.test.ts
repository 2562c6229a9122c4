// State in the address survives the way there and back, behind any prefix.
import { expect, test } from "vitest";
import { directory, formatAddress, parseAddress } from "./address";

test("paths with and without parameters", () => {
  expect(parseAddress("/", "")).toEqual({ path: "/", params: {} });
  expect(parseAddress("/prom/", "?range=1h")).toEqual({ path: "/", params: { range: "1h" } });
  expect(parseAddress("/prom/tsdb-status", "")).toEqual({ path: "/tsdb-status", params: {} });
  expect(formatAddress("/")).toBe("./");
  expect(formatAddress("/", { range: "1h" })).toBe("./?range=1h");
  expect(formatAddress("/targets", { health: undefined, search: "a b" })).toBe("./targets?search=a+b");
  // An empty panel is one, too.
  expect(formatAddress("/query", { "g0.expr": "" })).toBe("./query?g0.expr=");
});

test("Prometheus' older name of the query page", () => {
  expect(parseAddress("/graph", "?g0.expr=up&g0.tab=0")).toEqual({ path: "/query", params: { "g0.expr": "up", "g0.tab": "0" } });
});

test("expressions come back unchanged", () => {
  for (const expr of ['sum by (a) (rate(x{b=~"c|d",e!="f?g#h&i=j"}[5m])) + 1 % 2', 'ü\n{"日本"}', "a+b", "50%"]) {
    const url = new URL(formatAddress("/query", { "g0.expr": expr }), "http://host:9090/prefix/targets?x=y#z");
    expect(directory(url.pathname)).toBe("/prefix/");
    expect(parseAddress(url.pathname, url.search)).toEqual({ path: "/query", params: { "g0.expr": expr } });
  }
});
