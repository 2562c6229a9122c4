// Targets joined with what their scrapes cost.
import { expect, test } from "vitest";
import type { InstantSeries, Target } from "../api";
import { joinTargets, matches, poolsOf, sumOf } from "./targets";

const target = (job: string, instance: string, health: Target["health"], more: Partial<Target> = {}): Target => ({
  labels: { job, instance, zone: "Berlin" },
  scrapePool: job,
  scrapeUrl: `http://${instance}/metrics`,
  health,
  lastError: "",
  lastScrape: "2026-11-20T18:22:43.931745898Z",
  lastScrapeDuration: 0.017,
  ...more,
});
const cost = (name: string, job: string, instance: string, value: string): InstantSeries => ({
  metric: { __name__: name, job, instance },
  value: [0, value],
});

test("costs go to their target; troubled targets come first", () => {
  const rows = joinTargets(
    [target("a", "h10:1", "up"), target("a", "h9:1", "up"), target("b", "h1:1", "down")],
    [cost("scrape_samples_scraped", "a", "h9:1", "507"), cost("scrape_response_size_bytes", "a", "h9:1", "57754"), cost("scrape_samples_scraped", "x", "h9:1", "1")],
  );
  expect(rows.map((row) => row.instance)).toEqual(["h1:1", "h9:1", "h10:1"]);
  expect(rows[1]).toMatchObject({ series: 507, bytes: 57754, seconds: 0.017 });
  expect(rows[2]).toMatchObject({ series: null, bytes: null });
  expect(rows[1]?.lastScrape).toBeCloseTo(Date.UTC(2026, 10, 20, 18, 22, 43) / 1000 + 0.931, 2);
  expect(sumOf(rows, "series")).toBe(507);
  expect(sumOf([], "bytes")).toBeNull();
});

test("a target that was never scraped says so", () => {
  const [row] = joinTargets([target("a", "h:1", "unknown", { lastScrape: "0001-01-01T00:00:00Z" })], []);
  expect(row).toMatchObject({ lastScrape: null, seconds: null });
});

test("the filter wants every word, in any label", () => {
  const [row] = joinTargets([target("node", "vm:9100", "up")], []);
  if (row === undefined) throw new Error("one row");
  expect(matches(row, "")).toBe(true);
  expect(matches(row, "VM node")).toBe(true);
  expect(matches(row, "zone=berlin")).toBe(true);
  expect(matches(row, "vm missing")).toBe(false);
});

test("what the targets API tells itself counts before the synthetic series", () => {
  const told = { lastScrapeBytes: 10, lastScrapeSamples: 3 };
  const costs = [cost("scrape_samples_scraped", "a", "h:1", "507")];
  expect(joinTargets([target("a", "h:1", "up", told)], costs)[0]).toMatchObject({ bytes: 10, series: 3 });
  expect(joinTargets([target("a", "h:1", "down", { lastScrapeBytes: 0, lastScrapeSamples: 0 })], [])[0]).toMatchObject({ bytes: null, series: null });
});

test("pools: trouble first, costs per second", () => {
  const each = { scrapeInterval: "10s", lastScrapeBytes: 1000, lastScrapeSamples: 50 };
  const pools = poolsOf(joinTargets(
    [target("a", "h1:1", "up", each), target("a", "h2:1", "unknown", { ...each, scrapeInterval: "1m" }), target("b", "h3:1", "down", { lastScrapeSamples: 5 })],
    [],
  ));
  expect(pools.map(({ name, up, down, rows }) => [name, up, down, rows.length])).toEqual([["b", 0, 1, 1], ["a", 1, 0, 2]]);
  expect(pools[1]?.rates.bytes).toBeCloseTo(100 + 1000 / 60, 9);
  expect(pools[1]?.rates.seconds).toBeCloseTo(0.0017 + 0.017 / 60, 9);
  // Without an interval there is no rate.
  expect(pools[0]?.rates.series).toBeNull();
});
