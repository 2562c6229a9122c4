// Durations and clock times.
import { describe, expect, test } from "vitest";
import {
  formatAgo, formatClock, formatDateTime, formatDuration, formatTimeTicks, fromInputTime, nextRange, niceStep, parseDuration, toInputTime,
} from "./time";

describe("durations", () => {
  test.each([
    ["15s", 15],
    ["1h30m", 5400],
    ["500ms", 0.5],
    ["1y2w3d", 31536000 + 2 * 604800 + 3 * 86400],
    [" 5m ", 300],
    ["30", 30],
    ["0.5", 0.5],
  ])("parses %s", (text, seconds) => expect(parseDuration(text)).toBe(seconds));

  test.each(["", "abc", "5x", "30m1h", "5m5m", "-5m", "0s", "0", "1.5h", "5 m"])("refuses %j", (text) => {
    expect(parseDuration(text)).toBeNull();
  });

  test.each([
    [5400, "1h30m"],
    [0.5, "500ms"],
    [86400, "1d"],
    [604800, "1w"],
    [604800 + 86400, "8d"],
    [31536000, "1y"],
    [0, "0s"],
  ])("formats %d", (seconds, text) => expect(formatDuration(seconds)).toBe(text));

  test("what is formatted parses back", () => {
    for (let seconds = 1; seconds < 3e7; seconds = Math.ceil(seconds * 1.37)) {
      expect(parseDuration(formatDuration(seconds))).toBe(seconds);
    }
  });
});

test("steps are round and keep to the number of points", () => {
  expect(niceStep(300, 180)).toBe(2);
  expect(niceStep(3600, 250)).toBe(15);
  expect(niceStep(86400 * 365 * 10, 250)).toBe(604800 * 3);
  for (let range = 60; range < 3e8; range *= 1.7) expect(range / niceStep(range, 250)).toBeLessThanOrEqual(250);
});

test("ranges go up and down", () => {
  expect(nextRange(3600, 1)).toBe(7200);
  expect(nextRange(3600, -1)).toBe(1800);
  expect(nextRange(4000, -1)).toBe(3600);
  expect(nextRange(60, -1)).toBe(60);
  expect(nextRange(2592000, 1)).toBe(2592000 * 2);
});

describe("clock", () => {
  // 2026-11-20 18:34:05 UTC, 00:04:05 the next day in Kolkata.
  const time = Date.UTC(2026, 10, 20, 18, 34, 5) / 1000;

  test("is the browser's", () => {
    expect(formatClock(time)).toBe("00:04:05");
    expect(formatDateTime(time)).toBe("2026-11-21 00:04:05");
    expect(fromInputTime(toInputTime(time))).toBe(time);
    expect(fromInputTime("")).toBeNull();
  });

  test("ticks show seconds when close, the day where it changes", () => {
    expect(formatTimeTicks([time, time + 5], 5)).toEqual(["00:04:05", "00:04:10"]);
    expect(formatTimeTicks([time, time + 300], 300)).toEqual(["00:04", "00:09"]);
    expect(formatTimeTicks([time - 600, time, time + 600], 600)).toEqual(["23:54", "11-21", "00:14"]);
    expect(formatTimeTicks([time, time + 86400], 86400)).toEqual(["11-21", "11-22"]);
  });

  test("ago", () => {
    const ago = (seconds: number): string => formatAgo(1000, 1000 + seconds).replace(/\u00a0/g, " ");
    expect([ago(-3), ago(3.4), ago(60), ago(7300), ago(200000)]).toEqual(["0 s ago", "3 s ago", "1 min ago", "2 h ago", "2 d ago"]);
  });
});
