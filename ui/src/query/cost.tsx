// What a query cost: series, time and bytes in one line; the server's own accounts when it is opened.
import type { Answer, QueryData } from "../api";
import { formatCount, formatValue } from "../lib/units";

/** Prometheus' names of what it measures, in the order of its work. */
const STAGES: readonly (readonly [string, string])[] = [
  ["execQueueTime", "Waiting for its turn"],
  ["queryPreparationTime", "Preparing"],
  ["innerEvalTime", "Evaluating"],
  ["resultSortTime", "Sorting"],
  ["evalTotalTime", "Evaluation in all"],
  ["execTotalTime", "Everything"],
];
const SAMPLES: readonly (readonly [string, string])[] = [
  ["totalQueryableSamples", "Samples looked at"],
  ["samplesRead", "Samples read"],
  ["peakSamples", "Samples in memory at once, at most"],
];

/** Rows of what is known, in `order`; names that a newer server adds come last, as they are. */
export function statRows(values: Readonly<Record<string, unknown>> | undefined, order: readonly (readonly [string, string])[]): [string, number][] {
  const numbers = Object.entries(values ?? {}).filter((entry): entry is [string, number] => typeof entry[1] === "number");
  const title = new Map(order);
  const rank = (name: string): number => (title.has(name) ? order.findIndex(([one]) => one === name) : order.length);
  return numbers.sort(([a], [b]) => rank(a) - rank(b)).map(([name, value]) => [title.get(name) ?? name, value]);
}

export function Cost({ answer }: { answer: Answer<QueryData> | null }) {
  if (answer === null) return <p class="cost-line muted" aria-live="polite" />;
  const { data, elapsedMs, bytes } = answer;
  const series = data.resultType === "vector" || data.resultType === "matrix" ? data.result.length : 1;
  const line = `${formatCount(series)} series · ${formatValue(elapsedMs / 1000, "seconds")} · ${formatValue(bytes, "bytes")}`;
  const timings = statRows(data.stats?.timings, STAGES).map(([title, seconds]) => [title, formatValue(seconds, "seconds")] as const);
  const samples = statRows(data.stats?.samples, SAMPLES).map(([title, count]) => [title, formatCount(count)] as const);
  if (timings.length + samples.length === 0) {
    return (
      <p class="cost-line muted" aria-live="polite">
        {line}
      </p>
    );
  }
  return (
    <details class="cost-line muted">
      <summary aria-live="polite">{line}</summary>
      <div class="cost-more">
        <table>
          <caption class="sr-only">What the query cost the server</caption>
          <tbody>
            {[...timings, ...samples].map(([title, text]) => (
              <tr key={title}>
                <th scope="row">{title}</th>
                <td>{text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
