// The query page's state as it stands in the URL. Invariant: defaults are left out, so a plain query has a short link.
import { formatDuration, niceStep, parseDuration } from "../lib/time";
import { UNITS, type Unit } from "../lib/units";

export interface QueryState {
  expr: string;
  tab: "table" | "graph";
  /** Seconds. */
  range: number;
  /** Unix seconds; null follows the clock. */
  end: number | null;
  /** Seconds; null chooses by range. */
  step: number | null;
  stacked: boolean;
  /** Null guesses from the expression. */
  unit: Unit | null;
  /** Asks again every few seconds. */
  live: boolean;
}

export const DEFAULT_RANGE = 3600;
/** What the server refuses is 11,000; a screen shows a few hundred. */
const POINTS = 250;
const MAX_POINTS = 11_000;

type Params = Readonly<Record<string, string | undefined>>;

export function readState(params: Params): QueryState {
  const end = Number(params["end"] ?? NaN);
  const unit = UNITS.find((one) => one === params["unit"]) ?? null;
  return {
    expr: params["expr"] ?? "",
    tab: params["tab"] === "graph" ? "graph" : "table",
    range: parseDuration(params["range"] ?? "") ?? DEFAULT_RANGE,
    end: Number.isFinite(end) && end > 0 ? end : null,
    step: parseDuration(params["step"] ?? ""),
    stacked: params["stacked"] === "1",
    unit,
    live: params["live"] === "1",
  };
}

export function writeState(state: QueryState): Record<string, string | undefined> {
  return {
    expr: state.expr,
    tab: state.tab === "table" ? undefined : state.tab,
    range: state.range === DEFAULT_RANGE ? undefined : formatDuration(state.range),
    end: state.end === null ? undefined : String(Math.round(state.end * 1000) / 1000),
    step: state.step === null ? undefined : formatDuration(state.step),
    stacked: state.stacked ? "1" : undefined,
    unit: state.unit ?? undefined,
    live: state.live ? "1" : undefined,
  };
}

/** The step in effect: the wanted one unless it asks for more points than a server gives. */
export function stepOf(state: QueryState): number {
  const step = state.step ?? niceStep(state.range, POINTS);
  return state.range / step > MAX_POINTS - 1 ? niceStep(state.range, MAX_POINTS - 1) : step;
}

const HISTORY_KEY = "narthex.queries";
const HISTORY_LENGTH = 12;

export function recentQueries(): string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(HISTORY_KEY) ?? "[]");
    return Array.isArray(stored) ? stored.filter((one) => typeof one === "string").slice(0, HISTORY_LENGTH) : [];
  } catch {
    return [];
  }
}

export function rememberQuery(expr: string): void {
  const recent = [expr, ...recentQueries().filter((one) => one !== expr)].slice(0, HISTORY_LENGTH);
  try {
    localStorage.setItem(HISTORY_KEY, JSON.stringify(recent));
  } catch {
    // Without storage there is no history; nothing else depends on it.
  }
}
