import { describe, expect, it } from "vitest";
import { look, rate, receivers } from "./ingest";

const requests = (write: number, query: number) => ({
  name: "prometheus_http_requests_total",
  metric: [
    { label: [{ name: "handler", value: "/api/v1/write" }, { name: "code", value: "204" }], counter: { value: write } },
    { label: [{ name: "handler", value: "/api/v1/write" }, { name: "code", value: "400" }], counter: { value: 1 } },
    { label: [{ name: "handler", value: "/api/v1/query" }, { name: "code", value: "200" }], counter: { value: query } },
  ],
});

describe("ingest", () => {
  it("has rates between two looks", () => {
    const before = look([requests(10, 5)], 100);
    const after = look([requests(30, 5)], 110);
    expect(rate(before, after, "prometheus_http_requests_total")).toBe(2);
    expect(rate(after, before, "prometheus_http_requests_total")).toBeNull();
    expect(rate(undefined, after, "prometheus_http_requests_total")).toBeNull();
    // After a restart.
    expect(rate(look([requests(99, 5)], 100), after, "prometheus_http_requests_total")).toBeNull();
  });

  it("knows who sends something", () => {
    const after = look([requests(30, 5)], 110);
    expect(receivers(look([requests(10, 5)], 100), after)).toEqual([{ handler: "/api/v1/write", what: "remote write", total: 31, perSecond: 2 }]);
    expect(receivers(undefined, look([], 1))).toEqual([]);
  });
});
