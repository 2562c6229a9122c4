import { expect, test } from "vitest";
import { thin } from "./thin";

test("of each stretch the lowest, the highest and one between are drawn", () => {
  const marks = [[0, 5], [1, 1], [2, 9], [3, 4], [4, 6], [12, 7]].map(([time, value]) => ({ time: time as number, value: value as number }));
  expect(thin(marks, 0, 20, 2).map(({ value }) => value)).toEqual([5, 1, 9, 7]);
  expect(thin(marks, 0, 20, 1000)).toEqual(marks);
  expect(thin([], 0, 0, 10)).toEqual([]);
});
