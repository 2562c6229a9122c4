// All targets with health and scrape cost.
import { Choice, Notice } from "../components/controls";
import { TargetsTable } from "../components/targets_table";
import { useStore } from "../lib/store";
import { adjust, route } from "../lib/router";
import { matches, sumOf, useTargets, type TargetRow } from "../lib/targets";
import { formatCount, formatValue } from "../lib/units";

/** What a round of all these targets is and costs, in one line. */
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

const PAGE = 200;

export function TargetsView() {
  const { params } = useStore(route);
  const { data, error } = useTargets();
  const filter = params["filter"] ?? "";
  const health = params["health"] ?? "all";
  const limit = Number(params["limit"] ?? PAGE) || PAGE;

  const rows = (data ?? []).filter((row) => matches(row, filter) && (health === "all" || row.target.health === health));
  return (
    <div class="view">
      <div class="view-head">
        <h1>Targets</h1>
        {data !== null && <TargetsSummary rows={data} />}
      </div>
      <div class="toolbar">
        <input
          type="search"
          class="input grow"
          placeholder="Filter by job, instance, label"
          aria-label="Filter targets"
          value={filter}
          onInput={(event) => adjust({ filter: event.currentTarget.value, limit: undefined })}
        />
        <Choice
          label="Health"
          options={[["all", "All"], ["up", "Up"], ["down", "Down"], ["unknown", "Unknown"]]}
          value={health as "all" | "up" | "down" | "unknown"}
          onChange={(value) => adjust({ health: value === "all" ? undefined : value })}
        />
      </div>
      {data === null && error === null && <p class="awaiting">Asking for the targets…</p>}
      {data === null && error !== null && <Notice tone="error" title="The targets can’t be read">{String(error instanceof Error ? error.message : error)}</Notice>}
      {data !== null && data.length === 0 && (
        <Notice tone="info" title="No targets">
          <p>The configuration has no scrape targets, or discovery hasn’t found any yet.</p>
        </Notice>
      )}
      {data !== null && data.length > 0 && rows.length === 0 && <p class="awaiting">No target matches the filter.</p>}
      {rows.length > 0 && <TargetsTable rows={rows} limit={limit} />}
      {rows.length > limit && (
        <p class="more">
          <button type="button" class="button" onClick={() => adjust({ limit: String(limit + PAGE) })}>
            Show {Math.min(PAGE, rows.length - limit)} more of {rows.length}
          </button>
        </p>
      )}
    </div>
  );
}
