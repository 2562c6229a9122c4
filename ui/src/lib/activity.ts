// Queries and metrics that are asked for, in words and in order.
import type { MetricUse, QueryCost, QueryOrigin, TopQueries } from "../api";

/** What the most expensive queries are ordered by. */
export const ORDERS = ["time", "average", "count", "samples"] as const;
export type Order = (typeof ORDERS)[number];

export const ORDER_WORDS: Readonly<Record<Order, string>> = {
  time: "time in all",
  average: "mean time",
  count: "evaluations",
  samples: "samples read",
};

export function costsBy(top: TopQueries, order: Order): readonly QueryCost[] {
  switch (order) {
    case "time":
      return top.topBySumDuration;
    case "average":
      return top.topByAvgDuration;
    case "count":
      return top.topByCount;
    case "samples":
      return top.topBySamples;
  }
}

/** What a query is ordered by. */
export function weightOf(cost: QueryCost, order: Order): number {
  switch (order) {
    case "time":
      return cost.sumDurationSeconds;
    case "average":
      return cost.avgDurationSeconds;
    case "count":
      return cost.count;
    case "samples":
      return cost.samplesRead;
  }
}

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
