// Progress of the replay.
import { expect, test } from "vitest";
import { replayed } from "./replay";

test("files are counted from the first that is there", () => {
  expect(replayed({ min: 7, max: 9, current: 8 })).toEqual({ read: 2, files: 3 });
  expect(replayed({ min: 7, max: 7, current: 7 })).toEqual({ read: 1, files: 1 });
  expect(replayed({ min: 7, max: 9, current: 0 })).toEqual({ read: 1, files: 3 });
});

test("without a log there is nothing to tell", () => {
  expect(replayed({ min: 0, max: 0, current: 0 })).toBeNull();
});
