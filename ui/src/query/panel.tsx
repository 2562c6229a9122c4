// One query: its editor, what can be done with it, and its result as a table at one time or a graph over a range.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, formatQuery, type Answer, type Metadata } from "../api";
import { Button, Choice } from "../components/controls";
import { knownMetadata, metadataOf } from "../lib/names";
import { locate, remarks, type Remark } from "../lib/parse_error";
import type { EditorHandle } from "./codemirror";
import { TimeControls } from "./controls";
import { Cost } from "./cost";
import { QueryEditor } from "./editor";
import { MetricsExplorer } from "./explorer";
import { remember } from "./history";
import { Outcome, QueryError } from "./outcome";
import { PastQueries } from "./past";
import { useResult } from "./result";
import type { PanelState } from "./state";

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
  const [problem, setProblem] = useState<string | null>(null);
  const editor = useRef<EditorHandle | null>(null);
  const result = useResult(state);
  const { draft, setDraft, put, replace, sent } = useDraft(state.expr);
  const { refused, answer, shown, loading } = result;

  const change = (part: Partial<PanelState>): void => onChange({ expr: sent(draft), ...part });
  const run = (text: string): void => {
    const expr = sent(text);
    if (expr === "") return;
    remember(expr);
    if (expr === state.expr) result.again();
    else onChange({ expr });
  };
  const said = draft.trim() === state.expr ? remarksOn(state.expr, refused, answer) : [];

  return (
    <section class="query-panel" aria-label={`Query ${number}`}>
      <div class="query-box">
        <QueryEditor
          value={draft}
          put={put}
          remarks={said}
          focusFirst={focusFirst}
          handle={editor}
          onInput={setDraft}
          onRun={run}
          onProblem={setProblem}
        />
        <Button look="primary" onClick={() => run(draft)}>Run</Button>
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
          options={[["table", "Table"], ["graph", "Graph"], ["explain", "Explain"]]}
          value={state.tab}
          onChange={(tab) => change({ tab })}
        />
        <Cost answer={state.expr === "" ? null : answer} />
      </div>
      <TimeControls state={state} change={change} />
      {refused !== null && <QueryError error={refused} expr={state.expr} spot={locate(state.expr, refused.message)} />}
      {shown !== null && (
        <div class={loading ? "stale" : undefined} aria-busy={loading}>
          <Outcome result={shown} state={state} change={change} />
        </div>
      )}
      {loading && shown === null && <p class={state.tab === "graph" ? "awaiting awaiting-graph" : "awaiting"}>Evaluating…</p>}
    </section>
  );
}

/** The text in the box. `replace` puts another one there; `sent` notes what is asked and returns it. */
function useDraft(expr: string) {
  const [draft, setDraft] = useState(expr);
  const [put, setPut] = useState({ text: expr });
  const replace = (text: string): void => {
    setDraft(text);
    setPut({ text });
  };
  // What was asked from here is in the box already, perhaps with more behind it.
  const own = useRef(expr);
  useEffect(() => {
    if (expr !== own.current) replace(expr);
    own.current = expr;
  }, [expr]);
  const sent = (text: string): string => (own.current = text.trim());
  return { draft, setDraft, put, replace, sent };
}

/** What the server said about places in the expression. */
function remarksOn(expr: string, refused: ApiError | null, answer: Answer<unknown> | null): Remark[] {
  if (refused !== null) return remarks(expr, [refused.message], "error");
  return [...remarks(expr, answer?.warnings ?? [], "warning"), ...remarks(expr, answer?.infos ?? [], "info")];
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
      <Button look="quiet" onClick={() => setOpen("metrics")}>Metrics</Button>
      <Button look="quiet" onClick={() => setOpen("history")}>History</Button>
      <Button
        look="quiet"
        disabled={missing || draft.trim() === ""}
        title={missing ? "This server does not format queries" : "Lays the query out"}
        onClick={() => void format()}
      >
        Format
      </Button>
      {props.onRemove !== undefined && (
        <Button look="icon-button quiet" icon="M4 4l8 8M12 4l-8 8" aria-label="Remove this query" title="Remove this query" onClick={props.onRemove} />
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
