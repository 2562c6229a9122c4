// The query page's state in the URL.
import { expect, test } from "vitest";
import { readState, stepOf, writeState, type QueryState } from "./state";

test("defaults leave only the expression", () => {
  const written = Object.entries(writeState(readState({ expr: "up" }))).filter(([, value]) => value !== undefined);
  expect(written).toEqual([["expr", "up"]]);
});

test("every part comes back", () => {
  const state: QueryState = {
    expr: "rate(x[5m])", tab: "graph", range: 5400, end: 1795199500.5, step: 15, stacked: true, unit: "bytes/s", live: true,
  };
  const params = Object.fromEntries(Object.entries(writeState(state)).filter(([, value]) => value !== undefined));
  expect(readState(params)).toEqual(state);
});

test("nonsense becomes a default", () => {
  expect(readState({ tab: "x", range: "-1", end: "soon", step: "0", unit: "miles" })).toEqual(readState({}));
});

test("steps never ask for more than a server gives", () => {
  const state = readState({ expr: "up", range: "1h" });
  expect(stepOf(state)).toBe(15);
  expect(stepOf({ ...state, step: 60 })).toBe(60);
  expect(state.range / stepOf({ ...state, range: 86400 * 30, step: 1 })).toBeLessThan(11_000);
  expect((86400 * 30) / stepOf({ ...state, range: 86400 * 30, step: 1 })).toBeLessThan(11_000);
});
