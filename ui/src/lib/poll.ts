// Asks again and again, politely. Invariants: one question at a time; none while the tab is hidden or the page is paused;
// a question that takes long is asked less often, so that watching never loads the server by more than a tenth.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { createStore, useStore } from "./store";

export type Connection =
  | { state: "waiting" | "ok" }
  | { state: "starting" | "unreachable"; since: number; message: string };

/** What the last requests say about the server; the banner shows it. Times are `Date.now()`. */
export const connection = createStore<Connection>({ state: "waiting" });

/** Live updates on hold by the user's wish. */
export const paused = createStore(false);

export const REFRESH_MS = 5_000;
const RETRY_MS = 3_000;
/** While something is awaited that the next scrape will bring. */
export const EAGER_MS = 2_000;

function noteFailure(error: unknown): void {
  if (!(error instanceof ApiError) || !error.passing) return;
  const before = connection.get();
  const since = "since" in before ? before.since : Date.now();
  const state = error.fault === "starting" ? "starting" : "unreachable";
  connection.set({ state, since, message: error.message });
}

export interface Polled<T> {
  data: T | null;
  error: unknown;
  /** Never answered yet. */
  loading: boolean;
}

/**
 * Runs `ask` at once and then every `interval` ms (0: once; a function decides after each answer) while mounted; a change
 * of `key` starts over and drops the data.
 * `ask` gets the last data, for questions that only need the rest.
 */
export function usePoll<T>(
  key: string,
  ask: (signal: AbortSignal, last: T | null) => Promise<T>,
  interval: number | ((data: T) => number) = REFRESH_MS,
  pausable = true,
): Polled<T> {
  const [polled, setPolled] = useState<Polled<T> & { key: string }>({ key, data: null, error: null, loading: true });
  const isPaused = useStore(paused) && pausable;
  const latest = useRef(ask);
  latest.current = ask;
  const every = useRef(interval);
  every.current = interval;
  const fixed = typeof interval === "number" ? interval : REFRESH_MS;
  const last = useRef<{ key: string; data: T | null }>({ key, data: null });
  if (last.current.key !== key) last.current = { key, data: null };

  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let running = false;
    let missed = false;

    const round = async (): Promise<void> => {
      if (running) return;
      if (document.hidden) {
        missed = true;
        return;
      }
      running = true;
      const began = performance.now();
      let delay = fixed;
      try {
        const data = await latest.current(abort.signal, last.current.data);
        if (abort.signal.aborted) return;
        last.current = { key, data };
        connection.set({ state: "ok" });
        setPolled({ key, data, error: null, loading: false });
        const wanted = typeof every.current === "function" ? every.current(data) : every.current;
        delay = Math.max(wanted, 10 * (performance.now() - began));
      } catch (error) {
        if (abort.signal.aborted) return;
        noteFailure(error);
        setPolled({ key, data: last.current.data, error, loading: false });
        const passing = error instanceof ApiError && error.passing;
        delay = passing ? RETRY_MS : fixed;
        // What is asked only once is asked until it is answered.
        if (fixed === 0 && passing) timer = window.setTimeout(round, delay);
      } finally {
        running = false;
      }
      if (fixed > 0 && (!isPaused || last.current.data === null)) timer = window.setTimeout(round, delay);
    };

    const onVisible = (): void => {
      if (document.hidden || !missed) return;
      missed = false;
      void round();
    };
    document.addEventListener("visibilitychange", onVisible);
    if (!isPaused || last.current.data === null) void round();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [key, fixed, isPaused]);

  return polled.key === key ? polled : { data: null, error: null, loading: true };
}
