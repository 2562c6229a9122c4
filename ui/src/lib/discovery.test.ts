// What discovery found, by pool.
import { expect, test } from "vitest";
import type { Target } from "../api";
import { discoveredPools, foundMatches, hiddenInCommon, ordered } from "./discovery";

const active = (pool: string, address: string): Target => ({
  discoveredLabels: { __address__: address, __meta_zone: "Berlin" },
  labels: { job: pool, instance: address },
  scrapePool: pool,
  scrapeUrl: `http://${address}/metrics`,
  health: "up",
  lastError: "",
  lastScrape: "2026-11-20T18:22:43Z",
  lastScrapeDuration: 0.01,
});

test("pools hold what is scraped and what is not, with counts that are complete", () => {
  const pools = discoveredPools({
    activeTargets: [active("b", "h1:1"), active("a", "h2:1")],
    droppedTargets: [
      { discoveredLabels: { __address__: "h3:1" }, scrapePool: "a", reason: "relabelling" },
      { discoveredLabels: { __address__: "h4:1", job: "a" } },
    ],
    droppedTargetCounts: { a: 7, c: 3 },
    failedTargets: [{ discoveredLabels: {}, scrapePool: "b", reason: "no address" }],
    failedTargetCounts: { b: 2 },
  });
  expect(pools.map(({ name, active: up, dropped, failed, reasons }) => [name, up, dropped, failed, reasons])).toEqual([
    ["a", 1, 7, 0, [["relabelling", 1]]],
    ["b", 1, 0, 2, []],
    ["c", 0, 3, 0, []],
  ]);
  const shown = (at: number) => pools[at]?.found.map(({ labels, reason, failed }) => [labels === null, reason, failed]);
  expect(shown(0)).toEqual([[false, "", false], [true, "relabelling", false], [true, "", false]]);
  expect(shown(1)).toEqual([[false, "", false], [true, "no address", true]]);
});

test("reasons come from the server's own counts where it has them", () => {
  const [pool] = discoveredPools({
    activeTargets: [],
    droppedTargets: null,
    droppedTargetCounts: { a: 3 },
    droppedTargetReasons: { a: { duplicate: 1, relabelling: 2, other: 0 } },
  });
  expect(pool?.reasons).toEqual([["relabelling", 2], ["duplicate", 1]]);
});

test("the filter looks at both sides of relabelling", () => {
  const [pool] = discoveredPools({ activeTargets: [active("node", "h:9100")] });
  const found = pool?.found[0];
  if (found === undefined) throw new Error("one target");
  for (const text of ["berlin", "job=node", "__meta h:91", ""]) expect(foundMatches(found, text), text).toBe(true);
  expect(foundMatches(found, "paris")).toBe(false);
});

test("what all were discovered with is told once", () => {
  const [pool] = discoveredPools({ activeTargets: [active("a", "h1:1"), active("a", "h2:1")] });
  expect(hiddenInCommon(pool?.found ?? [])).toEqual({ __meta_zone: "Berlin" });
  expect(hiddenInCommon(pool?.found.slice(1) ?? [])).toEqual({});
});

test("labels: the address, plain names, then the others", () => {
  expect(ordered({ __meta_a: "1", job: "j", __address__: "h", a: "2" }).map(([name]) => name)).toEqual(["__address__", "a", "job", "__meta_a"]);
});
