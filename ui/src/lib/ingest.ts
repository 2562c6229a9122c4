// What a server takes in and answers, from its own counters: rates are differences between two looks at them.
// Invariant: a counter that became less, after a restart, has no rate until the next look.
import type { OwnFamily } from "../api";

export interface Look {
  /** Unix seconds. */
  at: number;
  /** By name, and by name and handler. */
  counters: ReadonlyMap<string, number>;
}

/** Families that the overview needs, as an anchored pattern. */
export const OWN_METRICS =
  "prometheus_tsdb_head_samples_appended_total|prometheus_tsdb_head_series|prometheus_tsdb_head_series_created_total|prometheus_http_requests_total|prometheus_engine_queries";

export function look(families: readonly OwnFamily[], at: number): Look {
  const counters = new Map<string, number>();
  const add = (key: string, value: number): void => void counters.set(key, (counters.get(key) ?? 0) + value);
  for (const { name, metric } of families) {
    for (const { label, counter, gauge } of metric) {
      const value = Number(counter?.value ?? gauge?.value ?? 0);
      add(name, value);
      const handler = label?.find((one) => one.name === "handler")?.value;
      if (handler !== undefined) add(`${name} ${handler}`, value);
    }
  }
  return { at, counters };
}

/** Per second between two looks; null where there is none. */
export function rate(before: Look | undefined, after: Look | undefined, key: string): number | null {
  const [from, to] = [before?.counters.get(key), after?.counters.get(key)];
  if (before === undefined || after === undefined || to === undefined || after.at <= before.at) return null;
  const grown = to - (from ?? 0);
  return grown < 0 ? null : grown / (after.at - before.at);
}

export interface Receiver {
  handler: string;
  what: string;
  total: number;
  perSecond: number | null;
}

const RECEIVERS: readonly (readonly [RegExp, string])[] = [
  [/^\/api\/v1\/write$/, "remote write"],
  [/^\/api\/v1\/push$/, "batches of pushes"],
  [/^\/metrics\/job/, "pushes"],
  [/^\/api\/v1\/otlp/, "OTLP"],
];

/** Who sends something here, and how often. */
export function receivers(before: Look | undefined, after: Look): Receiver[] {
  const found: Receiver[] = [];
  for (const [key, total] of after.counters) {
    const handler = key.startsWith("prometheus_http_requests_total ") ? key.slice("prometheus_http_requests_total ".length) : null;
    const what = RECEIVERS.find(([path]) => handler !== null && path.test(handler))?.[1];
    if (handler !== null && what !== undefined && total > 0) found.push({ handler, what, total, perSecond: rate(before, after, key) });
  }
  return found.sort((a, b) => b.total - a.total);
}
