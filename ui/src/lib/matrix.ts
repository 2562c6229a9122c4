// Range results on one time axis. Invariant: every series has exactly one value or null per time of the axis.
import { parseNumber, seriesName, type Labels, type RangeSeries } from "../api";

export type Value = number | null;

export interface Line {
  metric: Labels;
  values: Value[];
}

export interface Frame {
  start: number;
  step: number;
  times: number[];
  /** Keyed by the series' full name. */
  lines: Map<string, Line>;
}

/** The times `start, start + step, ..., <= end`. */
export function axis(start: number, end: number, step: number): number[] {
  const count = Math.max(0, Math.floor((end - start) / step + 1e-6) + 1);
  return Array.from({ length: count }, (_, i) => start + i * step);
}

/** Lays a matrix on the axis; infinities and NaN can't be drawn and become gaps. */
export function toFrame(matrix: readonly RangeSeries[], start: number, end: number, step: number): Frame {
  const times = axis(start, end, step);
  const lines = new Map<string, Line>();
  for (const series of matrix) {
    const values = new Array<Value>(times.length).fill(null);
    for (const [time, text] of series.values ?? []) {
      const index = Math.round((time - start) / step);
      const value = parseNumber(text);
      if (index >= 0 && index < values.length && Number.isFinite(value)) values[index] = value;
    }
    lines.set(seriesName(series.metric), { metric: series.metric, values });
  }
  return { start, step, times, lines };
}

/**
 * Continues `old` with `tail`, which overrules it from its own start on, and lets go of what is before `from`.
 * Series without any value left disappear. Both must share the step and be aligned to it.
 */
export function extend(old: Frame, tail: Frame, from: number): Frame {
  const { step } = tail;
  const last = tail.times.at(-1) ?? from;
  const times = axis(from, last, step);
  const lines = new Map<string, Line>();
  const oldShift = Math.round((from - old.start) / step);
  const tailShift = Math.round((tail.start - from) / step);
  for (const name of new Set([...old.lines.keys(), ...tail.lines.keys()])) {
    const before = old.lines.get(name);
    const after = tail.lines.get(name);
    const values = times.map((_, i): Value => {
      if (i >= tailShift) return after?.values[i - tailShift] ?? null;
      return before?.values[i + oldShift] ?? null;
    });
    const metric = (after ?? before)?.metric;
    if (metric !== undefined && values.some((value) => value !== null)) lines.set(name, { metric, values });
  }
  return { start: from, step, times, lines };
}

/** Adds several lines point by point; a point is null only where all of them are. */
export function sum(lines: readonly (readonly Value[])[], length: number): Value[] {
  const total = new Array<Value>(length).fill(null);
  for (const line of lines) {
    for (let i = 0; i < length; i++) {
      const value = line[i];
      if (value !== null && value !== undefined) total[i] = (total[i] ?? 0) + value;
    }
  }
  return total;
}

/** Running sums of lines drawn on top of each other, bottom first. */
export function stack(lines: readonly (readonly Value[])[], length: number): Value[][] {
  const stacked: Value[][] = [];
  for (const line of lines) {
    const below = stacked.at(-1);
    stacked.push(below === undefined ? sum([line], length) : sum([below, line], length));
  }
  return stacked;
}

/** Combines lines point by point; null where one of them is. */
export function combine(length: number, lines: readonly (readonly Value[])[], f: (...values: number[]) => number): Value[] {
  return Array.from({ length }, (_, i) => {
    const at = lines.map((line) => line[i] ?? null);
    return at.some((value) => value === null) ? null : f(...(at as number[]));
  });
}

/** The latest value there is, and null for none. */
export function latest(values: readonly Value[]): Value {
  for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null && values[i] !== undefined) return values[i] as number;
  return null;
}
