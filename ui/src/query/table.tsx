// Results of an instant query: exactly the numbers the server gave.
import { useState } from "preact/hooks";
import { parseNumber, seriesName, type Histogram, type InstantSeries, type Labels, type QueryData, type RangeSeries, type Sample } from "../api";
import { More } from "../components/page";
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

function VectorRow({ series, unit }: { series: InstantSeries; unit: Unit }) {
  return (
    <tr>
      <td>
        <SeriesName metric={series.metric} />
      </td>
      <td class="num value">
        {series.value !== undefined && unit !== "number" && <span class="human">{formatValue(parseNumber(series.value[1]), unit)}</span>}
        {series.value !== undefined && series.value[1]}
        {series.histogram !== undefined && <HistogramCell histogram={series.histogram[1]} />}
      </td>
    </tr>
  );
}

function MatrixRow({ series }: { series: RangeSeries }) {
  const samples = series.values ?? [];
  return (
    <tr>
      <td>
        <SeriesName metric={series.metric} />
      </td>
      <td class="num value">
        {samples.map(([time, text]) => (
          <div key={time}>
            {text} <span class="muted">@ {time.toFixed(3)}</span>
          </div>
        ))}
        {(series.histograms ?? []).map(([time, histogram]) => (
          <div key={time}>
            <HistogramCell histogram={histogram} /> <span class="muted">@ {time.toFixed(3)}</span>
          </div>
        ))}
      </td>
    </tr>
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
  const [rows, setRows] = useState(FIRST_ROWS);
  if (data.resultType === "scalar" || data.resultType === "string") return <Single kind={data.resultType} sample={data.result} />;
  const count = data.result.length;
  if (count === 0) return <p class="awaiting">No series at this time.</p>;
  return (
    <>
      <table class="table results">
        <thead>
          <tr>
            <th>Series</th>
            <th class="num">Value</th>
          </tr>
        </thead>
        <tbody>
          {data.resultType === "vector"
            ? data.result.slice(0, rows).map((series) => <VectorRow key={seriesName(series.metric)} series={series} unit={unit} />)
            : data.result.slice(0, rows).map((series) => <MatrixRow key={seriesName(series.metric)} series={series} />)}
        </tbody>
      </table>
      <More shown={rows} all={count} show={setRows} />
    </>
  );
}
