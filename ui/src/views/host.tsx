// The first page: one machine's processor, memory, disks, network and load as moving plots, and the targets below.
import { useMemo, useRef } from "preact/hooks";
import { serverNow, vector } from "../api";
import { Choice, Notice } from "../components/controls";
import { PLOT_HEIGHT, Panel, PanelFrame } from "../components/panel";
import { TargetsTable } from "../components/targets_table";
import { cpuLines, diskDevices, filesystems, flow, loadLines, memoryLines, networkDevices, type Filesystem } from "../host/derive";
import {
  DISCOVERY, coresQuery, factsQuery, filesystemQuery, find, hostKey, hostName, hostsOf, rangeQueries,
  type Host, type PlotName,
} from "../host/queries";
import { formatHash } from "../lib/hash";
import { gridFor, useLive, type LiveData } from "../lib/live";
import { latest, toFrame, type Frame } from "../lib/matrix";
import { EAGER_MS, usePoll } from "../lib/poll";
import { adjust, route } from "../lib/router";
import { useStore } from "../lib/store";
import { useTargets, type TargetRow } from "../lib/targets";
import { formatDuration, niceStep, parseDuration } from "../lib/time";
import { formatSpan, formatValue } from "../lib/units";
import type { PlotLine } from "../plot";
import { TargetsSummary } from "./targets";

const RANGES = ["5m", "15m", "1h", "6h", "24h"] as const;
type Range = (typeof RANGES)[number];
/** Points per plot: about one per two pixels of a narrow panel. */
const POINTS = 180;
const SLOW_REFRESH_MS = 15_000;
const DISCOVERY_MS = 30_000;
const DEFAULT_INTERVAL = 15;
const TARGETS_SHOWN = 10;

export function HostView() {
  const { params } = useStore(route);
  const targets = useTargets();
  const discovery = usePoll(
    "hosts",
    async (signal) => hostsOf(await vector(DISCOVERY, signal), location.hostname),
    (found) => (found.length === 0 ? EAGER_MS : DISCOVERY_MS),
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
      <TargetsSection rows={targets.data} />
    </div>
  );
}

function TargetsSection({ rows }: { rows: readonly TargetRow[] | null }) {
  if (rows === null || rows.length === 0) return null;
  return (
    <section class="section" aria-labelledby="targets-title">
      <div class="view-head">
        <h2 id="targets-title">Targets</h2>
        <TargetsSummary rows={rows} />
      </div>
      <TargetsTable rows={rows} limit={TARGETS_SHOWN} />
      {rows.length > TARGETS_SHOWN && (
        <p class="more">
          <a href={formatHash("/targets")}>All {rows.length} targets</a>
        </p>
      )}
    </section>
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
    <Notice tone="info" title="No host metrics yet">
      <p>
        Nothing stored is named <span class="mono">node_load1</span>, <span class="mono">node_memory_MemTotal_bytes</span> or{" "}
        <span class="mono">node_uname_info</span>. Scrape a node exporter to see its machine here; this page looks again every 2 s.
      </p>
    </Notice>
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
  const queries = useMemo(() => rangeQueries(host, window), [host.job, host.instance, window]);
  const live = useLive(hostKey(host), queries, gridFor(seconds, step, lastScrape));
  const facts = usePoll(
    `facts ${hostKey(host)}`,
    (signal) => Promise.all([vector(factsQuery(host), signal), vector(coresQuery(host), signal)]),
    SLOW_REFRESH_MS,
  );
  const cores = Number(facts.data?.[1][0]?.value?.[1] ?? NaN);

  return (
    <section aria-label={`Host ${hostName(host)}`}>
      <div class="view-head host-head">
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
        <Panels live={live.data} queries={queries} range={range} cores={cores} />
        <Filesystems host={host} />
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
      <select aria-label="Host" value={hostKey(host)} onChange={(event) => adjust({ instance: event.currentTarget.value })}>
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

/** Shares are read best against a round top. */
const shareTop = (highest: number): number => [0.1, 0.25, 0.5].find((top) => highest <= top * 0.95) ?? 1;

function Panels(props: { live: LiveData<PlotName> | null; queries: Record<PlotName, string>; range: string; cores: number }) {
  const { live, queries, range, cores } = props;
  const step = 1;
  const blank: Frame = toFrame([], 0, 0, step);
  const frame = (name: PlotName): Frame => live?.frames[name] ?? blank;
  const emptyText = (name: PlotName, what: string): string => {
    if (live === null) return "Loading…";
    return live.errors[name] ?? what;
  };
  const common = (name: PlotName, lines: readonly PlotLine[], what: string) => ({
    lines,
    times: frame(name).times,
    from: live?.from ?? 0,
    to: live?.to ?? 1,
    expr: queries[name],
    range,
    empty: emptyText(name, what),
  });
  const latestOf = (lines: readonly PlotLine[], i: number): number => latest(lines[i]?.values ?? []) ?? NaN;

  const cpu = useMemo(() => cpuLines(frame("cpu")), [live]);
  const memory = useMemo(() => memoryLines(frame("memory")), [live]);
  const load = useMemo(() => loadLines(frame("load")), [live]);
  const disk = useMemo(
    () => flow({ name: "read", frame: frame("diskRead") }, { name: "write", frame: frame("diskWrite") }, diskDevices),
    [live],
  );
  const net = useMemo(
    () => flow({ name: "receive", frame: frame("netRx") }, { name: "transmit", frame: frame("netTx") }, networkDevices),
    [live],
  );

  const busy = cpu.filter((line) => line.name !== "iowait" && line.name !== "steal").reduce((total, line) => total + (latest(line.values) ?? 0), 0);
  const used = latestOf(memory.lines, 0);
  const swap = memory.swapTotal > 0 ? `, swap ${formatValue(memory.swapUsed, "bytes")} of ${formatValue(memory.swapTotal, "bytes")}` : "";
  const flowNow = (lines: readonly PlotLine[]): string | undefined =>
    lines.length === 0 ? undefined : formatValue((latestOf(lines, 0) || 0) + (latestOf(lines, 1) || 0), "bytes/s");
  const some = (lines: readonly PlotLine[], text: string): string | undefined => (lines.length === 0 ? undefined : text);

  return (
    <>
      <Panel
        title="CPU"
        headline={some(cpu, formatValue(busy, "ratio"))}
        note={Number.isNaN(cores) ? "busy" : `busy, of ${cores} ${cores === 1 ? "core" : "cores"}`}
        unit="ratio"
        mode="stacked"
        top={shareTop}
        {...common("cpu", cpu, "Waiting for two samples of node_cpu_seconds_total.")}
      />
      <Panel
        title="Memory"
        headline={some(memory.lines, formatValue(used, "bytes"))}
        note={memory.total > 0 ? `used of ${formatValue(memory.total, "bytes")}${swap}` : undefined}
        unit="bytes"
        mode="stacked"
        top={(highest) => memory.total || highest}
        {...common("memory", memory.lines, "Waiting for node_memory_MemTotal_bytes.")}
      />
      <Panel
        title="Load"
        headline={some(load, formatValue(latestOf(load, 0)))}
        note={Number.isNaN(cores) ? "1 min" : `1 min, ${cores} ${cores === 1 ? "core" : "cores"}`}
        unit="number"
        mode="lines"
        top={(highest) => Math.max(highest * 1.08, 0.1)}
        {...common("load", load, "Waiting for node_load1.")}
      />
      <Panel
        title="Disk"
        headline={flowNow(disk.lines)}
        note={deviceNote("read and written", disk.devices)}
        unit="bytes/s"
        mode="mirrored"
        {...common("diskRead", disk.lines, "No disk counters: node_disk_read_bytes_total has no two samples, or this host has no disks.")}
      />
      <Panel
        title="Network"
        headline={flowNow(net.lines)}
        note={deviceNote("in and out", net.devices)}
        unit="bytes/s"
        mode="mirrored"
        {...common("netRx", net.lines, "No network counters: node_network_receive_bytes_total has no two samples.")}
      />
    </>
  );
}

function deviceNote(what: string, devices: readonly string[]): string | undefined {
  if (devices.length === 0) return undefined;
  const names = devices.length <= 3 ? devices.join(", ") : `${devices.slice(0, 2).join(", ")} and ${devices.length - 2} more`;
  return `${what}, ${names}`;
}

const ALMOST_FULL = 0.9;

function Filesystems({ host }: { host: Host }) {
  const polled = usePoll(
    `fs ${hostKey(host)}`,
    async (signal) => filesystems(await vector(filesystemQuery(host), signal)),
    SLOW_REFRESH_MS,
  );
  const mounts = polled.data ?? [];
  const fullest = mounts[0];
  return (
    <PanelFrame
      title="Filesystems"
      headline={fullest === undefined ? undefined : formatValue(fullest.usedRatio, "ratio")}
      note={fullest === undefined ? undefined : `of ${fullest.mountpoint} used`}
      link={formatHash("/query", { expr: filesystemQuery(host), tab: "table" })}
    >
      {mounts.length === 0 ? (
        <div class="panel-empty" style={{ minHeight: `${PLOT_HEIGHT + 22}px` }}>
          <p>{polled.loading ? "Loading…" : "No filesystems: node_filesystem_size_bytes has no samples."}</p>
        </div>
      ) : (
        <ul class="mounts" style={{ maxHeight: `${PLOT_HEIGHT + 22}px` }} tabIndex={0} aria-label="Filesystems, fullest first">
          {mounts.map((mount) => (
            <Mount key={`${mount.device} ${mount.mountpoint}`} mount={mount} />
          ))}
        </ul>
      )}
    </PanelFrame>
  );
}

function Mount({ mount }: { mount: Filesystem }) {
  const noInodes = (mount.inodesUsedRatio ?? 0) >= ALMOST_FULL;
  const full = (mount.usedRatio >= ALMOST_FULL || noInodes) && !mount.readOnly;
  const percent = Math.min(100, mount.usedRatio * 100);
  return (
    <li class={full ? "mount mount-full" : "mount"}>
      <span class="mount-name">{mount.mountpoint}</span>
      <span class="mount-kind">
        {mount.device.replace(/^\/dev\//, "")} {mount.fstype}
        {mount.readOnly ? ", read-only" : ""}
        {mount.inodesUsedRatio === null ? "" : `, inodes ${formatValue(mount.inodesUsedRatio, "ratio")}`}
      </span>
      <span class="mount-size">
        {full && <b>{noInodes ? "inodes almost used up: " : "almost full: "}</b>}
        {formatValue(mount.usedBytes, "bytes")} of {formatValue(mount.sizeBytes, "bytes")}, <b>{formatValue(mount.usedRatio, "ratio")}</b>
      </span>
      <span class="meter" aria-hidden="true">
        <span style={{ width: `${percent}%` }} />
      </span>
    </li>
  );
}
