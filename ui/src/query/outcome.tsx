// A query's result: what the server said beside it, then a table or a graph; or why there is none.
import { useMemo } from "preact/hooks";
import { serverNow, type Answer, type ApiError } from "../api";
import { Button, Notice } from "../components/controls";
import { dataCsv, fileName, frameCsv, savePng, saveText } from "../lib/export";
import { heatUnit, isHeat, toHeat } from "../lib/heat";
import { toFrame } from "../lib/matrix";
import { HeatMap } from "../heat";
import type { ErrorSpot } from "../lib/parse_error";
import { cssColor } from "../lib/theme";
import { guessUnit } from "../lib/units";
import { Explain } from "./explain";
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
  const kind = useMemo(() => (tab === "graph" && data.resultType === "matrix" ? isHeat(data.result) : null), [result]);
  // Native histograms have no other form; classic ones are asked for.
  const isShownAsHeat = kind !== null && (state.heatmap ?? kind === "native");
  const heat = useMemo(
    () => (isShownAsHeat && data.resultType === "matrix" ? toHeat(data.result, from, to, step) : null),
    [result, isShownAsHeat],
  );
  const zoom = (start: number, end: number): void => {
    const range = Math.max(1, Math.round(end - start));
    // What reaches into the future follows the clock.
    change(end >= serverNow() ? { range, end: null } : { range, end: Math.round(end), live: false });
  };
  const unit = state.unit ?? guessUnit(state.expr);
  const csv = (text: string): void => saveText(fileName(state.expr, "csv"), text);
  return (
    <>
      <Annotations warnings={answer.warnings} infos={answer.infos} />
      {tab === "explain" && <Explain trace={data.trace} />}
      {tab === "table" && (
        <p class="exports">
          <Button look="quiet" onClick={() => csv(dataCsv(data))}>CSV</Button>
        </p>
      )}
      {frame !== null && kind !== null && (
        <label class="check heat-check">
          <input type="checkbox" checked={isShownAsHeat} onChange={(event) => change({ heatmap: event.currentTarget.checked, stacked: false })} />
          heat map
        </label>
      )}
      {heat !== null && heat.cells.length > 0 && (
        <div class="graph">
          <HeatMap heat={heat} unit={state.unit ?? heatUnit(state.expr)} label={`${state.expr}: heat map of ${heat.times.length} points in time`} onZoom={zoom} />
          <p class="exports">
            <Button look="quiet" onClick={() => csv(dataCsv(data))}>CSV</Button>
            <HeatPng expr={state.expr} />
          </p>
        </div>
      )}
      {tab !== "explain" && frame === null && <ResultTable data={data} unit={unit} />}
      {frame !== null && frame.lines.size === 0 && <p class="awaiting">No series in this range.</p>}
      {frame !== null && heat === null && frame.lines.size > 0 && (
        <ResultGraph
          frame={frame}
          from={from}
          to={to}
          unit={unit}
          stacked={state.stacked}
          thresholds={state.thresholds}
          label={describe(frame, state.expr, state.thresholds)}
          exemplars={result.exemplars}
          expr={state.expr}
          onCsv={() => csv(frameCsv(frame))}
          onZoom={zoom}
        />
      )}
    </>
  );
}

/** Saves the heat map above it. */
function HeatPng({ expr }: { expr: string }) {
  const save = (event: MouseEvent): void => {
    const panel = (event.currentTarget as Element).closest(".query-panel");
    const canvas = panel?.querySelector<HTMLCanvasElement>(".heat-canvas");
    if (canvas != null) savePng(fileName(expr, "png"), canvas, expr, [], { ground: cssColor("--surface"), text: cssColor("--text") });
  };
  return (
    <Button look="quiet" onClick={save}>PNG</Button>
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
