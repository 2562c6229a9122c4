// What all targets are and what a round of them costs, in one line.
import { sumOf, type TargetRow } from "../lib/targets";
import { formatCount, formatValue } from "../lib/units";

export function TargetsSummary({ rows }: { rows: readonly TargetRow[] }) {
  const down = rows.filter((row) => row.target.health === "down").length;
  const up = rows.filter((row) => row.target.health === "up").length;
  const series = sumOf(rows, "series");
  const bytes = sumOf(rows, "bytes");
  const seconds = sumOf(rows, "seconds");
  const cost = [
    series === null ? null : `${formatCount(series)} series`,
    bytes === null ? null : formatValue(bytes, "bytes"),
    seconds === null ? null : formatValue(seconds, "seconds"),
  ].filter((part) => part !== null);
  return (
    <p class="summary">
      <strong>{up}</strong> of {rows.length} up
      {down > 0 && <span class="summary-down">, {down} down</span>}
      {cost.length > 0 && <span class="muted"> · a round of all: {cost.join(", ")}</span>}
    </p>
  );
}
