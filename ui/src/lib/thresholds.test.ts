// Thresholds as text.
import { expect, test } from "vitest";
import { formatThresholds, parseThresholds, type Threshold } from "./thresholds";

test("texts are read and written", () => {
  const all: Threshold[] = [{ op: ">", value: 0.5 }, { op: "<=", value: -1e21 }, { op: "==", value: 0 }, { op: "!=", value: 3 }];
  expect(formatThresholds(all)).toBe("> 0.5, <= -1e+21, == 0, != 3");
  expect(parseThresholds(formatThresholds(all))).toEqual(all);
  expect(parseThresholds(">=1,<2")).toEqual([{ op: ">=", value: 1 }, { op: "<", value: 2 }]);
  expect(parseThresholds(" ")).toEqual([]);
});

test("anything else is none", () => {
  for (const text of ["5", ">", "> x", "> 1,", "= 1", "> 1 2", "> Infinity", "> NaN"]) expect(parseThresholds(text), text).toBeNull();
});
