// A moving window over range queries: the whole window once, then only its newest end.
// Invariant: times are multiples of the step, so that what was fetched stays where it is while the window moves on.
import { ApiError, queryRange, serverNow } from "../api";
import { extend, toFrame, type Frame } from "./matrix";
import { REFRESH_MS, usePoll, type Polled } from "./poll";

export interface LiveData<K extends string> {
  from: number;
  to: number;
  frames: Partial<Record<K, Frame>>;
  /** Questions the server refused; the others are still drawn. */
  errors: Partial<Record<K, string>>;
}

/** Steps asked again each time: scrapes in flight and rates change the newest points after the fact. */
const OVERLAP_STEPS = 4;

async function advance<K extends string>(
  queries: Readonly<Record<K, string>>,
  range: number,
  step: number,
  signal: AbortSignal,
  last: LiveData<K> | null,
): Promise<LiveData<K>> {
  const to = Math.floor(serverNow() / step) * step;
  const from = to - Math.floor(range / step) * step;
  const next: LiveData<K> = { from, to, frames: {}, errors: {} };
  const one = async (name: K): Promise<void> => {
    const old = last?.frames[name];
    const start = old === undefined || last === null ? from : Math.max(from, last.to - OVERLAP_STEPS * step);
    try {
      const { data } = await queryRange(queries[name], start, to, step, signal);
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
  queries: Readonly<Record<K, string>>,
  range: number,
  step: number,
): Polled<LiveData<K>> {
  const every = Math.min(60_000, Math.max(REFRESH_MS, step * 1000));
  return usePoll(
    JSON.stringify([key, range, step, queries]),
    (signal, last) => advance(queries, range, step, signal, last),
    every,
  );
}
