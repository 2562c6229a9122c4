// Range results on one axis, and windows that move on.
import { describe, expect, test } from "vitest";
import type { RangeSeries } from "../api";
import { axis, combine, extend, latest, stack, sum, toFrame } from "./matrix";

const series = (name: string, values: [number, string][]): RangeSeries => ({ metric: { __name__: name }, values });

test("an axis includes its end when a step lands on it", () => {
  expect(axis(10, 30, 10)).toEqual([10, 20, 30]);
  expect(axis(10, 29, 10)).toEqual([10, 20]);
  expect(axis(10, 9, 10)).toEqual([]);
  expect(axis(0, 0.3, 0.1)).toHaveLength(4);
});

test("gaps, NaN and infinities become nulls", () => {
  const frame = toFrame([series("a", [[10, "1"], [30, "NaN"], [40, "+Inf"], [50, "-2.5"], [99, "7"]])], 10, 50, 10);
  expect(frame.lines.get("a")?.values).toEqual([1, null, null, null, -2.5]);
});

describe("extend", () => {
  const old = toFrame([series("a", [[10, "1"], [20, "2"], [30, "3"]]), series("gone", [[10, "9"]])], 10, 30, 10);

  test("the tail overrules, what is old falls out, series come and go", () => {
    const tail = toFrame([series("a", [[30, "33"], [40, "4"]]), series("born", [[40, "8"]])], 30, 40, 10);
    const next = extend(old, tail, 20);
    expect(next.times).toEqual([20, 30, 40]);
    expect(next.lines.get("a")?.values).toEqual([2, 33, 4]);
    expect(next.lines.get("born")?.values).toEqual([null, null, 8]);
    expect(next.lines.has("gone")).toBe(false);
  });

  test("a value that the tail no longer has is gone", () => {
    const next = extend(old, toFrame([], 30, 40, 10), 10);
    expect(next.lines.get("a")?.values).toEqual([1, 2, null, null]);
  });

  test("many small moves equal one fetch", () => {
    const value = (time: number): [number, string][] => (time % 70 === 0 ? [] : [[time, String(time * 2)]]);
    const fetch = (from: number, to: number) => toFrame([series("a", axis(from, to, 10).flatMap(value))], from, to, 10);
    let frame = fetch(0, 200);
    for (let to = 210; to <= 500; to += 10) frame = extend(frame, fetch(to - 40, to), to - 200);
    expect(frame).toEqual(fetch(300, 500));
  });
});

test("sums and stacks are null only where everything is", () => {
  const a = [1, null, 3, null];
  const b = [10, 20, null, null];
  expect(sum([a, b], 4)).toEqual([11, 20, 3, null]);
  expect(stack([a, b], 4)).toEqual([[1, null, 3, null], [11, 20, 3, null]]);
  expect(combine(4, [a, b], (x, y) => x - y)).toEqual([-9, null, null, null]);
  expect(latest(a)).toBe(3);
  expect(latest([null])).toBeNull();
});
