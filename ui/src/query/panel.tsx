// One query: its editor, what can be done with it, and its result as a table at one time or a graph over a range.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, formatQuery, query, queryRange, serverNow, type Answer, type Metadata, type QueryData } from "../api";
import { Choice, Icon, Notice } from "../components/controls";
import { toFrame } from "../lib/matrix";
import { knownMetadata, metadataOf } from "../lib/names";
import { locate, remarks, type ErrorSpot } from "../lib/parse_error";
import { REFRESH_MS, usePoll } from "../lib/poll";
import { guessUnit } from "../lib/units";
import type { EditorHandle } from "./codemirror";
import { TimeControls } from "./controls";
import { Cost } from "./cost";
import { QueryEditor } from "./editor";
import { MetricsExplorer } from "./explorer";
import { ResultGraph, describe } from "./graph";
import { remember } from "./history";
import { PastQueries } from "./past";
import { stepOf, type PanelState } from "./state";
import { ResultTable } from "./table";

interface Result {
  answer: Answer<QueryData>;
  tab: PanelState["tab"];
  /** The range asked, for graphs. */
  from: number;
  to: number;
  step: number;
}

async function ask(state: PanelState, signal: AbortSignal): Promise<Result> {
  const step = stepOf(state);
  if (state.tab === "table") {
    return { answer: await query(state.expr, state.end ?? undefined, signal, true), tab: "table", from: 0, to: 0, step };
  }
  const to = Math.floor((state.end ?? serverNow()) / step) * step;
  const from = to - Math.floor(state.range / step) * step;
  return { answer: await queryRange(state.expr, from, to, step, signal, true), tab: "graph", from, to, step };
}

export interface QueryPanelProps {
  state: PanelState;
  /** Counted from 1, for names. */
  number: number;
  focusFirst: boolean;
  onChange: (part: Partial<PanelState>) => void;
  /** Undefined for the only panel. */
  onRemove: (() => void) | undefined;
}

export function QueryPanel({ state, number, focusFirst, onChange, onRemove }: QueryPanelProps) {
  const [draft, setDraft] = useState(state.expr);
  const [put, setPut] = useState({ text: state.expr });
  const [turn, setTurn] = useState(0);
  const [problem, setProblem] = useState<string | null>(null);
  const editor = useRef<EditorHandle | null>(null);
  const replace = (text: string): void => {
    setDraft(text);
    setPut({ text });
  };
  // What was asked from here is in the box already, perhaps with more behind it.
  const own = useRef(state.expr);
  useEffect(() => {
    if (state.expr !== own.current) replace(state.expr);
    own.current = state.expr;
  }, [state.expr]);

  const change = (part: Partial<PanelState>): void => {
    own.current = draft.trim();
    onChange({ expr: own.current, ...part });
  };
  const run = (text: string): void => {
    const expr = text.trim();
    if (expr === "") return;
    own.current = expr;
    remember(expr);
    if (expr === state.expr) setTurn(turn + 1);
    else onChange({ expr });
  };

  const asked = state.expr !== "";
  const key = JSON.stringify([
    state.expr, state.tab, state.end, state.tab === "graph" ? [state.range, state.step, state.density] : 0, turn,
  ]);
  const polled = usePoll<Result | null>(
    key,
    (signal) => (asked ? ask(state, signal) : Promise.resolve(null)),
    state.live && asked ? REFRESH_MS : 0,
    false,
  );
  // While a changed range or step is evaluated, the last result of the same question stays in sight.
  const shown = useRef<{ question: string; result: Result } | null>(null);
  const question = JSON.stringify([state.expr, state.tab]);
  if (polled.data !== null) shown.current = { question, result: polled.data };
  else if (!polled.loading || shown.current?.question !== question) shown.current = null;
  const refused = polled.error instanceof ApiError && !polled.error.passing ? polled.error : null;
  const spot = refused === null ? null : locate(state.expr, refused.message);
  const unchanged = draft.trim() === state.expr;
  const answer = polled.data?.answer;
  const said =
    refused !== null
      ? remarks(state.expr, [refused.message], "error")
      : [...remarks(state.expr, answer?.warnings ?? [], "warning"), ...remarks(state.expr, answer?.infos ?? [], "info")];

  return (
    <section class="query-panel" aria-label={`Query ${number}`}>
      <div class="query-box">
        <QueryEditor
          value={draft}
          put={put}
          remarks={unchanged ? said : []}
          focusFirst={focusFirst}
          handle={editor}
          onInput={setDraft}
          onRun={run}
          onProblem={setProblem}
        />
        <button type="button" class="button primary" onClick={() => run(draft)}>
          Run
        </button>
      </div>
      <div class="under-editor">
        <About expr={state.expr} problem={draft.trim() === "" ? null : problem} />
        <Actions
          draft={draft}
          onText={replace}
          onInsert={(name) => (editor.current === null ? replace(draft + name) : editor.current.insert(name))}
          onRun={(expr) => {
            replace(expr);
            run(expr);
          }}
          onRemove={onRemove}
        />
      </div>
      <div class="toolbar">
        <Choice
          label="Result as"
          options={[["table", "Table"], ["graph", "Graph"]]}
          value={state.tab}
          onChange={(tab) => change({ tab })}
        />
        <Cost answer={asked ? (answer ?? null) : null} />
      </div>
      <TimeControls state={state} change={change} />
      {refused !== null && <QueryError error={refused} expr={state.expr} spot={spot} />}
      {shown.current !== null && refused === null && (
        <div class={polled.loading ? "stale" : undefined} aria-busy={polled.loading}>
          <Outcome result={shown.current.result} state={state} change={change} />
        </div>
      )}
      {asked && polled.loading && shown.current === null && (
        <p class={state.tab === "graph" ? "awaiting awaiting-graph" : "awaiting"}>Evaluating…</p>
      )}
    </section>
  );
}

/** The server has no formatter: known after it was asked once. */
let noFormatter = false;

function Actions(props: {
  draft: string;
  onText: (text: string) => void;
  onInsert: (name: string) => void;
  onRun: (expr: string) => void;
  onRemove: (() => void) | undefined;
}) {
  const { draft } = props;
  const [open, setOpen] = useState<"metrics" | "history" | null>(null);
  const [missing, setMissing] = useState(noFormatter);
  const format = async (): Promise<void> => {
    try {
      props.onText((await formatQuery(draft)).data);
    } catch (error) {
      // A text that can't be parsed stays as it is: the editor already says what is wrong with it.
      noFormatter = error instanceof ApiError && error.fault === "missing";
      setMissing(noFormatter);
    }
  };
  return (
    <div class="actions">
      <button type="button" class="button quiet" onClick={() => setOpen("metrics")}>
        Metrics
      </button>
      <button type="button" class="button quiet" onClick={() => setOpen("history")}>
        History
      </button>
      <button
        type="button"
        class="button quiet"
        disabled={missing || draft.trim() === ""}
        title={missing ? "This server does not format queries" : "Lays the query out"}
        onClick={() => void format()}
      >
        Format
      </button>
      {props.onRemove !== undefined && (
        <button type="button" class="button icon-button quiet" aria-label="Remove this query" title="Remove this query" onClick={props.onRemove}>
          <Icon path="M4 4l8 8M12 4l-8 8" />
        </button>
      )}
      {open === "metrics" && (
        <MetricsExplorer
          onClose={() => setOpen(null)}
          onPick={(name) => {
            setOpen(null);
            props.onInsert(name);
          }}
        />
      )}
      {open === "history" && (
        <PastQueries
          onClose={() => setOpen(null)}
          onPick={(expr) => {
            setOpen(null);
            props.onRun(expr);
          }}
        />
      )}
    </div>
  );
}

/** What is wrong with the text; otherwise what a plainly named metric is. */
function About({ expr, problem }: { expr: string; problem: string | null }) {
  const [about, setAbout] = useState<{ name: string; meta: Metadata } | null>(null);
  const name = /^(?:[a-z_]+\s*\(\s*)*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:[[{)]|$)/.exec(expr)?.[1];
  useEffect(() => {
    let current = true;
    setAbout(null);
    if (name !== undefined) {
      void knownMetadata().then((all) => {
        const meta = metadataOf(all, name);
        if (current && meta !== null) setAbout({ name, meta });
      });
    }
    return () => {
      current = false;
    };
  }, [name]);
  if (problem !== null) return <p class="about about-problem">{problem}</p>;
  return (
    <p class="about">
      {about !== null && (
        <>
          <code>{about.name}</code> {about.meta.type !== "unknown" && <span class="chip">{about.meta.type}</span>} {about.meta.help}
        </>
      )}
    </p>
  );
}

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

function Outcome({ result, state, change }: { result: Result; state: PanelState; change: (part: Partial<PanelState>) => void }) {
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
