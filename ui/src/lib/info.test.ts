// What servers tell about themselves.
import { expect, test } from "vitest";
import { infoRows, isSet, uptime } from "./info";

test("known names first and readable, unknown ones as they are, nothing empty", () => {
  const rows = infoRows({
    novelty: "x",
    GOMEMLIMIT: 2 ** 63,
    GOGC: "",
    goroutineCount: 1234,
    reloadConfigSuccess: false,
    lastConfigTime: "0001-01-01T00:00:00Z",
    startTime: "2026-11-20T08:00:00.5Z",
    nested: { a: 1 },
    GOMAXPROCS: 0,
    corruptionCount: 0,
  });
  expect(rows.map(({ title, value }) => [title, value])).toEqual([
    ["Started", "2026-11-20 13:30:00"],
    ["Last reload of the configuration", "failed"],
    ["Damaged files found", "0"],
    ["Goroutines", "1\u202f234"],
    ["novelty", "x"],
  ]);
});

test("uptime", () => {
  expect(uptime("2026-11-20T08:00:00Z", Date.UTC(2026, 10, 21, 9) / 1000)).toBe("1\u00a0d 1\u00a0h");
  expect(uptime(undefined, 0)).toBe("");
});

test("flags that are set", () => {
  expect(["15d", "true", "0.0.0.0:9090", "info"].map(isSet)).toEqual([true, true, true, true]);
  expect(["", "false", "0", "0s"].map(isSet)).toEqual([false, false, false, false]);
});
