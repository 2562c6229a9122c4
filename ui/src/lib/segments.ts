// Segments put together by application.
// Invariant: a metric is on only where it is on in every segment that has it.
import type { Segment } from "../api";

export interface App {
  name: string;
  segments: readonly Segment[];
  alive: number;
  metrics: readonly AppMetric[];
}

export interface AppMetric {
  name: string;
  type: string;
  series: number;
  /** In how many segments it is, and in how many of them it is off. */
  segments: number;
  off: number;
}

/** Applications by name; segments whose header cannot be read are last, without one. */
export function appsOf(segments: readonly Segment[]): readonly App[] {
  const names = [...new Set(segments.map(({ app }) => app ?? ""))];
  names.sort((a, b) => Number(a === "") - Number(b === "") || a.localeCompare(b));
  return names.map((name) => {
    const own = segments.filter(({ app }) => (app ?? "") === name);
    const order = (a: Segment, b: Segment) => (a.worker ?? a.file).localeCompare(b.worker ?? b.file, undefined, { numeric: true });
    return { name, segments: own.sort(order), alive: own.filter(({ state }) => state === "alive").length, metrics: metricsOf(own) };
  });
}

function metricsOf(segments: readonly Segment[]): readonly AppMetric[] {
  const found = new Map<string, AppMetric>();
  for (const { name, type, series, isOn } of segments.flatMap(({ metrics }) => metrics)) {
    const before = found.get(name);
    found.set(name, {
      name,
      type,
      series: (before?.series ?? 0) + series,
      segments: (before?.segments ?? 0) + 1,
      off: (before?.off ?? 0) + (isOn ? 0 : 1),
    });
  }
  return [...found.values()].sort((a, b) => a.name.localeCompare(b.name));
}
