// The five plots of a host, from the answers to its range queries.
import { useMemo } from "preact/hooks";
import { Panel } from "../components/panel";
import type { LiveData } from "../lib/live";
import { latest, toFrame, type Frame } from "../lib/matrix";
import { formatValue } from "../lib/units";
import type { PlotLine } from "../plot";
import {
  cpuLines, diskDevices, flow, loadLines, memoryLines, networkDevices, pressureLines, socketLines, troubleLines, type Flow,
} from "./derive";
import type { PlotName } from "./queries";

export interface HostPanelsProps {
  /** Null until the first answer. */
  live: LiveData<PlotName> | null;
  /** Of what this host has. */
  queries: Readonly<Partial<Record<PlotName, string>>>;
  /** For links, in seconds. */
  range: number;
  /** NaN where unknown. */
  cores: number;
}

const BLANK: Frame = toFrame([], 0, 0, 1);
const frameOf = (live: LiveData<PlotName> | null, name: PlotName): Frame => live?.frames[name] ?? BLANK;

/** What every panel takes from the answers; `awaited` says what a plot without lines lacks. */
function commonProps({ live, queries, range }: HostPanelsProps, name: PlotName, lines: readonly PlotLine[], awaited: string) {
  return {
    lines,
    times: frameOf(live, name).times,
    from: live?.from ?? 0,
    to: live?.to ?? 1,
    expr: queries[name] ?? "",
    range,
    empty: live === null ? "Loading…" : (live.errors[name] ?? awaited),
  };
}

const now = (line: PlotLine | undefined): number => latest(line?.values ?? []) ?? 0;
const coresText = (cores: number): string => `${cores} ${cores === 1 ? "core" : "cores"}`;

export function HostPanels(props: HostPanelsProps) {
  return (
    <>
      <Cpu {...props} />
      <Memory {...props} />
      <Load {...props} />
      <Disk {...props} />
      <Network {...props} />
    </>
  );
}

/** What follows when the machine tells it; known from the start, so that nothing moves when the answers come. */
export function MorePanels(props: HostPanelsProps) {
  return (
    <>
      {props.queries.pressure !== undefined && <Pressure {...props} />}
      <NetworkTrouble {...props} />
      {props.queries.sockets !== undefined && <Sockets {...props} />}
    </>
  );
}

/** Shares are read best against a round top. */
const shareTop = (highest: number): number => [0.1, 0.25, 0.5].find((top) => highest <= top * 0.95) ?? 1;

function Cpu(props: HostPanelsProps) {
  const lines = useMemo(() => cpuLines(frameOf(props.live, "cpu")), [props.live]);
  // Waiting for disks, or for the hypervisor, is not work.
  const busy = lines.filter(({ name }) => name !== "iowait" && name !== "steal").reduce((total, line) => total + now(line), 0);
  return (
    <Panel
      title="CPU"
      headline={lines.length === 0 ? undefined : formatValue(busy, "ratio")}
      note={Number.isNaN(props.cores) ? "busy" : `busy, of ${coresText(props.cores)}`}
      unit="ratio"
      mode="stacked"
      top={shareTop}
      {...commonProps(props, "cpu", lines, "Waiting for two samples of node_cpu_seconds_total.")}
    />
  );
}

function Memory(props: HostPanelsProps) {
  const memory = useMemo(() => memoryLines(frameOf(props.live, "memory")), [props.live]);
  const { lines, total, swapUsed, swapTotal } = memory;
  const swap = swapTotal > 0 ? `, swap ${formatValue(swapUsed, "bytes")} of ${formatValue(swapTotal, "bytes")}` : "";
  return (
    <Panel
      title="Memory"
      headline={lines.length === 0 ? undefined : formatValue(now(lines[0]), "bytes")}
      note={total > 0 ? `used of ${formatValue(total, "bytes")}${swap}` : undefined}
      unit="bytes"
      mode="stacked"
      top={(highest) => total || highest || 1}
      {...commonProps(props, "memory", lines, "Waiting for node_memory_MemTotal_bytes.")}
    />
  );
}

function Load(props: HostPanelsProps) {
  const lines = useMemo(() => loadLines(frameOf(props.live, "load")), [props.live]);
  return (
    <Panel
      title="Load"
      headline={lines.length === 0 ? undefined : formatValue(now(lines[0]))}
      note={Number.isNaN(props.cores) ? "1 min" : `1 min, ${coresText(props.cores)}`}
      unit="number"
      mode="lines"
      top={(highest) => Math.max(highest * 1.08, 0.1)}
      {...commonProps(props, "load", lines, "Waiting for node_load1.")}
    />
  );
}

function Disk(props: HostPanelsProps) {
  const { live } = props;
  const disk = useMemo(
    () => flow({ name: "read", frame: frameOf(live, "diskRead") }, { name: "write", frame: frameOf(live, "diskWrite") }, diskDevices),
    [live],
  );
  const awaited = "No disk counters: node_disk_read_bytes_total has no two samples, or this host has no disks.";
  return (
    <Panel
      title="Disk"
      {...flowNumbers("read and written", disk)}
      unit="bytes/s"
      mode="mirrored"
      {...commonProps(props, "diskRead", disk.lines, awaited)}
    />
  );
}

function Network(props: HostPanelsProps) {
  const { live } = props;
  const net = useMemo(
    () => flow({ name: "receive", frame: frameOf(live, "netRx") }, { name: "transmit", frame: frameOf(live, "netTx") }, networkDevices),
    [live],
  );
  const awaited = "No network counters: node_network_receive_bytes_total has no two samples.";
  return (
    <Panel
      title="Network"
      {...flowNumbers("in and out", net)}
      unit="bytes/s"
      mode="mirrored"
      {...commonProps(props, "netRx", net.lines, awaited)}
    />
  );
}

function Pressure(props: HostPanelsProps) {
  const lines = useMemo(() => pressureLines(frameOf(props.live, "pressure")), [props.live]);
  const worst = lines.reduce<PlotLine | undefined>((most, line) => (most === undefined || now(line) > now(most) ? line : most), undefined);
  return (
    <Panel
      title="Pressure"
      headline={worst === undefined ? undefined : formatValue(now(worst), "ratio")}
      note={worst === undefined ? undefined : `waiting for ${worst.name}`}
      unit="ratio"
      mode="lines"
      top={shareTop}
      {...commonProps(props, "pressure", lines, "Waiting for two samples of node_pressure_cpu_waiting_seconds_total.")}
    />
  );
}

function NetworkTrouble(props: HostPanelsProps) {
  const lines = useMemo(() => troubleLines(frameOf(props.live, "netErrors")), [props.live]);
  const rate = lines.reduce((total, line) => total + now(line), 0);
  const known = frameOf(props.live, "netErrors").lines.size > 0;
  // Alone in its row it would be an empty box about nothing.
  const alone = props.queries.pressure === undefined && props.queries.sockets === undefined;
  if (alone && lines.length === 0) return null;
  return (
    <Panel
      title="Lost packets"
      headline={known ? formatValue(rate, "per second") : undefined}
      note={known ? "errors and drops, in and out" : undefined}
      unit="per second"
      mode="mirrored"
      {...commonProps(props, "netErrors", lines, known ? "None in this time: no errors, no drops." : "Waiting for two samples of node_network_receive_errs_total.")}
    />
  );
}

function Sockets(props: HostPanelsProps) {
  const { lines, used } = useMemo(() => socketLines(frameOf(props.live, "sockets")), [props.live]);
  return (
    <Panel
      title="Sockets"
      headline={used === null ? undefined : formatValue(used)}
      note={used === null ? undefined : "open, of all kinds"}
      unit="number"
      mode="lines"
      {...commonProps(props, "sockets", lines, "Waiting for node_sockstat_TCP_inuse.")}
    />
  );
}

/** Both directions together, and over which devices. */
function flowNumbers(what: string, { lines, devices }: Flow): { headline?: string; note?: string } {
  if (lines.length === 0) return {};
  const names = devices.length <= 3 ? devices.join(", ") : `${devices.slice(0, 2).join(", ")} and ${devices.length - 2} more`;
  return { headline: formatValue(now(lines[0]) + now(lines[1]), "bytes/s"), note: `${what}, ${names}` };
}
