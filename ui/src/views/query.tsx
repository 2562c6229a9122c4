// Ask anything: an expression, its result as a table at one time or as a graph over a range.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, query, queryRange, serverNow, type Answer, type Metadata, type QueryData } from "../api";
import { Choice, Icon, Notice } from "../components/controls";
import { QueryEditor, knownMetadata } from "../components/editor";
import { go, route } from "../lib/router";
import { toFrame } from "../lib/matrix";
import { locate, type ErrorSpot } from "../lib/parse_error";
import { REFRESH_MS, usePoll } from "../lib/poll";
import { useStore } from "../lib/store";
import { formatDuration, fromInputTime, nextRange, parseDuration, toInputTime } from "../lib/time";
import { UNITS, formatCount, formatValue, guessUnit, type Unit } from "../lib/units";
import { ResultGraph, describe } from "../query/graph";
import { readState, recentQueries, rememberQuery, stepOf, writeState, type QueryState } from "../query/state";
import { ResultTable } from "../query/table";

interface Result {
  answer: Answer<QueryData>;
  tab: QueryState["tab"];
  /** The range asked, for graphs. */
  from: number;
  to: number;
  step: number;
}

async function ask(state: QueryState, signal: AbortSignal): Promise<Result> {
  const step = stepOf(state);
  if (state.tab === "table") {
    const answer = await query(state.expr, state.end ?? undefined, signal);
    return { answer, tab: "table", from: 0, to: 0, step };
  }
  const to = Math.floor((state.end ?? serverNow()) / step) * step;
  const from = to - Math.floor(state.range / step) * step;
  return { answer: await queryRange(state.expr, from, to, step, signal), tab: "graph", from, to, step };
}

export function QueryView() {
  const { params } = useStore(route);
  const state = useMemo(() => readState(params), [params]);
  const [draft, setDraft] = useState(state.expr);
  const [turn, setTurn] = useState(0);
  useEffect(() => setDraft(state.expr), [state.expr]);

  const change = (part: Partial<QueryState>): void => go("/query", writeState({ ...state, expr: draft.trim(), ...part }));
  const run = (expr = draft): void => {
    const wanted = expr.trim();
    if (wanted === "") return;
    rememberQuery(wanted);
    if (wanted === state.expr) setTurn(turn + 1);
    else go("/query", writeState({ ...state, expr: wanted }));
  };

  const key = JSON.stringify([state.expr, state.tab, state.end, state.tab === "graph" ? [state.range, state.step] : 0, turn]);
  const polled = usePoll<Result | null>(
    key,
    (signal) => (state.expr === "" ? Promise.resolve(null) : ask(state, signal)),
    state.live && state.expr !== "" ? REFRESH_MS : 0,
    false,
  );
  // While a changed range or step is evaluated, the last result of the same question stays in sight.
  const shown = useRef<{ question: string; result: Result } | null>(null);
  const question = JSON.stringify([state.expr, state.tab]);
  if (polled.data !== null) shown.current = { question, result: polled.data };
  else if (!polled.loading || shown.current?.question !== question) shown.current = null;
  const refused = polled.error instanceof ApiError && !polled.error.passing ? polled.error : null;
  const spot = refused !== null && draft === state.expr ? locate(state.expr, refused.message) : null;

  return (
    <div class="view">
      <h1 class="sr-only">Query</h1>
      <div class="query-box">
        <QueryEditor value={draft} spot={spot} onInput={setDraft} onRun={() => run()} />
        <button type="button" class="button primary" onClick={() => run()}>
          Run
        </button>
      </div>
      <MetricHelp expr={state.expr} />
      <div class="toolbar">
        <Choice
          label="Result as"
          options={[["table", "Table"], ["graph", "Graph"]]}
          value={state.tab}
          onChange={(tab) => change({ tab })}
        />
        <TimeControls state={state} change={change} />
        <Cost result={polled.data} loading={polled.loading && state.expr !== ""} />
      </div>
      {state.expr === "" ? <Examples onPick={(expr, tab) => go("/query", writeState({ ...state, expr, tab }))} /> : null}
      {refused !== null && <QueryError error={refused} expr={state.expr} spot={locate(state.expr, refused.message)} />}
      {shown.current !== null && refused === null && (
        <div class={polled.loading ? "stale" : undefined} aria-busy={polled.loading}>
          <Outcome result={shown.current.result} state={state} change={change} />
        </div>
      )}
      {state.expr !== "" && polled.loading && shown.current === null && <p class="awaiting">Evaluating…</p>}
    </div>
  );
}

function Cost({ result, loading }: { result: Result | null; loading: boolean }) {
  if (loading || result === null) return <p class="cost-line muted" aria-live="polite" />;
  const { data, elapsedMs, bytes } = result.answer;
  const series = data.resultType === "vector" || data.resultType === "matrix" ? data.result.length : 1;
  return (
    <p class="cost-line muted" aria-live="polite">
      {formatCount(series)} series · {formatValue(elapsedMs / 1000, "seconds")} · {formatValue(bytes, "bytes")}
    </p>
  );
}

function Outcome({ result, state, change }: { result: Result; state: QueryState; change: (part: Partial<QueryState>) => void }) {
  const { answer, tab, from, to, step } = result;
  const { data } = answer;
  const frame = useMemo(
    () => (tab === "graph" && data.resultType === "matrix" ? toFrame(data.result, from, to, step) : null),
    [result],
  );
  const zoom = (start: number, end: number): void => change({ range: Math.max(1, Math.round(end - start)), end: Math.round(end), live: false });
  return (
    <>
      {[...answer.warnings, ...answer.infos].map((text, i) => (
        <Notice key={text} tone={i < answer.warnings.length ? "warn" : "info"} title={text} />
      ))}
      {frame === null && <ResultTable data={data} unit={state.unit ?? guessUnit(state.expr)} />}
      {frame !== null && frame.lines.size === 0 && <p class="awaiting">No series in this range.</p>}
      {frame !== null && frame.lines.size > 0 && (
        <ResultGraph
          frame={frame}
          from={from}
          to={to}
          unit={state.unit ?? guessUnit(state.expr)}
          stacked={state.stacked}
          label={describe(frame, state.expr)}
          onZoom={zoom}
        />
      )}
    </>
  );
}

function QueryError({ error, expr, spot }: { error: ApiError; expr: string; spot: ErrorSpot | null }) {
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

/** What a plainly named metric is, from its metadata. */
function MetricHelp({ expr }: { expr: string }) {
  const [about, setAbout] = useState<{ name: string; meta: Metadata } | null>(null);
  const name = /^(?:[a-z_]+\s*\(\s*)*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:[[{)]|$)/.exec(expr)?.[1];
  useEffect(() => {
    let current = true;
    setAbout(null);
    if (name !== undefined) {
      void knownMetadata().then((all) => {
        const meta = all[name]?.[0];
        if (current && meta !== undefined) setAbout({ name, meta });
      });
    }
    return () => {
      current = false;
    };
  }, [name]);
  return (
    <p class="metric-help">
      {about !== null && (
        <>
          <code>{about.name}</code> <span class="chip">{about.meta.type}</span> {about.meta.help}
        </>
      )}
    </p>
  );
}

function TimeControls({ state, change }: { state: QueryState; change: (part: Partial<QueryState>) => void }) {
  const graph = state.tab === "graph";
  const end = state.end;
  const shift = (direction: number): void => {
    const to = (end ?? serverNow()) + (direction * state.range) / 2;
    change(to >= serverNow() ? { end: null } : { end: Math.round(to), live: false });
  };
  return (
    <div class="controls">
      {graph && (
        <div class="group" role="group" aria-label="Range">
          <button type="button" class="button" aria-label="Shorter range" onClick={() => change({ range: nextRange(state.range, -1) })}>
            <Icon path="M3.500 8h9" />
          </button>
          <DurationInput label="Range" value={state.range} onChange={(range) => change({ range: range ?? state.range })} />
          <button type="button" class="button" aria-label="Longer range" onClick={() => change({ range: nextRange(state.range, 1) })}>
            <Icon path="M3.500 8h9M8 3.500v9" />
          </button>
        </div>
      )}
      <div class="group" role="group" aria-label={graph ? "End time" : "Evaluation time"}>
        {graph && (
          <button type="button" class="button" aria-label="Earlier" onClick={() => shift(-1)}>
            <Icon path="M10 3.500 5.500 8l4.500 4.500" />
          </button>
        )}
        {end === null ? (
          <button type="button" class="button" title="Choose a fixed time" onClick={() => change({ end: Math.floor(serverNow()), live: false })}>
            {graph ? "until now" : "now"}
          </button>
        ) : (
          <>
            <input
              class="input"
              type="datetime-local"
              step={1}
              aria-label={graph ? "End time" : "Evaluation time"}
              value={toInputTime(end)}
              onChange={(event) => change({ end: fromInputTime(event.currentTarget.value) })}
            />
            <button type="button" class="button" aria-label="Back to now" onClick={() => change({ end: null })}>
              <Icon path="M4.500 4.500l7 7M11.500 4.500l-7 7" />
            </button>
          </>
        )}
        {graph && (
          <button type="button" class="button" aria-label="Later" disabled={end === null} onClick={() => shift(1)}>
            <Icon path="M6 3.500 10.500 8 6 12.500" />
          </button>
        )}
      </div>
      {graph && <GraphControls state={state} change={change} />}
      <label class="check">
        <input type="checkbox" checked={state.live} disabled={end !== null} onChange={(event) => change({ live: event.currentTarget.checked })} />
        refresh every 5 s
      </label>
    </div>
  );
}

function GraphControls({ state, change }: { state: QueryState; change: (part: Partial<QueryState>) => void }) {
  return (
    <>
      <label class="field">
        step
        <DurationInput
          label="Step"
          value={state.step}
          placeholder={`auto ${formatDuration(stepOf({ ...state, step: null }))}`}
          onChange={(step) => change({ step })}
        />
      </label>
      <label class="field">
        unit
        <select class="input" value={state.unit ?? ""} onChange={(event) => change({ unit: (event.currentTarget.value || null) as Unit | null })}>
          <option value="">auto ({guessUnit(state.expr)})</option>
          {UNITS.map((unit) => (
            <option key={unit} value={unit}>
              {unit}
            </option>
          ))}
        </select>
      </label>
      <label class="check">
        <input type="checkbox" checked={state.stacked} onChange={(event) => change({ stacked: event.currentTarget.checked })} />
        stacked
      </label>
    </>
  );
}

/** A duration as text; what isn't one is marked and not taken. */
function DurationInput(props: { label: string; value: number | null; placeholder?: string; onChange: (seconds: number | null) => void }) {
  const given = props.value === null ? "" : formatDuration(props.value);
  const [text, setText] = useState(given);
  useEffect(() => setText(given), [given]);
  const wrong = text.trim() !== "" && parseDuration(text) === null;
  return (
    <input
      class="input duration"
      aria-label={props.label}
      aria-invalid={wrong}
      title="A duration such as 30s, 5m or 1h30m"
      placeholder={props.placeholder ?? ""}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
      onChange={() => {
        if (wrong || text === given) return;
        props.onChange(text.trim() === "" ? null : parseDuration(text));
        if (text.trim() === "") setText(given);
      }}
      onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
    />
  );
}

const EXAMPLES: readonly (readonly [string, QueryState["tab"], string])[] = [
  ["up", "table", "which targets answer"],
  ["sum by (job) (scrape_samples_scraped)", "table", "series per job"],
  ["scrape_duration_seconds", "graph", "how long scrapes take"],
  ["1 - avg by (instance) (rate(node_cpu_seconds_total{mode=\"idle\"}[1m]))", "graph", "busy share of each host’s cores"],
  ["node_memory_MemAvailable_bytes", "graph", "memory left"],
];

function Examples({ onPick }: { onPick: (expr: string, tab: QueryState["tab"]) => void }) {
  const recent = recentQueries();
  return (
    <div class="examples">
      {recent.length > 0 && (
        <section>
          <h2>Recent</h2>
          <ul>
            {recent.map((expr) => (
              <li key={expr}>
                <button type="button" class="link" onClick={() => onPick(expr, "table")}>
                  {expr}
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h2>To begin with</h2>
        <ul>
          {EXAMPLES.map(([expr, tab, what]) => (
            <li key={expr}>
              <button type="button" class="link" onClick={() => onPick(expr, tab)}>
                {expr}
              </button>
              <span class="muted"> {what}</span>
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}
