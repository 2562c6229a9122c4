// The first page: one machine's processor, memory, disks, network and load as moving plots, and the targets below.
import { useMemo, useRef } from "preact/hooks";
import { serverNow, vector } from "../api";
import { Choice, Notice } from "../components/controls";
import { ScrapeCost } from "../components/scrape_cost";
import { ServerOverview } from "../components/server_overview";
import { TargetsSummary } from "../components/targets_summary";
import { TargetsTable } from "../components/targets_table";
import { Filesystems } from "../host/filesystems";
import { HostPanels, MorePanels } from "../host/panels";
import { DISCOVERY, coresQuery, factsQuery, find, hostKey, hostName, hostsOf, rangeQueries, type Host } from "../host/queries";
import { formatAddress } from "../lib/address";
import { gridFor, useLive } from "../lib/live";
import { EAGER_MS, usePoll } from "../lib/poll";
import { adjust, route } from "../lib/router";
import { useStore } from "../lib/store";
import { useTargets, type TargetRow } from "../lib/targets";
import { formatDuration, niceStep, parseDuration } from "../lib/time";
import { formatSpan } from "../lib/units";

const RANGES = ["5m", "15m", "1h", "6h", "24h"] as const;
type Range = (typeof RANGES)[number];
/** Points per plot: about one per two pixels of a narrow panel. */
const POINTS = 180;
const FACTS_REFRESH_MS = 15_000;
const DISCOVERY_MS = 30_000;
const PATIENCE_MS = 60_000;
const DEFAULT_INTERVAL = 15;
const TARGETS_SHOWN = 10;

export function HostView() {
  const { params } = useStore(route);
  const targets = useTargets();
  const discovery = usePoll(
    "hosts",
    async (signal) => hostsOf(await vector(DISCOVERY, signal), location.hostname),
    // A host that is awaited comes with the next scrape; most servers without one stay so.
    (found) => (found.length === 0 && performance.now() < PATIENCE_MS ? EAGER_MS : DISCOVERY_MS),
  );
  const hosts = discovery.data ?? [];
  const wanted = params["instance"];
  const host = hosts.find((one) => hostKey(one) === wanted || one.instance === wanted) ?? hosts[0];
  const range = RANGES.find((one) => one === params["range"]) ?? "5m";
  // The targets know the scrape interval, and it decides step and rate window: plots wait for it.
  const ready = host !== undefined && !targets.loading;

  return (
    <div class="view">
      <h1 class="sr-only">Overview</h1>
      {!ready ? (
        <Awaiting loading={discovery.loading || targets.loading} error={discovery.error} targets={targets.data} />
      ) : (
        <HostPlots key={hostKey(host)} host={host} hosts={hosts} range={range} targets={targets.data} />
      )}
      {/* Not before it is known whether plots come above. */}
      {!discovery.loading && <TargetsSection rows={targets.data} />}
    </div>
  );
}

function TargetsSection({ rows }: { rows: readonly TargetRow[] | null }) {
  if (rows === null || rows.length === 0) return null;
  return (
    <>
      <section class="section" aria-labelledby="cost-title">
        <div class="view-head">
          <h2 id="cost-title">Scrape cost</h2>
          <TargetsSummary rows={rows} />
        </div>
        <ScrapeCost rows={rows} limit={TARGETS_SHOWN} />
      </section>
      <section class="section" aria-labelledby="targets-title">
        <div class="view-head">
          <h2 id="targets-title">Targets</h2>
        </div>
        <TargetsTable rows={rows} limit={TARGETS_SHOWN} />
        {rows.length > TARGETS_SHOWN && (
          <p class="more">
            <a href={formatAddress("/targets")}>All {rows.length} targets</a>
          </p>
        )}
      </section>
    </>
  );
}

/** No node metrics: says what is awaited and what the targets have to do with it. */
function Awaiting(props: { loading: boolean; error: unknown; targets: readonly TargetRow[] | null }) {
  const { targets } = props;
  if (props.loading || (props.error !== null && targets === null)) {
    return <p class="awaiting tall">Looking for host metrics…</p>;
  }
  const node = (targets ?? []).filter((row) => row.job === "node");
  const failing = node.find((row) => row.target.health === "down");
  if (failing !== undefined) {
    return (
      <Notice tone="warn" title={`Host metrics can’t be read from ${failing.instance}`}>
        <p class="mono">{failing.target.lastError}</p>
        <p>The plots appear with its first successful scrape.</p>
      </Notice>
    );
  }
  if (node.length > 0) {
    const interval = node[0]?.target.scrapeInterval;
    return (
      <Notice tone="info" title="Waiting for the first samples of this host">
        <p>
          Target <span class="mono">{node[0]?.instance}</span> is scraped
          {interval === undefined ? "" : ` every ${interval}`}; memory and load appear with the first scrape, rates with the second.
        </p>
      </Notice>
    );
  }
  return (
    <>
      <ServerOverview targets={targets} />
      <p class="muted overview-note">
        No host is watched: nothing stored is named <span class="mono">node_load1</span>, <span class="mono">node_memory_MemTotal_bytes</span>{" "}
        or <span class="mono">node_uname_info</span>. With a node exporter’s metrics, its machine is shown here.
      </p>
    </>
  );
}

/** How the host is scraped, as first seen: its rows change with every scrape, the plots' grid must not. */
function useSchedule(host: Host, targets: readonly TargetRow[] | null): { interval: number; lastScrape: number | null } {
  const known = useRef<{ interval: number; lastScrape: number } | null>(null);
  const row = targets?.find((one) => one.job === host.job && one.instance === host.instance);
  const interval = parseDuration(row?.target.scrapeInterval ?? "") ?? DEFAULT_INTERVAL;
  const lastScrape = row?.lastScrape ?? null;
  if (lastScrape !== null && known.current?.interval !== interval) known.current = { interval, lastScrape };
  return known.current ?? { interval, lastScrape };
}

interface PlotsProps {
  host: Host;
  hosts: readonly Host[];
  range: Range;
  targets: readonly TargetRow[] | null;
}

function HostPlots({ host, hosts, range, targets }: PlotsProps) {
  const { interval, lastScrape } = useSchedule(host, targets);
  const seconds = parseDuration(range) as number;
  const step = niceStep(seconds, Math.min(POINTS, Math.floor(seconds / Math.min(interval, 60))));
  // Four scrapes, so that one missed leaves no gap; never less than what lies between two points.
  const window = formatDuration(Math.max(4 * interval, step + interval));
  const queries = useMemo(() => rangeQueries(host, window), [host.job, host.instance, host.pressure, host.sockets, window]);
  const live = useLive(hostKey(host), queries, gridFor(seconds, step, lastScrape));
  const facts = usePoll(
    `facts ${hostKey(host)}`,
    (signal) => Promise.all([vector(factsQuery(host), signal), vector(coresQuery(host), signal)]),
    FACTS_REFRESH_MS,
  );
  const cores = Number(facts.data?.[1][0]?.value?.[1] ?? NaN);

  return (
    <section aria-label={`Host ${hostName(host)}`}>
      <div class="view-head">
        <HostTitle host={host} hosts={hosts} />
        <Facts series={facts.data?.[0] ?? []} cores={cores} />
        <Choice
          label="Range"
          options={RANGES.map((one) => [one, one] as const)}
          value={range}
          onChange={(value) => adjust({ range: value === "5m" ? undefined : value })}
        />
      </div>
      <div class="panels">
        <HostPanels live={live.data} queries={queries} range={seconds} cores={cores} />
        <Filesystems host={host} />
        <MorePanels live={live.data} queries={queries} range={seconds} cores={cores} />
      </div>
    </section>
  );
}

function HostTitle({ host, hosts }: { host: Host; hosts: readonly Host[] }) {
  if (hosts.length < 2) return <h2>{hostName(host)}</h2>;
  const names = hosts.map(hostName);
  const text = (one: Host): string => {
    const name = hostName(one);
    return names.filter((other) => other === name).length > 1 ? `${name} (${one.job}, ${one.instance})` : name;
  };
  return (
    <h2 class="host-select">
      <select class="input" aria-label="Host" value={hostKey(host)} onChange={(event) => adjust({ instance: event.currentTarget.value })}>
        {hosts.map((one) => (
          <option key={hostKey(one)} value={hostKey(one)}>
            {text(one)}
          </option>
        ))}
      </select>
    </h2>
  );
}

function Facts({ series, cores }: { series: Parameters<typeof find>[0]; cores: number }) {
  const uname = find(series, "node_uname_info")?.metric;
  const system = find(series, "node_os_info")?.metric["pretty_name"];
  const booted = find(series, "node_boot_time_seconds")?.value;
  const facts = [
    system,
    uname === undefined ? undefined : `${uname["sysname"] ?? ""} ${uname["release"] ?? ""} ${uname["machine"] ?? ""}`.trim(),
    Number.isNaN(cores) ? undefined : `${cores} ${cores === 1 ? "core" : "cores"}`,
    booted === undefined ? undefined : `up ${formatSpan(Math.max(0, serverNow() - booted))}`,
  ].filter((fact) => fact !== undefined);
  return <p class="facts">{facts.join(" · ")}</p>;
}
