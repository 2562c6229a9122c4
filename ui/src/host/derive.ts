// From answers to what is drawn: modes in a fixed order, memory in three parts, only devices that count once.
import type { InstantSeries } from "../api";
import { combine, sum, type Frame, type Value } from "../lib/matrix";
import type { PlotLine } from "../plot";

/** A line: the sum of the series whose label has one of these values. */
interface LineSpec extends Omit<PlotLine, "values"> {
  of: readonly string[];
}

/** Busy modes bottom to top; colours are told apart by all common forms of colour blindness and by lightness. */
const CPU_MODES: readonly LineSpec[] = [
  { name: "system", color: "--c-orange", of: ["system"] },
  { name: "user", color: "--c-blue", of: ["user"] },
  { name: "nice", color: "--c-sky", of: ["nice"] },
  { name: "iowait", color: "--c-red", of: ["iowait"] },
  { name: "irq", color: "--c-purple", of: ["irq", "softirq"] },
  { name: "steal", color: "--c-yellow", of: ["steal"] },
];

const LOADS: readonly LineSpec[] = [
  { name: "1 min", color: "--c-blue", of: ["node_load1"] },
  { name: "5 min", color: "--c-orange", of: ["node_load5"] },
  { name: "15 min", color: "--c-green", of: ["node_load15"], dashed: true },
];

const PRESSURES: readonly LineSpec[] = [
  { name: "CPU", color: "--c-blue", of: ["cpu"] },
  { name: "I/O", color: "--c-orange", of: ["io"] },
  { name: "memory", color: "--c-green", of: ["memory"] },
];

const TROUBLES: readonly LineSpec[] = [
  { name: "receive errors", color: "--c-red", of: ["receive errors"] },
  { name: "receive drops", color: "--c-orange", of: ["receive drops"] },
  { name: "transmit errors", color: "--c-purple", of: ["transmit errors"], below: true },
  { name: "transmit drops", color: "--c-blue", of: ["transmit drops"], below: true },
];

const SOCKETS: readonly LineSpec[] = [
  { name: "TCP", color: "--c-blue", of: ["TCP_inuse", "TCP6_inuse"] },
  { name: "TCP closing", color: "--c-orange", of: ["TCP_tw", "TCP_orphan"] },
  { name: "UDP", color: "--c-green", of: ["UDP_inuse", "UDP6_inuse"] },
];

/** Below half a percent an area is thinner than a pixel. */
const VISIBLE_SHARE = 0.005;

function byLabel(frame: Frame, label: string, value: string): readonly Value[] | null {
  for (const line of frame.lines.values()) if (line.metric[label] === value) return line.values;
  return null;
}

/** Those of the lines that have any series; their values of the label begin with `prefix`. */
function linesOf(frame: Frame, label: string, specs: readonly LineSpec[], prefix = ""): PlotLine[] {
  return specs.flatMap(({ of, ...line }) => {
    const parts = of.map((value) => byLabel(frame, label, prefix + value)).filter((part) => part !== null);
    return parts.length === 0 ? [] : [{ ...line, values: sum(parts, frame.times.length) }];
  });
}

const some = (values: readonly Value[], test: (value: number) => boolean): boolean =>
  values.some((value) => value !== null && test(value));

/** Stacked CPU lines as shares of all cores. Modes that a kernel has but never uses are left out. */
export const cpuLines = (frame: Frame): PlotLine[] =>
  linesOf(frame, "mode", CPU_MODES).filter(
    ({ name, values }) => name === "user" || name === "system" || some(values, (value) => value >= VISIBLE_SHARE),
  );

export const loadLines = (frame: Frame): PlotLine[] => linesOf(frame, "__name__", LOADS);

/** Shares of time in which something waited, for each resource that the kernel tells. */
export const pressureLines = (frame: Frame): PlotLine[] => linesOf(frame, "what", PRESSURES);

/** Kinds of lost packets that happened at all in this window; sent ones below zero. */
export const troubleLines = (frame: Frame): PlotLine[] =>
  linesOf(frame, "what", TROUBLES).filter(({ values }) => some(values, (value) => value > 0));

/** Sockets by kind, both versions of IP together. */
export function socketLines(frame: Frame): { lines: PlotLine[]; used: number | null } {
  const used = byLabel(frame, "__name__", "node_sockstat_sockets_used")?.findLast((value) => value !== null) ?? null;
  return { lines: linesOf(frame, "__name__", SOCKETS, "node_sockstat_"), used };
}

/** Memory that can't be taken back, that can, and that is unused: together all of it. */
export function memoryLines(frame: Frame): { lines: PlotLine[]; total: number; swapTotal: number; swapUsed: number } {
  const length = frame.times.length;
  const get = (name: string): readonly Value[] | null => byLabel(frame, "__name__", `node_memory_${name}_bytes`);
  const last = (name: string): number => get(name)?.findLast((value) => value !== null) ?? 0;
  const swapTotal = last("SwapTotal");
  const swap = { swapTotal, swapUsed: swapTotal - last("SwapFree") };
  const total = get("MemTotal");
  const free = get("MemFree");
  if (total === null || free === null) return { lines: [], total: 0, ...swap };
  // Kernels before 3.14 don't estimate what is available.
  const available =
    get("MemAvailable") ?? sum([free, get("Buffers") ?? [], get("Cached") ?? [], get("SReclaimable") ?? []], length);
  const used = combine(length, [total, available], (all, avail) => Math.max(0, all - avail));
  const cached = combine(length, [available, free], (avail, unused) => Math.max(0, avail - unused));
  const rest = combine(length, [total, used, cached], (all, u, c) => Math.max(0, all - u - c));
  return {
    lines: [
      { name: "used", color: "--c-blue", values: used },
      { name: "cached", color: "--c-sky", values: cached },
      { name: "free", color: "--c-grey", values: rest, faint: true },
    ],
    total: last("MemTotal"),
    ...swap,
  };
}

/** Interfaces whose traffic also passes another one, or that never leave the host. */
const VIRTUAL_NIC =
  /^(lo|docker|br-|br\d|bridge|virbr|veth|vnet|cali|cni|flannel|lxc|lxdbr|tun|tap|wg|tailscale|zt|bond|team|dummy|ifb|sit|ip6tnl|gre|erspan|teql|vxlan|geneve|kube|nodelocaldns|ovs|macvtap|vlan)|[.:@]/;

/** Network devices to add up, each byte counted once. */
export function networkDevices(devices: readonly string[]): string[] {
  const physical = devices.filter((device) => !VIRTUAL_NIC.test(device));
  if (physical.length > 0) return physical.sort();
  const outside = devices.filter((device) => device !== "lo");
  return (outside.length > 0 ? outside : [...devices]).sort();
}

/** Disks to add up: no partitions beside their disk, no device-mapper or RAID layer above one. */
export function diskDevices(devices: readonly string[]): string[] {
  const all = new Set(devices);
  const partition = (device: string): boolean => {
    const parent = /^(?:(.*\d)p\d+|([a-z]+)\d+)$/.exec(device);
    return parent !== null && all.has((parent[1] ?? parent[2]) as string);
  };
  const disks = devices.filter((device) => !partition(device));
  const physical = disks.filter((device) => !/^(dm-|md|loop|ram|zram|fd|sr|drbd|bcache)/.test(device));
  return (physical.length > 0 ? physical : disks).sort();
}

export interface Flow {
  lines: PlotLine[];
  devices: string[];
}

/** Two directions mirrored around zero, added up over the devices that `pick` keeps. */
export function flow(
  up: { name: string; frame: Frame },
  down: { name: string; frame: Frame },
  pick: (devices: readonly string[]) => string[],
): Flow {
  const names = new Set<string>();
  for (const frame of [up.frame, down.frame]) {
    for (const line of frame.lines.values()) if (line.metric["device"] !== undefined) names.add(line.metric["device"]);
  }
  const devices = pick([...names]);
  const total = (frame: Frame): Value[] =>
    sum([...frame.lines.values()].filter((line) => devices.includes(line.metric["device"] ?? "")).map((line) => line.values), frame.times.length);
  if (devices.length === 0) return { lines: [], devices };
  return {
    lines: [
      { name: up.name, color: "--c-blue", values: total(up.frame) },
      { name: down.name, color: "--c-orange", values: total(down.frame), below: true },
    ],
    devices,
  };
}

export interface Filesystem {
  mountpoint: string;
  device: string;
  fstype: string;
  sizeBytes: number;
  usedBytes: number;
  availBytes: number;
  /** As `df` counts it: without the blocks reserved for root; 0..1. */
  usedRatio: number;
  /** 0..1; null for filesystems without a fixed number of inodes. */
  inodesUsedRatio: number | null;
  readOnly: boolean;
}

/** Filesystems, fullest first; a device mounted several times counts once, by its shortest mount point. */
export function filesystems(series: readonly InstantSeries[]): Filesystem[] {
  const mounts = new Map<string, Map<string, number>>();
  const labels = new Map<string, Readonly<Record<string, string>>>();
  for (const { metric, value } of series) {
    if (value === undefined) continue;
    const key = JSON.stringify([metric["device"], metric["mountpoint"]]);
    const values = mounts.get(key) ?? new Map<string, number>();
    values.set(metric["__name__"] ?? "", Number(value[1]));
    mounts.set(key, values);
    labels.set(key, metric);
  }
  const byDevice = new Map<string, Filesystem>();
  for (const [key, values] of mounts) {
    const size = values.get("node_filesystem_size_bytes") ?? 0;
    const free = values.get("node_filesystem_free_bytes") ?? values.get("node_filesystem_avail_bytes") ?? 0;
    const avail = values.get("node_filesystem_avail_bytes") ?? free;
    if (!(size > 0)) continue;
    const metric = labels.get(key) ?? {};
    const used = Math.max(0, size - free);
    const inodes = values.get("node_filesystem_files") ?? 0;
    const inodesFree = values.get("node_filesystem_files_free");
    const entry: Filesystem = {
      mountpoint: metric["mountpoint"] ?? "?",
      device: metric["device"] ?? "?",
      fstype: metric["fstype"] ?? "",
      sizeBytes: size,
      usedBytes: used,
      availBytes: avail,
      usedRatio: used + avail > 0 ? used / (used + avail) : 1,
      inodesUsedRatio: inodes > 0 && inodesFree !== undefined ? 1 - inodesFree / inodes : null,
      readOnly: values.get("node_filesystem_readonly") === 1,
    };
    // Network and overlay mounts share names like "overlay" without being one device.
    const identity = entry.device.startsWith("/dev/") ? entry.device : key;
    const other = byDevice.get(identity);
    if (other === undefined || entry.mountpoint.length < other.mountpoint.length) byDevice.set(identity, entry);
  }
  return [...byDevice.values()].sort((a, b) => b.usedRatio - a.usedRatio || a.mountpoint.localeCompare(b.mountpoint));
}
