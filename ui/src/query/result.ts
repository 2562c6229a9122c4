// A panel's question to the server, asked again when anything in it changes.
import { useRef, useState } from "preact/hooks";
import { ApiError, STATS, TRACE, exemplars, query, queryRange, serverNow, type Answer, type ExemplarSeries, type QueryData } from "../api";
import { REFRESH_MS, usePoll } from "../lib/poll";
import { stepOf, type PanelState } from "./state";

export interface Result {
  answer: Answer<QueryData>;
  tab: PanelState["tab"];
  /** The range asked, for graphs. */
  from: number;
  to: number;
  step: number;
  exemplars: readonly ExemplarSeries[];
}

async function ask(state: PanelState, signal: AbortSignal): Promise<Result> {
  const { expr, tab } = state;
  const step = stepOf(state);
  if (tab === "table") {
    return { answer: await query(expr, state.end ?? undefined, signal, STATS), tab, from: 0, to: 0, step, exemplars: [] };
  }
  const to = Math.floor((state.end ?? serverNow()) / step) * step;
  const from = to - Math.floor(state.range / step) * step;
  const [answer, found] = await Promise.all([
    queryRange(expr, from, to, step, signal, tab === "explain" ? TRACE : STATS),
    // A graph without exemplars is better than none.
    tab === "graph" && state.exemplars ? exemplars(expr, from, to, signal).catch(() => []) : [],
  ]);
  return { answer, tab, from, to, step, exemplars: found };
}

export interface Asked {
  /** The last answer to this very question; null while it is asked. */
  answer: Answer<QueryData> | null;
  /** What to show: while a changed range or step is evaluated, the last result of the same expression. */
  shown: Result | null;
  loading: boolean;
  /** The server's refusal; a server that is away is the banner's business. */
  refused: ApiError | null;
  /** Asks the same again. */
  again: () => void;
}

export function useResult(state: PanelState): Asked {
  const [turn, setTurn] = useState(0);
  const asked = state.expr !== "";
  const key = JSON.stringify([
    state.expr, state.tab, state.end, state.tab === "table" ? 0 : [state.range, state.step, state.density], state.tab === "graph" && state.exemplars, turn,
  ]);
  const polled = usePoll<Result | null>(
    key,
    (signal) => (asked ? ask(state, signal) : Promise.resolve(null)),
    state.live && asked ? REFRESH_MS : 0,
    false,
  );
  const kept = useRef<{ question: string; result: Result } | null>(null);
  const question = JSON.stringify([state.expr, state.tab]);
  if (polled.data !== null) kept.current = { question, result: polled.data };
  else if (!polled.loading || kept.current?.question !== question) kept.current = null;
  const refused = polled.error instanceof ApiError && !polled.error.passing ? polled.error : null;
  return {
    answer: polled.data?.answer ?? null,
    shown: refused === null ? (kept.current?.result ?? null) : null,
    loading: asked && polled.loading,
    refused,
    again: () => setTurn(turn + 1),
  };
}
