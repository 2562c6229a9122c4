// A range query's result as a plot: a legend that picks lines, a readout at the cursor, zoom by dragging.
import { useMemo, useRef, useState } from "preact/hooks";
import { parseNumber, type ExemplarSeries, type Labels } from "../api";
import { Button } from "../components/controls";
import { Swatch } from "../components/panel";
import { Table, type Column } from "../components/table";
import { fileName, savePng } from "../lib/export";
import { commonLabels, without } from "../lib/labels";
import { latest, type Frame } from "../lib/matrix";
import { cssColor } from "../lib/theme";
import { thin } from "../lib/thin";
import { formatThresholds, type Threshold } from "../lib/thresholds";
import { formatDateTime } from "../lib/time";
import { formatValue, type Unit } from "../lib/units";
import { GUTTER_PX, Plot, type PlotLevel, type PlotLine, type PlotMark } from "../plot";
import { SeriesName } from "./table";

const COLORS = ["--c-blue", "--c-orange", "--c-green", "--c-purple", "--c-sky", "--c-red", "--c-yellow", "--c-grey"] as const;
const FIRST_LINES = 100;
/** Stretches of time that each have up to three exemplars. */
const STRETCHES = 40;

interface GraphLine extends PlotLine {
  metric: Labels;
}

/** One colour each; from the ninth series on dashed, so that no two of sixteen look alike. */
export function linesOf(frame: Frame): GraphLine[] {
  return [...frame.lines].map(([name, line], i) => ({
    name,
    metric: line.metric,
    values: line.values,
    color: COLORS[i % COLORS.length] as string,
    dashed: Math.floor(i / COLORS.length) % 2 === 1,
  }));
}

export interface GraphProps {
  frame: Frame;
  from: number;
  to: number;
  unit: Unit;
  stacked: boolean;
  thresholds: readonly Threshold[];
  label: string;
  expr: string;
  exemplars: readonly ExemplarSeries[];
  onCsv: () => void;
  onZoom: (from: number, to: number) => void;
}

/** An exemplar and whose it is. */
interface Exemplar extends PlotMark {
  labels: Labels;
  series: Labels;
}

function marksOf(found: readonly ExemplarSeries[]): Exemplar[] {
  const all = found.flatMap(({ seriesLabels, exemplars }) =>
    exemplars.map(({ labels, value, timestamp }) => ({ time: timestamp, value: parseNumber(value), labels, series: seriesLabels })),
  );
  return all.filter((one) => Number.isFinite(one.value));
}

function levelOf({ op, value }: Threshold, unit: Unit): PlotLevel {
  const side = op.startsWith(">") ? "above" : op.startsWith("<") ? "below" : null;
  return { value, text: `${op} ${formatValue(value, unit)}`, side };
}

interface Cursor {
  index: number;
  left: number;
  width: number;
}

export function ResultGraph({ frame, from, to, unit, stacked, thresholds, label, expr, exemplars, onCsv, onZoom }: GraphProps) {
  const [limit, setLimit] = useState(FIRST_LINES);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const [pointed, setPointed] = useState<string | null>(null);
  const [near, setNear] = useState<string | null>(null);

  const [marked, setMarked] = useState<number | null>(null);
  const found = useMemo(() => marksOf(exemplars), [exemplars]);
  const marks = useMemo(() => thin(found, from, to, STRETCHES), [found, from, to]);
  const mark = marked === null ? undefined : marks[marked];
  const box = useRef<HTMLDivElement>(null);

  const all = useMemo(() => linesOf(frame), [frame]);
  const lines = all.slice(0, limit);
  const visible = useMemo(() => all.slice(0, limit).filter((line) => !hidden.has(line.name)), [all, limit, hidden]);
  const common = useMemo(() => commonLabels(all.map((line) => line.metric)), [all]);
  const shownAt = cursor !== null && cursor.index < frame.times.length ? cursor : null;
  const focus = visible.length > 1 ? pointed : null;

  const pick = (name: string, several: boolean): void => {
    const next = new Set(hidden);
    if (several) {
      if (!next.delete(name)) next.add(name);
    } else {
      // Alone already: back to all.
      const alone = visible.length === 1 && visible[0]?.name === name;
      next.clear();
      if (!alone) for (const line of all) if (line.name !== name) next.add(line.name);
    }
    setHidden(next);
  };

  const png = (): void => {
    const canvas = box.current?.querySelector("canvas");
    if (canvas == null) return;
    const legend = visible.map((line): [string, string] => [line.name, cssColor(line.color)]);
    savePng(fileName(expr, "png"), canvas, expr, legend, { ground: cssColor("--surface"), text: cssColor("--text") });
  };

  return (
    <div class="graph">
      <div class="graph-plot" ref={box}>
        <Plot
          label={label}
          lines={visible}
          times={frame.times}
          from={from}
          to={to}
          unit={unit}
          mode={stacked ? "stacked" : "lines"}
          height={360}
          levels={thresholds.map((one) => levelOf(one, unit))}
          focus={focus}
          onCursor={(index, left, width) => setCursor(index === null ? null : { index, left, width })}
          onNear={setNear}
          onZoom={onZoom}
          marks={marks}
          onMark={setMarked}
        />
        {shownAt !== null && mark !== undefined && <MarkReadout at={shownAt} mark={mark} unit={unit} />}
        {shownAt !== null && mark === undefined && <Readout at={shownAt} frame={frame} lines={visible} near={near} unit={unit} common={common} />}
      </div>
      <p class="exports">
        <span class="muted zoom-hint">drag zooms, Shift and drag moves, Ctrl and wheel zooms, double click widens</span>
        <Button look="quiet" onClick={onCsv}>CSV</Button>
        <Button look="quiet" onClick={png}>PNG</Button>
      </p>
      <Legend
        lines={lines}
        hidden={hidden}
        common={common}
        unit={unit}
        index={shownAt?.index ?? null}
        near={near}
        onPick={pick}
        onPoint={setPointed}
      />
      {all.length > limit && (
        <p class="more">
          The first {limit} of {all.length} series are drawn.{" "}
          <Button onClick={() => setLimit(all.length)}>Draw all</Button>
        </p>
      )}
      {found.length > 0 && <Exemplars marks={found} drawn={marks.length} unit={unit} />}
    </div>
  );
}

/** The exemplar at the pointer. */
function MarkReadout({ at, mark, unit }: { at: Cursor; mark: Exemplar; unit: Unit }) {
  const rightSide = at.left < at.width / 2;
  return (
    <div class={rightSide ? "readout" : "readout readout-left"} style={{ left: `${at.left + GUTTER_PX}px` }} aria-hidden="true">
      <p class="muted">exemplar at {formatDateTime(mark.time)}</p>
      <p>
        <strong>{formatValue(mark.value, unit)}</strong>
      </p>
      <p>
        <SeriesName metric={mark.labels} />
      </p>
      <p>
        <SeriesName metric={mark.series} />
      </p>
    </div>
  );
}

const FIRST_EXEMPLARS = 100;

const exemplarColumns = (unit: Unit): readonly Column<Exemplar>[] => [
  { title: "Time", cell: ({ time }) => formatDateTime(time) },
  { title: "Value", num: true, cell: ({ value }) => formatValue(value, unit) },
  { title: "Exemplar", cell: ({ labels }) => <SeriesName metric={labels} /> },
  { title: "Series", cell: ({ series }) => <SeriesName metric={series} /> },
];

/** All exemplars as text: their labels are there to be copied. */
function Exemplars({ marks, drawn, unit }: { marks: readonly Exemplar[]; drawn: number; unit: Unit }) {
  const newest = [...marks].sort((a, b) => b.time - a.time).slice(0, FIRST_EXEMPLARS);
  return (
    <details class="exemplars">
      <summary>
        {marks.length} {marks.length === 1 ? "exemplar" : "exemplars"}
        {drawn < marks.length && `, ${drawn} of them drawn`}
      </summary>
      <Table columns={exemplarColumns(unit)} rows={newest} keyOf={(_, at) => String(at)} />
    </details>
  );
}

/** The value next to the cursor; on the side with more room. */
function Readout(props: {
  at: Cursor;
  frame: Frame;
  lines: readonly GraphLine[];
  near: string | null;
  unit: Unit;
  common: Labels;
}) {
  const { at, frame, lines, near, unit, common } = props;
  const line = lines.find((one) => one.name === near) ?? (lines.length === 1 ? lines[0] : undefined);
  const value = line?.values[at.index] ?? null;
  const time = frame.times[at.index] as number;
  const rightSide = at.left < at.width / 2;
  return (
    <div class={rightSide ? "readout" : "readout readout-left"} style={{ left: `${at.left + GUTTER_PX}px` }} aria-hidden="true">
      <p class="muted">{formatDateTime(time)}</p>
      {line !== undefined && (
        <>
          <p>
            <Swatch color={line.color} dashed={line.dashed === true} />{" "}
            <strong>{value === null ? "no value" : formatValue(value, unit)}</strong>
          </p>
          <SeriesName metric={lines.length > 1 ? without(line.metric, common) : line.metric} />
        </>
      )}
    </div>
  );
}

function Legend(props: {
  lines: readonly GraphLine[];
  hidden: ReadonlySet<string>;
  common: Labels;
  unit: Unit;
  index: number | null;
  near: string | null;
  onPick: (name: string, several: boolean) => void;
  onPoint: (name: string | null) => void;
}) {
  const { lines, hidden, common, unit, index, near } = props;
  const shared = Object.keys(common).length > 0;
  return (
    <div class="series-list" onMouseLeave={() => props.onPoint(null)}>
      {shared && (
        <p class="series-common">
          all: <SeriesName metric={common} />
        </p>
      )}
      {lines.map((line) => {
        const value = index === null ? latest(line.values) : (line.values[index] ?? null);
        const off = hidden.has(line.name);
        return (
          <button
            key={line.name}
            type="button"
            class={`series-row${off ? " series-off" : ""}${near === line.name ? " series-near" : ""}`}
            aria-pressed={!off}
            title="Click: only this one. With Ctrl or Shift: switch it on or off."
            onClick={(event) => props.onPick(line.name, event.ctrlKey || event.metaKey || event.shiftKey)}
            onMouseEnter={() => props.onPoint(line.name)}
            onFocus={() => props.onPoint(line.name)}
            onBlur={() => props.onPoint(null)}
          >
            <Swatch color={line.color} dashed={line.dashed === true} />
            <SeriesName metric={without(line.metric, common)} />
            <span class="series-now">{value === null ? "–" : formatValue(value, unit)}</span>
          </button>
        );
      })}
    </div>
  );
}

/** For people who don't see the plot. */
export function describe(frame: Frame, expr: string, thresholds: readonly Threshold[]): string {
  const count = frame.lines.size;
  const lines = thresholds.length === 0 ? "" : `, thresholds ${formatThresholds(thresholds)}`;
  return `${expr}: ${count} series, ${frame.times.length} points in time${lines}`;
}

