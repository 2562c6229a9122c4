// The visible part of the y axis.
import { expect, test } from "vitest";
import { reaching, yRange } from "./scale";

test("zero is in sight when it is near, and not when it is far", () => {
  expect(yRange(1, 10, "lines")[0]).toBe(0);
  expect(yRange(95, 100, "lines")[0]).toBeGreaterThan(90);
  expect(yRange(-10, -1, "lines")[1]).toBe(0);
});

test("there is always a range, and it holds the data", () => {
  for (const mode of ["lines", "stacked", "mirrored"] as const) {
    for (const [min, max] of [[0, 0], [5, 5], [-5, -5], [-3, 8], [0, 1e12], [1e-9, 2e-9], [null, null], [NaN, NaN]] as const) {
      const [low, high] = yRange(min, max, mode);
      expect(low, `${mode} ${min} ${max}`).toBeLessThan(high);
      if (min !== null && max !== null && !Number.isNaN(min)) {
        expect(low).toBeLessThanOrEqual(min);
        expect(high).toBeGreaterThanOrEqual(max);
      }
    }
  }
});

test("what must be seen is in the range", () => {
  expect(reaching(2, 3, [])).toEqual([2, 3]);
  expect(reaching(2, 3, [1, 5])).toEqual([1, 5]);
  expect(reaching(null, null, [4])).toEqual([4, 4]);
  expect(reaching(null, null, [])).toEqual([null, null]);
});

test("a top of one's own", () => {
  expect(yRange(0.01, 0.2, "stacked", (highest) => highest * 2)).toEqual([0, 0.4]);
  expect(yRange(null, null, "stacked", () => 7)).toEqual([0, 7]);
});
