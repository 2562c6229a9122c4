// Queries and metrics that are asked for, in words and in order.
import type { MetricUse, QueryCost, QueryOrigin, TopQueries } from "../api";

/** What the most expensive queries are ordered by: its name in the address and on the page, the list, and what counts in it. */
export interface Order {
  name: string;
  words: string;
  list: (top: TopQueries) => readonly QueryCost[];
  weight: (cost: QueryCost) => number;
}

export const ORDERS: readonly [Order, ...Order[]] = [
  { name: "time", words: "time in all", list: (top) => top.topBySumDuration, weight: (cost) => cost.sumDurationSeconds },
  { name: "average", words: "mean time", list: (top) => top.topByAvgDuration, weight: (cost) => cost.avgDurationSeconds },
  { name: "count", words: "evaluations", list: (top) => top.topByCount, weight: (cost) => cost.count },
  { name: "samples", words: "samples read", list: (top) => top.topBySamples, weight: (cost) => cost.samplesRead },
];

export function originText(origin: QueryOrigin): string {
  if (origin.kind === "rule") return `rules ${origin.group}`;
  const who = origin.clientIP === "" ? "" : ` from ${origin.clientIP}`;
  return origin.kind + who;
}

/** Who asked for a metric, most first; nobody is said in words. */
export function usersOf(use: MetricUse): string {
  const users: readonly (readonly [number, string])[] = [
    [use.dashboards, "dashboards"],
    [use.rules, "rules"],
    [use.queries, "queries"],
  ];
  const asked = users.filter(([count]) => count > 0).sort((a, b) => b[0] - a[0]);
  return asked.length === 0 ? "nobody" : asked.map(([, who]) => who).join(", ");
}

/** An anchored pattern of names that contain `text`, which is no pattern itself. */
export function containing(text: string): string {
  const trimmed = text.trim();
  return trimmed === "" ? "" : `.*${trimmed.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}.*`;
}
