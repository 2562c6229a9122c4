// What service discovery found, pool by pool: targets that are scraped, dropped ones and failed ones, with the reason
// if the server tells.
import type { DroppedTarget, Labels, Targets } from "../api";
import { commonLabels, texts } from "./labels";
import { hasWords } from "./targets";

export interface Found {
  key: string;
  discovered: Labels;
  /** After relabelling; null for a target that is dropped or failed. */
  labels: Labels | null;
  /** Why it is not scraped; empty when the server doesn't tell. */
  reason: string;
  /** Whether its labels make no target; dropping is what the configuration wants, failing is not. */
  failed: boolean;
}

export interface DiscoveredPool {
  name: string;
  found: Found[];
  active: number;
  dropped: number;
  failed: number;
  /** Dropped targets by reason, most first; empty when the server doesn't tell. */
  reasons: (readonly [string, number])[];
}

const NO_POOL = "";

function poolOf(dropped: DroppedTarget): string {
  return dropped.scrapePool ?? dropped.discoveredLabels["job"] ?? NO_POOL;
}

/** Pools by name; scraped targets before dropped ones, failed ones last. */
export function discoveredPools(targets: Targets): DiscoveredPool[] {
  const pools = new Map<string, DiscoveredPool>();
  const pool = (name: string): DiscoveredPool => {
    const known = pools.get(name) ?? { name, found: [], active: 0, dropped: 0, failed: 0, reasons: [] };
    pools.set(name, known);
    return known;
  };
  for (const target of targets.activeTargets) {
    const own = pool(target.scrapePool);
    own.active++;
    own.found.push({ key: `+${target.scrapeUrl} ${JSON.stringify(target.labels)}`, discovered: target.discoveredLabels ?? {}, labels: target.labels, reason: "", failed: false });
  }
  const lost = [
    ["dropped", targets.droppedTargets, targets.droppedTargetCounts],
    ["failed", targets.failedTargets, targets.failedTargetCounts],
  ] as const;
  for (const [how, list, counts] of lost) {
    for (const [i, one] of (list ?? []).entries()) {
      const own = pool(poolOf(one));
      own[how]++;
      own.found.push({ key: `${how} ${i}`, discovered: one.discoveredLabels, labels: null, reason: one.reason ?? "", failed: how === "failed" });
    }
    // The counts are complete even where the list is cut.
    for (const [name, count] of Object.entries(counts ?? {})) pool(name)[how] = Math.max(pool(name)[how], count);
  }
  for (const own of pools.values()) own.reasons = reasonsOf(own, targets.droppedTargetReasons?.[own.name]);
  return [...pools.values()].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
}

function reasonsOf(pool: DiscoveredPool, told: Readonly<Record<string, number>> | undefined): (readonly [string, number])[] {
  const counts = new Map(Object.entries(told ?? {}));
  if (told === undefined) {
    for (const { reason, failed } of pool.found) if (reason !== "" && !failed) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count > 0).sort(([a, x], [b, y]) => y - x || a.localeCompare(b));
}

/** Every word must occur in a label, before or after relabelling, or in the reason. */
export function foundMatches(found: Found, text: string): boolean {
  return hasWords([...texts(found.discovered), ...texts(found.labels ?? {}), found.reason], text);
}

/** Labels beginning with `__` that all of these were discovered with: told once instead of in every row. */
export function hiddenInCommon(found: readonly Found[]): Labels {
  return Object.fromEntries(Object.entries(commonLabels(found.map(({ discovered }) => discovered))).filter(([name]) => name.startsWith("__")));
}

/** Labels for showing, in the order of their names: the address first, then what is plain, then what begins with `__`. */
export function ordered(labels: Labels): [string, string][] {
  const rank = (name: string): number => (name === "__address__" ? 0 : name.startsWith("__") ? 2 : 1);
  return Object.entries(labels).sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b));
}
