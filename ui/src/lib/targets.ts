// Targets with what their scrapes cost: the targets API joined with the synthetic series of each scrape.
import { targets, vector, type InstantSeries, type Target } from "../api";
import { texts } from "./labels";
import { usePoll, type Polled } from "./poll";
import { parseDuration } from "./time";

export interface TargetRow {
  /** Unique among the rows. */
  key: string;
  job: string;
  instance: string;
  target: Target;
  /** Unix seconds; null before the first scrape. */
  lastScrape: number | null;
  /** The last scrape; null where unknown. */
  seconds: number | null;
  bytes: number | null;
  series: number | null;
}

const COSTS = '{__name__=~"scrape_samples_scraped|scrape_response_size_bytes|scrape_body_size_bytes|scrape_duration_seconds",__ignore_usage__=""}';

const identity = (job: string | undefined, instance: string | undefined): string => JSON.stringify([job ?? "", instance ?? ""]);

/** A failed scrape has no size worth showing. */
const told = (value: number | undefined, scraped: boolean): number | null => (scraped && value !== undefined && value > 0 ? value : null);

/** Joins by job and instance; troubled targets first, then by job and instance. */
export function joinTargets(active: readonly Target[], costs: readonly InstantSeries[]): TargetRow[] {
  const byTarget = new Map<string, Map<string, number>>();
  for (const { metric, value } of costs) {
    if (value === undefined) continue;
    const key = identity(metric["job"], metric["instance"]);
    const values = byTarget.get(key) ?? new Map<string, number>();
    values.set(metric["__name__"] ?? "", Number(value[1]));
    byTarget.set(key, values);
  }
  const rows = active.map((target): TargetRow => {
    const job = target.labels["job"] ?? target.scrapePool;
    const instance = target.labels["instance"] ?? target.scrapeUrl;
    const cost = byTarget.get(identity(target.labels["job"], target.labels["instance"]));
    const last = Date.parse(target.lastScrape) / 1000;
    // Go's zero time: year 1.
    const scraped = last > 0;
    return {
      key: `${target.scrapePool} ${target.scrapeUrl} ${JSON.stringify(target.labels)}`,
      job,
      instance,
      target,
      lastScrape: scraped ? last : null,
      seconds: scraped ? target.lastScrapeDuration : (cost?.get("scrape_duration_seconds") ?? null),
      bytes: told(target.lastScrapeBytes, scraped) ?? cost?.get("scrape_response_size_bytes") ?? cost?.get("scrape_body_size_bytes") ?? null,
      series: told(target.lastScrapeSamples, scraped) ?? cost?.get("scrape_samples_scraped") ?? null,
    };
  });
  const trouble = (row: TargetRow): number => (row.target.health === "down" ? 0 : 1);
  return rows.sort(
    (a, b) => trouble(a) - trouble(b) || a.job.localeCompare(b.job) || a.instance.localeCompare(b.instance, undefined, { numeric: true }),
  );
}

export function useTargets(): Polled<TargetRow[]> {
  return usePoll("targets", async (signal) => {
    // Costs are a bonus: without them the targets are still worth showing.
    const [{ data }, costs] = await Promise.all([targets(signal), vector(COSTS, signal).catch(() => [])]);
    return joinTargets(data.activeTargets, costs);
  });
}

/** What all targets cost together; null when none of them tells. */
export function sumOf(rows: readonly TargetRow[], field: "seconds" | "bytes" | "series"): number | null {
  const values = rows.map((row) => row[field]).filter((value) => value !== null);
  return values.length === 0 ? null : values.reduce((a, b) => a + b, 0);
}

/** The targets of one scrape configuration. */
export interface Pool {
  name: string;
  rows: TargetRow[];
  up: number;
  down: number;
  /** What its scrapes cost per second; null where unknown. `seconds` is the time spent scraping. */
  rates: { series: number | null; bytes: number | null; seconds: number | null };
}

/** Pools by name, those with trouble first; rows keep their order. */
export function poolsOf(rows: readonly TargetRow[]): Pool[] {
  const byName = new Map<string, TargetRow[]>();
  for (const row of rows) {
    const pool = byName.get(row.target.scrapePool);
    if (pool === undefined) byName.set(row.target.scrapePool, [row]);
    else pool.push(row);
  }
  const pools = [...byName].map(([name, own]): Pool => {
    const count = (health: Target["health"]): number => own.filter((row) => row.target.health === health).length;
    const rates = { series: rateOf(own, "series"), bytes: rateOf(own, "bytes"), seconds: rateOf(own, "seconds") };
    return { name, rows: own, up: count("up"), down: count("down"), rates };
  });
  return pools.sort((a, b) => Number(b.down > 0) - Number(a.down > 0) || a.name.localeCompare(b.name, undefined, { numeric: true }));
}

/** Each target's last scrape spread over its interval, added up. */
export function rateOf(rows: readonly TargetRow[], field: "seconds" | "bytes" | "series"): number | null {
  let total: number | null = null;
  for (const row of rows) {
    const interval = parseDuration(row.target.scrapeInterval ?? "");
    const value = row[field];
    if (interval !== null && value !== null) total = (total ?? 0) + value / interval;
  }
  return total;
}

/** Every word must occur in the job, instance, URL, error or labels. */
export function matches(row: TargetRow, text: string): boolean {
  return hasWords([row.job, row.instance, row.target.scrapeUrl, row.target.lastError, ...texts(row.target.labels)], text);
}

export function hasWords(parts: readonly string[], text: string): boolean {
  const hay = parts.join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => hay.includes(word));
}
