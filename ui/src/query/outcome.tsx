// A query's result: what the server said beside it, then a table or a graph; or why there is none.
import { useMemo } from "preact/hooks";
import type { Answer, ApiError } from "../api";
import { Notice } from "../components/controls";
import { toFrame } from "../lib/matrix";
import type { ErrorSpot } from "../lib/parse_error";
import { guessUnit } from "../lib/units";
import { ResultGraph, describe } from "./graph";
import type { Result } from "./result";
import type { PanelState } from "./state";
import { ResultTable } from "./table";

const FIRST_NOTES = 3;

/** What the server said beside the result: warnings first. */
function Annotations({ warnings, infos }: Pick<Answer<unknown>, "warnings" | "infos">) {
  const all = [...warnings, ...infos].map((text, i) => (
    <Notice key={text} tone={i < warnings.length ? "warn" : "info"} title={text} />
  ));
  const rest = all.slice(FIRST_NOTES);
  return (
    <>
      {all.slice(0, FIRST_NOTES)}
      {rest.length > 0 && (
        <details class="more-notes">
          <summary>{rest.length} more</summary>
          {rest}
        </details>
      )}
    </>
  );
}

export function Outcome({ result, state, change }: { result: Result; state: PanelState; change: (part: Partial<PanelState>) => void }) {
  const { answer, tab, from, to, step } = result;
  const { data } = answer;
  const frame = useMemo(
    () => (tab === "graph" && data.resultType === "matrix" ? toFrame(data.result, from, to, step) : null),
    [result],
  );
  const zoom = (start: number, end: number): void => change({ range: Math.max(1, Math.round(end - start)), end: Math.round(end), live: false });
  const unit = state.unit ?? guessUnit(state.expr);
  return (
    <>
      <Annotations warnings={answer.warnings} infos={answer.infos} />
      {frame === null && <ResultTable data={data} unit={unit} />}
      {frame !== null && frame.lines.size === 0 && <p class="awaiting">No series in this range.</p>}
      {frame !== null && frame.lines.size > 0 && (
        <ResultGraph
          frame={frame}
          from={from}
          to={to}
          unit={unit}
          stacked={state.stacked}
          label={describe(frame, state.expr)}
          onZoom={zoom}
        />
      )}
    </>
  );
}

export function QueryError({ error, expr, spot }: { error: ApiError; expr: string; spot: ErrorSpot | null }) {
  return (
    <Notice tone="error" title={spot === null ? error.message : spot.message}>
      {spot !== null && (
        <>
          <pre class="error-source">
            {expr.slice(0, spot.start)}
            <mark class="squiggle">{expr.slice(spot.start, spot.end) || " "}</mark>
            {expr.slice(spot.end)}
          </pre>
          <p class="muted">
            {error.fault}, line {spot.line}, column {spot.column}
          </p>
        </>
      )}
      {spot === null && <p class="muted">{error.fault}</p>}
    </Notice>
  );
}
