// The grid of a moving window.
import { describe, expect, test } from "vitest";
import { gridFor, pointBefore, pollDelayMs } from "./live";

describe("the grid", () => {
  const scrape = 1795199500 + 3.217;
  const grid = gridFor(300, 5, scrape);

  test("lies just behind the scrapes", () => {
    for (let n = 0; n < 50; n++) {
      const point = pointBefore(grid, scrape + n * 5 + 0.2);
      expect(point - (scrape + n * 5)).toBeCloseTo(0.05, 2);
    }
    expect(pointBefore(grid, scrape + 4.9)).toBeCloseTo(scrape + 0.05, 2);
  });

  test("is that of the clock without a scrape to follow", () => {
    expect(pointBefore(gridFor(300, 5, null), 1004.9)).toBe(1000);
  });

  test("is polled just behind a point, about every 5 s, without drift", () => {
    let time = scrape + 1;
    for (let n = 0; n < 20; n++) {
      const wait = pollDelayMs(grid, time, 5) / 1000;
      expect(wait).toBeGreaterThan(2.5);
      expect(wait).toBeLessThanOrEqual(5.4);
      time += wait;
      expect(time - pointBefore(grid, time)).toBeCloseTo(0.35, 5);
      // The answer takes a moment.
      time += 0.02 * n;
    }
  });

  test("is found again from anywhere between two points", () => {
    for (let offset = 0; offset < 5; offset += 0.25) {
      const wait = pollDelayMs(grid, scrape + offset, 5) / 1000;
      expect(wait, `${offset}`).toBeGreaterThan(2.5);
      expect(wait, `${offset}`).toBeLessThan(7.6);
      expect(scrape + offset + wait - pointBefore(grid, scrape + offset + wait)).toBeCloseTo(0.35, 5);
    }
  });

  test("coarser than the polling keeps to the polling", () => {
    expect(pollDelayMs(gridFor(86400, 600, null), 1000.2, 60)).toBe(60_000);
  });

  test("finer than the polling keeps to the polling", () => {
    const wait = pollDelayMs(gridFor(300, 1, null), 1000.2, 5);
    expect(wait).toBeGreaterThan(4000);
    expect(wait).toBeLessThan(5400);
  });
});
