// When alerts were pending and fired, from the series ALERTS. Invariant: stretches of an alert do not overlap, and fall in the span.
import type { Labels, RangeSeries } from "../api";

/** Seconds that the timeline shows, and between two of its points. */
export const SPAN_S = 24 * 3600;
export const STEP_S = 300;

export interface Stretch {
  state: "pending" | "firing";
  /** Unix seconds; the end is a step behind the last point. */
  from: number;
  to: number;
}

export interface Past {
  labels: Labels;
  stretches: Stretch[];
}

/** Labels of an alert as a key, whatever their order; the state is no part of them. */
export function alertKey(labels: Labels): string {
  const own = Object.entries(labels).filter(([name]) => name !== "__name__" && name !== "alertstate");
  return JSON.stringify(own.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The expression whose range is the history of a rule's alerts: a state counts for every step in which it was seen. */
export const historyQuery = (alertname: string): string => `max_over_time(ALERTS{alertname=${JSON.stringify(alertname)}}[${STEP_S}s])`;

/** What happened to each alert; where a step saw both states, the alert fired. */
export function histories(matrix: readonly RangeSeries[]): Map<string, Past> {
  const states = new Map<string, { labels: Labels; at: Map<number, Stretch["state"]> }>();
  for (const { metric, values } of matrix) {
    const state = metric["alertstate"];
    if (state !== "pending" && state !== "firing") continue;
    const { __name__: _, alertstate: __, ...labels } = metric;
    const key = alertKey(labels);
    const own = states.get(key) ?? { labels, at: new Map<number, Stretch["state"]>() };
    states.set(key, own);
    for (const [time] of values ?? []) if (own.at.get(time) !== "firing") own.at.set(time, state);
  }
  const found = new Map<string, Past>();
  for (const [key, { labels, at }] of states) {
    const stretches: Stretch[] = [];
    for (const [time, state] of [...at].sort(([a], [b]) => a - b)) {
      const last = stretches.at(-1);
      // A point tells of the step before it.
      if (last?.state === state && time - STEP_S <= last.to) last.to = time;
      else stretches.push({ state, from: time - STEP_S, to: time });
    }
    found.set(key, { labels, stretches });
  }
  return found;
}
