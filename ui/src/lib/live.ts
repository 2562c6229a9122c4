// A moving window over range queries: the whole window once, then only its newest end.
// Invariant: times lie on one grid of the step, so that what was fetched stays where it is while the window moves on.
// The grid's phase follows the scrapes: its newest point is just behind the newest sample, not up to a step before it.
import { useRef } from "preact/hooks";
import { ApiError, queryRange, serverNow } from "../api";
import { extend, toFrame, type Frame } from "./matrix";
import { EAGER_MS, REFRESH_MS, usePoll, type Polled } from "./poll";

export interface LiveData<K extends string> {
  from: number;
  to: number;
  frames: Partial<Record<K, Frame>>;
  /** Questions the server refused; the others are still drawn. */
  errors: Partial<Record<K, string>>;
}

/** Steps asked again each time: scrapes in flight and rates change the newest points after the fact. */
const OVERLAP_STEPS = 4;
/** How long a plot without data is looked for eagerly: a server that just started has none for two scrapes. */
const WARM_UP_MS = 60_000;

/** The points `phase + n * step` to ask at. */
export interface Grid {
  range: number;
  step: number;
  phase: number;
}

/** A scrape's sample can be asked for this long after its timestamp; seconds. */
const SCRAPE_MARGIN = 0.05;
const POLL_MARGIN = 0.35;

/** The grid that lies just behind scrapes like the one at `lastScrape` (null: unknown). */
export function gridFor(range: number, step: number, lastScrape: number | null): Grid {
  const phase = lastScrape === null ? 0 : (lastScrape + SCRAPE_MARGIN) % step;
  return { range, step, phase: Math.round(phase * 1000) / 1000 };
}

/** The last point of the grid that is not after `time`. */
export function pointBefore({ step, phase }: Grid, time: number): number {
  return Math.floor((time - phase) / step) * step + phase;
}

/** Milliseconds from `time` until about `every` seconds later, when a point of the grid has just got its sample. */
export function pollDelayMs(grid: Grid, time: number, every: number): number {
  if (grid.step > every) return every * 1000;
  const point = pointBefore(grid, time + every) + POLL_MARGIN;
  return ((point > time + every / 2 ? point : point + grid.step) - time) * 1000;
}

async function advance<K extends string>(
  queries: Readonly<Partial<Record<K, string>>>,
  grid: Grid,
  signal: AbortSignal,
  last: LiveData<K> | null,
): Promise<LiveData<K>> {
  const { range, step } = grid;
  const to = pointBefore(grid, serverNow());
  const from = to - Math.floor(range / step) * step;
  const next: LiveData<K> = { from, to, frames: {}, errors: {} };
  const one = async (name: K): Promise<void> => {
    const old = last?.frames[name];
    const start = old === undefined || last === null ? from : Math.max(from, last.to - OVERLAP_STEPS * step);
    try {
      const { data } = await queryRange(queries[name] as string, start, to, step, signal);
      const tail = toFrame(data.resultType === "matrix" ? data.result : [], start, to, step);
      next.frames[name] = old === undefined || start === from ? tail : extend(old, tail, from);
    } catch (error) {
      if (!(error instanceof ApiError) || error.passing) throw error;
      next.errors[name] = error.message;
    }
  };
  await Promise.all((Object.keys(queries) as K[]).map(one));
  return next;
}

export function useLive<K extends string>(
  key: string,
  queries: Readonly<Partial<Record<K, string>>>,
  grid: Grid,
): Polled<LiveData<K>> {
  const every = Math.min(60, Math.max(REFRESH_MS / 1000, grid.step));
  const began = useRef(Date.now());
  const next = (data: LiveData<K>): number => {
    const some = Object.keys(queries).every((name) => (data.frames[name as K]?.lines.size ?? 0) > 0);
    return some || Date.now() - began.current > WARM_UP_MS ? pollDelayMs(grid, serverNow(), every) : EAGER_MS;
  };
  return usePoll(
    JSON.stringify([key, grid, queries]),
    (signal, last) => advance(queries, grid, signal, last),
    next,
  );
}
