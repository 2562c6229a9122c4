// The query page's state in its address, and Prometheus' links.
import { describe, expect, test } from "vitest";
import { parseAddress } from "../lib/address";
import { EMPTY_PANEL, formatUtc, graphsLink, parseTime, queryLink, readPanels, stepOf, writePanels, type PanelState } from "./state";

const read = (search: string) => readPanels(parseAddress("/query", search).params);
const there = (panels: readonly PanelState[]) =>
  Object.fromEntries(Object.entries(writePanels(panels)).filter(([, value]) => value !== undefined));

test("defaults leave only the expression", () => {
  expect(there(read("?g0.expr=up"))).toEqual({ "g0.expr": "up" });
  expect(queryLink("a + b")).toBe("./query?g0.expr=a+%2B+b");
  expect(read("")).toEqual([EMPTY_PANEL]);
  expect(writePanels(read(""))).toEqual({});
});

test("every part of every panel comes back", () => {
  const panels: PanelState[] = [
    {
      expr: "rate(x[5m])", tab: "graph", range: 5400, end: 1795199500.5, step: 15, density: "medium", stacked: true,
      heatmap: null, exemplars: true, unit: "bytes/s", thresholds: [{ op: ">", value: 0.5 }, { op: "==", value: 0 }], live: true,
    },
    { ...EMPTY_PANEL, density: "high", tab: "explain" },
    { ...EMPTY_PANEL, expr: "h", tab: "graph", heatmap: true },
    { ...EMPTY_PANEL, expr: "up", end: 1795199500, step: 0.5 },
  ];
  expect(readPanels(there(panels))).toEqual(panels);
});

test("a link to graphs has the thresholds of each", () => {
  const graphs = [
    { expr: "a / b", thresholds: [{ op: ">", value: 0.9 }] },
    { expr: "c", thresholds: [{ op: "<", value: 1 }, { op: ">", value: 5 }] },
  ] as const;
  const link = graphsLink(graphs);
  expect(link).toBe("./query?g0.expr=a+%2F+b&g0.tab=graph&g0.threshold=%3E+0.9&g1.expr=c&g1.tab=graph&g1.threshold=%3C+1%2C+%3E+5");
  expect(read(link.slice(link.indexOf("?")))).toEqual(graphs.map((graph) => ({ ...EMPTY_PANEL, ...graph, tab: "graph" })));
});

describe("links made for Prometheus", () => {
  test("3.x, everything written out", () => {
    const link =
      "?g0.expr=rate(http_requests_total%5B5m%5D)&g0.show_tree=0&g0.tab=graph&g0.end_input=2024-01-15%2012%3A30%3A45" +
      "&g0.moment_input=2024-01-15%2012%3A30%3A45&g0.range_input=2h&g0.res_type=auto&g0.res_density=high" +
      "&g0.display_mode=stacked&g0.show_exemplars=0&g1.expr=up&g1.show_tree=1&g1.tab=explain&g1.range_input=1h" +
      "&g1.res_type=fixed&g1.res_step=30&g1.display_mode=lines&g1.y_axis_min=0";
    expect(read(link)).toEqual([
      {
        ...EMPTY_PANEL, expr: "rate(http_requests_total[5m])", tab: "graph", range: 7200, end: 1705321845, density: "high",
        stacked: true,
      },
      { ...EMPTY_PANEL, expr: "up", tab: "explain", step: 30, heatmap: false },
    ]);
  });

  test("2.x: numbered tabs, stacked, a step in seconds, minutes in times", () => {
    const link = "?g0.expr=up&g0.tab=0&g0.stacked=1&g0.show_exemplars=0&g0.range_input=30m&g0.end_input=2021-03-04%2005%3A06&g0.step_input=15";
    expect(read(link)).toEqual([
      { ...EMPTY_PANEL, expr: "up", tab: "graph", stacked: true, range: 1800, end: Date.UTC(2021, 2, 4, 5, 6) / 1000, step: 15 },
    ]);
    expect(read("?g0.expr=up&g0.tab=1")[0]?.tab).toBe("table");
  });

  test("panels end at the first gap, and at a sane number", () => {
    expect(read("?g0.expr=a&g2.expr=c")).toHaveLength(1);
    expect(read(`?${Array.from({ length: 200 }, (_, i) => `g${i}.expr=x`).join("&")}`)).toHaveLength(50);
  });
});

test("nonsense becomes a default", () => {
  const link = "?g0.expr=&g0.tab=x&g0.range_input=-1&g0.end_input=soon&g0.res_type=custom&g0.res_step=0&g0.unit=miles&g0.threshold=5&g0.res_density=x";
  expect(read(link)).toEqual([EMPTY_PANEL]);
});

test("times", () => {
  expect(parseTime("2024-01-15 12:30:45")).toBe(1705321845);
  expect(parseTime("2024-01-15T12:30:45+01:00")).toBe(1705321845 - 3600);
  expect(parseTime("1705321845.5")).toBe(1705321845.5);
  for (const text of ["", "0", "yesterday", "2024-01-15", "2024-13-45 12:00"]) expect(parseTime(text), text).toBeNull();
  expect(formatUtc(1705321845)).toBe("2024-01-15 12:30:45");
  expect(parseTime(formatUtc(1705321845.125))).toBe(1705321845.125);
});

test("steps never ask for more than a server gives", () => {
  expect(stepOf(EMPTY_PANEL)).toBe(15);
  expect(stepOf({ ...EMPTY_PANEL, density: "low" })).toBe(60);
  expect(stepOf({ ...EMPTY_PANEL, step: 60 })).toBe(60);
  const month = 86400 * 30;
  expect(month / stepOf({ ...EMPTY_PANEL, range: month, step: 1 })).toBeLessThan(11_000);
});
