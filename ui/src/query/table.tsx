// Results of an instant query: exactly the numbers the server gave.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { parseNumber, seriesName, type Histogram, type InstantSeries, type Labels, type QueryData, type RangeSeries, type Sample } from "../api";
import { More } from "../components/page";
import { Table, type Column } from "../components/table";
import { formatDateTime } from "../lib/time";
import { formatValue, type Unit } from "../lib/units";

const FIRST_ROWS = 250;

/** A series name with its parts told apart: name, labels, values. */
export function SeriesName({ metric }: { metric: Labels }) {
  const labels = Object.entries(metric).filter(([name]) => name !== "__name__");
  const name = metric["__name__"];
  return (
    <code class="series-name" title={seriesName(metric)}>
      {name !== undefined && <span class="series-metric">{name}</span>}
      {(labels.length > 0 || name === undefined) && "{"}
      {labels.map(([label, value], i) => (
        <span key={label} class="series-label">
          {i > 0 && ", "}
          {label}=<span class="series-value">"{value}"</span>
        </span>
      ))}
      {(labels.length > 0 || name === undefined) && "}"}
    </code>
  );
}

const BRACKETS: readonly (readonly [string, string])[] = [["(", "]"], ["[", ")"], ["(", ")"], ["[", "]"]];

function HistogramCell({ histogram }: { histogram: Histogram }) {
  const buckets = histogram.buckets ?? [];
  return (
    <details>
      <summary>
        count {histogram.count}, sum {histogram.sum}
      </summary>
      <table class="buckets">
        <tbody>
          {buckets.map(([rule, low, high, count]) => {
            const [open, close] = BRACKETS[rule] ?? ["[", "]"];
            return (
              <tr key={`${low} ${high}`}>
                <td>
                  {open}
                  {low}, {high}
                  {close}
                </td>
                <td class="num">{count}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </details>
  );
}

function VectorValue({ series, unit }: { series: InstantSeries; unit: Unit }) {
  return (
    <>
      {series.value !== undefined && unit !== "number" && <span class="human">{formatValue(parseNumber(series.value[1]), unit)}</span>}
      {series.value !== undefined && series.value[1]}
      {series.histogram !== undefined && <HistogramCell histogram={series.histogram[1]} />}
    </>
  );
}

function MatrixValue({ series }: { series: RangeSeries }) {
  return (
    <>
      {(series.values ?? []).map(([time, text]) => (
        <div key={time}>
          {text} <span class="muted">@ {time.toFixed(3)}</span>
        </div>
      ))}
      {(series.histograms ?? []).map(([time, histogram]) => (
        <div key={time}>
          <HistogramCell histogram={histogram} /> <span class="muted">@ {time.toFixed(3)}</span>
        </div>
      ))}
    </>
  );
}

/** A table of series and what `value` shows of each. */
function SeriesTable<T extends { metric: Labels }>({ all, value }: { all: readonly T[]; value: (series: T) => ComponentChildren }) {
  const [rows, setRows] = useState(FIRST_ROWS);
  const columns: readonly Column<T>[] = [
    { title: "Series", cell: ({ metric }) => <SeriesName metric={metric} /> },
    { title: "Value", num: true, class: "value", cell: value },
  ];
  if (all.length === 0) return <p class="awaiting">No series at this time.</p>;
  return (
    <>
      <Table class="results" columns={columns} rows={all.slice(0, rows)} keyOf={({ metric }) => seriesName(metric)} />
      <More shown={rows} all={all.length} show={setRows} />
    </>
  );
}

function Single({ kind, sample }: { kind: string; sample: Sample }) {
  return (
    <p class="single">
      <strong>{sample[1]}</strong>
      <span class="muted">
        {kind} at {formatDateTime(sample[0])}
      </span>
    </p>
  );
}

/** `unit` only adds a readable form beside each number. */
export function ResultTable({ data, unit }: { data: QueryData; unit: Unit }) {
  switch (data.resultType) {
    case "vector":
      return <SeriesTable all={data.result} value={(series) => <VectorValue series={series} unit={unit} />} />;
    case "matrix":
      return <SeriesTable all={data.result} value={(series) => <MatrixValue series={series} />} />;
    default:
      return <Single kind={data.resultType} sample={data.result} />;
  }
}
