// All targets, pool by pool, with health and what their scrapes cost.
import { Button, Choice } from "../components/controls";
import { Loaded } from "../components/loaded";
import { Filter, Fold, More, Page } from "../components/page";
import { TargetsSummary } from "../components/targets_summary";
import { TargetsTable } from "../components/targets_table";
import { formatAddress } from "../lib/address";
import { collapsed, setCollapsed } from "../lib/collapsed";
import { adjust, route } from "../lib/router";
import { useStore } from "../lib/store";
import { matches, poolsOf, useTargets, type Pool, type TargetRow } from "../lib/targets";
import { formatCount, formatValue } from "../lib/units";

const PAGE = 100;
const HEALTHS = ["all", "up", "down", "unknown"] as const;
type HealthFilter = (typeof HEALTHS)[number];
const HEALTH_NAMES: Readonly<Record<HealthFilter, string>> = { all: "All", up: "Up", down: "Down", unknown: "Unknown" };

export default function TargetsView() {
  const { params } = useStore(route);
  const polled = useTargets();
  const none = (
    <>
      No targets. The configuration has none, or discovery hasn’t found any yet; see what it found under{" "}
      <a href={formatAddress("/service-discovery")}>service discovery</a>.
    </>
  );
  return (
    <Page title="Targets" head={polled.data !== null && <TargetsSummary rows={polled.data} />}>
      <Loaded polled={polled} what="the targets" none={none}>
        {(rows) => <Pools rows={rows} params={params} />}
      </Loaded>
    </Page>
  );
}

function Pools({ rows, params }: { rows: readonly TargetRow[]; params: Readonly<Record<string, string>> }) {
  const search = params["search"] ?? "";
  const health: HealthFilter = HEALTHS.find((one) => one === params["health"]) ?? "all";
  const pool = params["pool"] ?? "";
  const limit = Number(params["limit"] ?? PAGE) || PAGE;
  const closed = useStore(collapsed);
  const all = poolsOf(rows);
  const names = all.map(({ name }) => name).sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  const kept = rows.filter(
    (row) => matches(row, search) && (health === "all" || row.target.health === health) && (pool === "" || row.target.scrapePool === pool),
  );
  const shown = poolsOf(kept);
  const count = (wanted: HealthFilter): number => rows.filter((row) => wanted === "all" || row.target.health === wanted).length;
  const folded = shown.every(({ name }) => closed.has(name));

  return (
    <>
      <div class="toolbar">
        <Filter label="Filter targets" placeholder="Filter by instance, label or error" />
        {names.length > 1 && (
          <select class="input" aria-label="Pool" value={pool} onChange={(event) => adjust({ pool: event.currentTarget.value })}>
            <option value="">All {names.length} pools</option>
            {names.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
        <Choice
          label="Health"
          options={HEALTHS.map((one) => [one, `${HEALTH_NAMES[one]} ${formatCount(count(one))}`] as const)}
          value={health}
          onChange={(value) => adjust({ health: value === "all" ? undefined : value })}
        />
        {shown.length > 1 && (
          <Button look="quiet" onClick={() => setCollapsed(shown.map(({ name }) => name), !folded)}>
            {folded ? "Unfold all" : "Fold all"}
          </Button>
        )}
      </div>
      {kept.length === 0 && <p class="awaiting">No target matches the filter.</p>}
      {shown.map((one) => (
        <PoolSection key={one.name} pool={one} among={rows} whole={all.find(({ name }) => name === one.name) ?? one} limit={limit} />
      ))}
    </>
  );
}

/** `pool` is what the filter left of the `whole`. */
function PoolSection({ pool, whole, among, limit }: { pool: Pool; whole: Pool; among: readonly TargetRow[]; limit: number }) {
  const { series, bytes, seconds } = whole.rates;
  const cost = [
    series === null ? null : `${formatValue(series)} samples/s`,
    bytes === null ? null : formatValue(bytes, "bytes/s"),
    seconds === null ? null : `${formatValue(seconds, "ratio")} of the time`,
  ].filter((part) => part !== null);
  const head = (
    <>
      <span class={whole.down > 0 ? "pool-health summary-down" : "pool-health"}>
        {formatCount(whole.up)} of {formatCount(whole.rows.length)} up
      </span>
      <span class="pool-cost muted">{cost.join(" · ")}</span>
    </>
  );
  return (
    <Fold name={pool.name} title={pool.name} head={head}>
      <TargetsTable rows={pool.rows} limit={limit} among={among} inPool />
      <More shown={limit} all={pool.rows.length} />
    </Fold>
  );
}
