// Histories of alerts.
import { expect, test } from "vitest";
import type { RangeSeries } from "../api";
import { STEP_S, alertKey, histories, historyQuery } from "./timeline";

const series = (labels: Record<string, string>, ...steps: number[]): RangeSeries => ({
  metric: { __name__: "ALERTS", alertname: "Down", ...labels },
  values: steps.map((step) => [step * STEP_S, "1"]),
});

test("neighbouring points of one state are one stretch, and firing wins", () => {
  const found = histories([
    series({ job: "a", alertstate: "pending" }, 1),
    series({ job: "a", alertstate: "firing" }, 2, 3, 4, 7),
    series({ job: "a", alertstate: "pending" }, 2, 9),
    series({ job: "b", alertstate: "firing" }, 5),
    series({ job: "b", alertstate: "inactive" }, 6),
  ]);
  const shown = (job: string) =>
    found.get(alertKey({ job, alertname: "Down" }))?.stretches.map(({ state, from, to }) => [state, from / STEP_S, to / STEP_S]);
  expect(shown("a")).toEqual([["pending", 0, 1], ["firing", 1, 4], ["firing", 6, 7], ["pending", 8, 9]]);
  expect(shown("b")).toEqual([["firing", 4, 5]]);
  expect(found.get(alertKey({ alertname: "Down", job: "b" }))?.labels).toEqual({ alertname: "Down", job: "b" });
});

test("a rule's name is quoted in the query", () => {
  expect(historyQuery('a"b')).toBe('max_over_time(ALERTS{alertname="a\\"b"}[300s])');
});
