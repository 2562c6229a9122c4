// What service discovery found: labels before and after relabelling, and what was dropped and why.
import { useMemo, useState } from "preact/hooks";
import { targets } from "../api";
import { Choice } from "../components/controls";
import { LabelChips } from "../components/labels";
import { Loaded } from "../components/loaded";
import { Filter, Fold, More, Page } from "../components/page";
import { Table, type Column } from "../components/table";
import { discoveredPools, foundMatches, hiddenInCommon, type DiscoveredPool, type Found } from "../lib/discovery";
import { without } from "../lib/labels";
import { usePoll } from "../lib/poll";
import { adjust, route } from "../lib/router";
import { useStore } from "../lib/store";
import { formatCount } from "../lib/units";

const REFRESH_MS = 15_000;
const PAGE = 50;
const STATES = ["all", "active", "dropped"] as const;
type StateFilter = (typeof STATES)[number];

export default function DiscoveryView() {
  const polled = usePoll("discovery", async (signal) => discoveredPools((await targets(signal, "any")).data), REFRESH_MS);
  return (
    <Page title="Service discovery" head={polled.data !== null && <Summary pools={polled.data} />}>
      <Loaded polled={polled} what="the targets" none="Discovery has found nothing: the configuration has no scrape targets.">
        {(pools) => <Pools pools={pools} />}
      </Loaded>
    </Page>
  );
}

function Summary({ pools }: { pools: readonly DiscoveredPool[] }) {
  const active = pools.reduce((sum, pool) => sum + pool.active, 0);
  const dropped = pools.reduce((sum, pool) => sum + pool.dropped, 0);
  const failed = pools.reduce((sum, pool) => sum + pool.failed, 0);
  return (
    <p class="summary">
      <strong>{formatCount(active)}</strong> scraped, <strong>{formatCount(dropped)}</strong> dropped
      {failed > 0 && (
        <>
          , <strong class="failed">{formatCount(failed)}</strong> failed
        </>
      )}
    </p>
  );
}

function Pools({ pools }: { pools: readonly DiscoveredPool[] }) {
  const { params } = useStore(route);
  const search = params["search"] ?? "";
  const state: StateFilter = STATES.find((one) => one === params["state"]) ?? "all";
  const wanted = (found: Found): boolean => state === "all" || (state === "active") === (found.labels !== null);
  const shown = pools.map((pool) => ({ pool, found: pool.found.filter((one) => wanted(one) && foundMatches(one, search)) }));
  const some = shown.filter(({ found, pool }) => found.length > 0 || (search === "" && pool.found.length === 0));
  return (
    <>
      <div class="toolbar">
        <Filter label="Filter targets" placeholder="Filter by any label or reason" />
        <Choice
          label="State"
          options={[["all", "All"], ["active", "Scraped"], ["dropped", "Not scraped"]]}
          value={state}
          onChange={(value) => adjust({ state: value === "all" ? undefined : value })}
        />
      </div>
      {some.length === 0 && <p class="awaiting">Nothing matches the filter.</p>}
      {some.map(({ pool, found }) => (
        <PoolSection key={pool.name} pool={pool} found={found} />
      ))}
    </>
  );
}

function PoolSection({ pool, found }: { pool: DiscoveredPool; found: readonly Found[] }) {
  const [limit, setLimit] = useState(PAGE);
  const shared = useMemo(() => hiddenInCommon(pool.found), [pool]);
  const listed = pool.found.filter((one) => one.labels === null).length;
  const columns: readonly Column<Found>[] = [
    {
      title: "Discovered labels",
      cell: (one) => <LabelChips labels={without(one.discovered, shared)} empty="this server does not tell" />,
    },
    { title: "Target labels", cell: (one) => (one.labels === null ? <Lost found={one} /> : <LabelChips labels={one.labels} />) },
  ];
  const head = (
    <>
      <span class="pool-health">
        {formatCount(pool.active)} scraped, {formatCount(pool.dropped)} dropped
        {pool.failed > 0 && <span class="failed">, {formatCount(pool.failed)} failed</span>}
      </span>
      <span class="pool-cost muted">{pool.reasons.map(([reason, count]) => `${reason} ${formatCount(count)}`).join(" · ")}</span>
    </>
  );
  return (
    // Folded here is not folded among the targets.
    <Fold name={`discovery ${pool.name}`} title={pool.name === "" ? "(pool not told)" : pool.name} head={head}>
      {found.length > 0 && Object.keys(shared).length > 0 && (
        <p class="pool-shared">
          <span class="muted">all:</span> <LabelChips labels={shared} />
        </p>
      )}
      {found.length > 0 && <Table class="cards discovered" columns={columns} rows={found.slice(0, limit)} keyOf={({ key }) => key} />}
      <More shown={limit} all={found.length} show={setLimit} />
      {pool.dropped + pool.failed > listed && (
        <p class="more muted">
          The server lists {formatCount(listed)} of {formatCount(pool.dropped + pool.failed)} targets that are not scraped
          {listed === 0 ? "" : "; keep_dropped_targets in the configuration limits the list"}.
        </p>
      )}
    </Fold>
  );
}

/** What became of a target that is not scraped. */
function Lost({ found: { failed, reason } }: { found: Found }) {
  const word = failed ? "failed" : "dropped";
  return <span class={word}>{reason === "" ? word : `${word}: ${reason}`}</span>;
}
