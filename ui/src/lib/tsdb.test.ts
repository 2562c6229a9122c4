// Storage figures.
import { expect, test } from "vitest";
import { blockRows, isTime, pairSelector } from "./tsdb";

test("an empty head has no times", () => {
  expect([9223372036854775807, -9223372036854775808, NaN].map(isTime)).toEqual([false, false, false]);
  expect(isTime(0)).toBe(true);
});

test("pairs may hold anything behind their first sign of equality", () => {
  expect(pairSelector('le=a="b"')).toBe('le="a=\\"b\\""');
  expect(pairSelector("job=")).toBe('job=""');
});

test("blocks, newest first, unknown figures told as such", () => {
  const rows = blockRows([
    { ulid: "A", minTime: 0, maxTime: 7_200_000, stats: { numSeries: 3 }, compaction: { level: 2 } },
    { ulid: "B", minTime: 7_200_000, maxTime: 14_400_000 },
  ]);
  expect(rows).toEqual([
    { ulid: "B", from: 7200, seconds: 7200, level: null, series: null, samples: null },
    { ulid: "A", from: 0, seconds: 7200, level: 2, series: 3, samples: null },
  ]);
});
