// When and how finely a panel asks, and how its graph is drawn.
import { useEffect, useState } from "preact/hooks";
import { serverNow } from "../api";
import { Button } from "../components/controls";
import { formatThresholds, parseThresholds } from "../lib/thresholds";
import { formatDuration, fromInputTime, nextRange, parseDuration, toInputTime } from "../lib/time";
import { UNITS, guessUnit, type Unit } from "../lib/units";
import { stepOf, type PanelState } from "./state";

export function TimeControls({ state, change }: { state: PanelState; change: (part: Partial<PanelState>) => void }) {
  const graph = state.tab !== "table";
  const end = state.end;
  const shift = (direction: number): void => {
    const to = (end ?? serverNow()) + (direction * state.range) / 2;
    change(to >= serverNow() ? { end: null } : { end: Math.round(to), live: false });
  };
  return (
    <div class="toolbar controls">
      {graph && (
        <div class="group" role="group" aria-label="Range">
          <Button icon="M3.500 8h9" aria-label="Shorter range" onClick={() => change({ range: nextRange(state.range, -1) })} />
          <DurationInput label="Range" value={state.range} onChange={(range) => change({ range: range ?? state.range })} />
          <Button icon="M3.500 8h9M8 3.500v9" aria-label="Longer range" onClick={() => change({ range: nextRange(state.range, 1) })} />
        </div>
      )}
      <div class="group" role="group" aria-label={graph ? "End time" : "Evaluation time"}>
        {graph && (
          <Button icon="M10 3.500 5.500 8l4.500 4.500" aria-label="Earlier" onClick={() => shift(-1)} />
        )}
        {end === null ? (
          <Button title="Choose a fixed time" onClick={() => change({ end: Math.floor(serverNow()), live: false })}>
            {graph ? "until now" : "now"}
          </Button>
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
            <Button icon="M4.500 4.500l7 7M11.500 4.500l-7 7" aria-label="Back to now" onClick={() => change({ end: null })} />
          </>
        )}
        {graph && (
          <Button icon="M6 3.500 10.500 8 6 12.500" aria-label="Later" disabled={end === null} onClick={() => shift(1)} />
        )}
      </div>
      {state.tab === "graph" && <GraphControls state={state} change={change} />}
      <label class="check">
        <input type="checkbox" checked={state.live} disabled={end !== null} onChange={(event) => change({ live: event.currentTarget.checked })} />
        refresh every 5 s
      </label>
    </div>
  );
}

function GraphControls({ state, change }: { state: PanelState; change: (part: Partial<PanelState>) => void }) {
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
      <label class="field">
        threshold
        <TextInput
          class="input thresholds"
          label="Threshold"
          title="A line to compare with, such as > 0.9; several with a comma between them"
          placeholder="none"
          given={formatThresholds(state.thresholds)}
          parse={parseThresholds}
          onChange={(thresholds) => change({ thresholds })}
        />
      </label>
      <label class="check">
        <input type="checkbox" checked={state.stacked} onChange={(event) => change({ stacked: event.currentTarget.checked, heatmap: null })} />
        stacked
      </label>
      <label class="check">
        <input type="checkbox" checked={state.exemplars} onChange={(event) => change({ exemplars: event.currentTarget.checked })} />
        exemplars
      </label>
    </>
  );
}

/** A duration as text. */
function DurationInput(props: { label: string; value: number | null; placeholder?: string; onChange: (seconds: number | null) => void }) {
  return (
    <TextInput
      class="input duration"
      label={props.label}
      title="A duration such as 30s, 5m or 1h30m"
      placeholder={props.placeholder ?? ""}
      given={props.value === null ? "" : formatDuration(props.value)}
      parse={(text) => (text.trim() === "" ? undefined : parseDuration(text))}
      onChange={(seconds) => props.onChange(seconds ?? null)}
    />
  );
}

/** Something as text; what `parse` has no value for (null) is marked and not taken. */
function TextInput<T>(props: {
  class: string;
  label: string;
  title: string;
  placeholder: string;
  given: string;
  parse: (text: string) => T | null;
  onChange: (value: T) => void;
}) {
  const { given, parse } = props;
  const [text, setText] = useState(given);
  useEffect(() => setText(given), [given]);
  return (
    <input
      class={props.class}
      aria-label={props.label}
      aria-invalid={parse(text) === null}
      title={props.title}
      placeholder={props.placeholder}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
      onChange={() => {
        const value = parse(text);
        if (value === null || text === given) return;
        props.onChange(value);
        if (text.trim() === "") setText(given);
      }}
      onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
    />
  );
}
