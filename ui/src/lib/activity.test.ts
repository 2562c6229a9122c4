import { describe, expect, it } from "vitest";
import type { MetricUse, QueryCost, TopQueries } from "../api";
import { containing, ORDERS, originText, usersOf } from "./activity";

const COST: QueryCost = {
  query: "up",
  timeRangeSeconds: 0,
  count: 3,
  failures: 0,
  sumDurationSeconds: 6,
  avgDurationSeconds: 2,
  maxDurationSeconds: 4,
  samplesRead: 100,
  peakSamples: 10,
  last: 1,
};

const TOP: TopQueries = {
  since: 0,
  topByCount: [{ ...COST, query: "count" }],
  topBySumDuration: [{ ...COST, query: "time" }],
  topByAvgDuration: [{ ...COST, query: "average" }],
  topBySamples: [{ ...COST, query: "samples" }],
};

const USE: MetricUse = { metricName: "up", queryRequestsCount: 0, queries: 0, dashboards: 0, rules: 0, lastRequestTimestamp: 0 };

describe("expensive queries", () => {
  it("come in the order that is asked for", () => {
    for (const order of ORDERS) expect(order.list(TOP)[0]?.query).toBe(order.name);
    expect(ORDERS.map(({ name, weight }) => [name, weight(COST)])).toEqual([["time", 6], ["average", 2], ["count", 3], ["samples", 100]]);
  });

  it("have somebody who asks", () => {
    expect(originText({ kind: "rule", file: "a.yml", group: "node" })).toBe("rules node");
    const origin = { clientIP: "10.0.0.1", method: "GET", path: "/api/v1/query" };
    expect(originText({ kind: "dashboard", ...origin })).toBe("dashboard from 10.0.0.1");
    expect(originText({ kind: "query", ...origin, clientIP: "" })).toBe("query");
  });
});

describe("a metric", () => {
  it("is used by some or by nobody", () => {
    expect(usersOf(USE)).toBe("nobody");
    expect(usersOf({ ...USE, queries: 1, rules: 5 })).toBe("rules, queries");
    expect(usersOf({ ...USE, dashboards: 2 })).toBe("dashboards");
  });

  it("is found by a part of its name", () => {
    expect(containing(" cpu ")).toBe(".*cpu.*");
    expect(containing("a.b(")).toBe(".*a\\.b\\(.*");
    expect(containing("  ")).toBe("");
  });
});
