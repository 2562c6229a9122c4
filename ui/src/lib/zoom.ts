// Ranges of time that the mouse or keys ask for. Invariants: a range never gets shorter than a second nor longer than ten
// years, and zooming keeps the time below the pointer where it is.

export interface TimeRange {
  from: number;
  to: number;
}

const LEAST = 1;
const MOST = 10 * 365 * 86_400;

/** Shorter for a `factor` below 1, longer above; `at` stays where it is. */
export function zoomed({ from, to }: TimeRange, at: number, factor: number): TimeRange {
  const span = to - from;
  const next = Math.min(MOST, Math.max(LEAST, span * factor));
  const part = span === 0 ? 0.5 : (at - from) / span;
  return { from: at - next * part, to: at + next * (1 - part) };
}

/** Moved by a part of its length, to later times above 0. */
export function panned({ from, to }: TimeRange, part: number): TimeRange {
  const by = (to - from) * part;
  return { from: from + by, to: to + by };
}

/** What a key asks for; null for keys that mean something else. */
export function keyed(range: TimeRange, key: string, shift: boolean): TimeRange | null {
  const middle = (range.from + range.to) / 2;
  if (key === "+" || key === "=") return zoomed(range, middle, 0.5);
  if (key === "-" || key === "_") return zoomed(range, middle, 2);
  if (shift && key === "ArrowLeft") return panned(range, -0.25);
  if (shift && key === "ArrowRight") return panned(range, 0.25);
  return null;
}
