import { expect, test } from "vitest";
import type { Segment } from "../api";
import { appsOf } from "./segments";

const segment = (app: string | undefined, worker: string, isOn: boolean): Segment => ({
  file: `${worker}.segment`,
  ...(app === undefined ? {} : { app }),
  worker,
  state: app === undefined ? "broken" : worker === "10" ? "dead" : "alive",
  reason: null,
  metrics: app === undefined ? [] : [{ name: "calls_total", type: "counter", series: 2, isOn }, { name: "b", type: "gauge", series: 1, isOn: true }],
});

test("applications have their workers in order, and metrics of all of them", () => {
  const apps = appsOf([segment(undefined, "x", true), segment("shop", "10", false), segment("shop", "9", true), segment("app", "1", true)]);
  expect(apps.map(({ name, alive }) => [name, alive])).toEqual([["app", 1], ["shop", 1], ["", 0]]);
  expect(apps[1]?.segments.map(({ worker }) => worker)).toEqual(["9", "10"]);
  expect(apps[1]?.metrics).toEqual([
    { name: "b", type: "gauge", series: 2, segments: 2, off: 0 },
    { name: "calls_total", type: "counter", series: 4, segments: 2, off: 1 },
  ]);
});
