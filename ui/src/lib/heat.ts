// Histograms over time as a grid: how many observations fell into each bucket at each time. Native histograms have buckets
// of their own at each time; classic ones are series with a label `le` that count everything below.
// Invariant: cells are never negative; bounds ascend.
import { parseNumber, type RangeSeries } from "../api";
import { axis } from "./matrix";
import type { Unit } from "./units";

export interface HeatCell {
  /** Index into the times. */
  at: number;
  low: number;
  high: number;
  count: number;
}

export interface Heat {
  times: number[];
  step: number;
  cells: HeatCell[];
  /** The greatest count. */
  most: number;
  /** The bounds that cells have, ascending and finite. */
  bounds: number[];
}

/** Whether a result can be drawn as a heat map: native histograms, or series with `le`. */
export function isHeat(matrix: readonly RangeSeries[]): "native" | "classic" | null {
  if (matrix.some((series) => (series.histograms ?? []).length > 0)) return "native";
  const classic = matrix.filter((series) => series.metric["le"] !== undefined);
  return classic.length > 1 && classic.length === matrix.length ? "classic" : null;
}

/** Adds all series up; other labels than `le` do not matter. */
export function toHeat(matrix: readonly RangeSeries[], start: number, end: number, step: number): Heat {
  const times = axis(start, end, step);
  const place = (time: number): number => {
    const at = Math.round((time - start) / step);
    return at >= 0 && at < times.length ? at : -1;
  };
  const cells = isHeat(matrix) === "native" ? nativeCells(matrix, place) : classicCells(matrix, place, times.length);
  const bounds = [...new Set(cells.flatMap((cell) => [cell.low, cell.high]))].filter(Number.isFinite).sort((a, b) => a - b);
  return { times, step, cells, bounds, most: cells.reduce((most, cell) => Math.max(most, cell.count), 0) };
}

function nativeCells(matrix: readonly RangeSeries[], place: (time: number) => number): HeatCell[] {
  const found = new Map<string, HeatCell>();
  for (const series of matrix) {
    for (const [time, histogram] of series.histograms ?? []) {
      const at = place(time);
      if (at < 0) continue;
      for (const [, low, high, count] of histogram.buckets ?? []) add(found, { at, low: parseNumber(low), high: parseNumber(high), count: parseNumber(count) });
    }
  }
  return [...found.values()];
}

function add(found: Map<string, HeatCell>, cell: HeatCell): void {
  if (!(cell.count > 0)) return;
  const key = `${cell.at} ${cell.low} ${cell.high}`;
  const known = found.get(key);
  if (known === undefined) found.set(key, cell);
  else known.count += cell.count;
}

function classicCells(matrix: readonly RangeSeries[], place: (time: number) => number, length: number): HeatCell[] {
  // Everything below a bound, summed over all series that have it.
  const below = new Map<number, (number | null)[]>();
  for (const series of matrix) {
    const bound = parseNumber(series.metric["le"] ?? "");
    if (Number.isNaN(bound)) continue;
    const counts = below.get(bound) ?? new Array<number | null>(length).fill(null);
    below.set(bound, counts);
    for (const [time, text] of series.values ?? []) {
      const at = place(time);
      const count = parseNumber(text);
      if (at >= 0 && Number.isFinite(count)) counts[at] = (counts[at] ?? 0) + count;
    }
  }
  const bounds = [...below.keys()].sort((a, b) => a - b);
  const cells: HeatCell[] = [];
  for (let at = 0; at < length; at++) {
    let before = 0;
    let low = bounds[0] !== undefined && bounds[0] > 0 ? 0 : -Infinity;
    for (const high of bounds) {
      const upTo = below.get(high)?.[at] ?? null;
      if (upTo === null) continue;
      if (upTo > before) cells.push({ at, low, high, count: upTo - before });
      before = Math.max(before, upTo);
      low = high;
    }
  }
  return cells;
}

/**
 * Where values are on an axis of 0 to 1: logarithmic when all finite bounds are positive and far apart, else even by rank.
 * There is room below the least and above the greatest bound where `open` says so.
 */
export function heatScale(bounds: readonly number[], open: { below: boolean; above: boolean }): (value: number) => number {
  const positive = bounds.filter((bound) => bound > 0);
  const [least, most] = [positive[0], positive.at(-1)];
  const hasNegative = bounds.some((bound) => bound < 0);
  if (least !== undefined && most !== undefined && !hasNegative && most / least > 4) {
    // Below the first bound there is one row as high as the others are on average.
    const span = Math.log(most / least);
    const room = span / Math.max(1, positive.length - 1);
    const below = open.below || bounds[0] === 0 ? room : 0;
    const whole = span + below + (open.above ? room : 0);
    return (value) => {
      if (value <= 0) return 0;
      if (value === Infinity) return 1;
      return Math.min(1, Math.max(0, (Math.log(value / least) + below) / whole));
    };
  }
  const first = open.below ? 1 : 0;
  const count = Math.max(1, bounds.length - 1 + first + (open.above ? 1 : 0));
  return (value) => {
    if (value === -Infinity) return 0;
    if (value === Infinity) return 1;
    const rank = bounds.findIndex((bound) => bound >= value);
    return ((rank < 0 ? bounds.length - 1 : rank) + first) / count;
  };
}

/** What the buckets are of, by the metric's name; the values themselves are counts. */
export function heatUnit(expr: string): Unit {
  if (/_seconds(_bucket)?\b/.test(expr)) return "seconds";
  return /_bytes(_bucket)?\b/.test(expr) ? "bytes" : "number";
}
