// The server's accounts of a query, in the order of its work.
import { expect, test } from "vitest";
import { statRows } from "./cost";

test("known names have titles, unknown ones come last, other things are left out", () => {
  const order = [["a", "First"], ["b", "Second"]] as const;
  expect(statRows({ z: 3, b: 2, perStep: [[1, 2]], a: 1 }, order)).toEqual([["First", 1], ["Second", 2], ["z", 3]]);
  expect(statRows(undefined, order)).toEqual([]);
});
