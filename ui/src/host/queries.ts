// What the host page asks: node_exporter's metric names, one expression per plot.
import { matcher, type InstantSeries, type Labels } from "../api";

/** One watched machine: the target labels of its node metrics. */
export interface Host {
  job: string;
  instance: string;
  /** The machine's own name where node_uname_info tells it. */
  nodename: string;
  /** What not every kernel or exporter tells. */
  pressure: boolean;
  sockets: boolean;
}

const PRESSURE_SIGN = "node_pressure_cpu_waiting_seconds_total";
const SOCKETS_SIGN = "node_sockstat_sockets_used";

/** One to six series a machine, whichever collectors it runs. Nobody asked for them: they do not count as used. */
export const DISCOVERY =
  `{__name__=~"node_uname_info|node_load1|node_boot_time_seconds|node_memory_MemTotal_bytes|${PRESSURE_SIGN}|${SOCKETS_SIGN}",__ignore_usage__=""}`;

/** The machines in an answer to DISCOVERY; the one most likely to be the server's own first. */
export function hostsOf(series: readonly InstantSeries[], pageHost: string): Host[] {
  const hosts = new Map<string, Host>();
  for (const { metric } of series) {
    const job = metric["job"] ?? "";
    const instance = metric["instance"] ?? "";
    const key = JSON.stringify([job, instance]);
    const known = hosts.get(key);
    const name = metric["__name__"];
    hosts.set(key, {
      job,
      instance,
      nodename: metric["nodename"] ?? known?.nodename ?? "",
      pressure: known?.pressure === true || name === PRESSURE_SIGN,
      sockets: known?.sockets === true || name === SOCKETS_SIGN,
    });
  }
  const rank = (host: Host): number => {
    const name = host.instance.replace(/:\d+$/, "");
    const local = ["localhost", "127.0.0.1", "[::1]", pageHost].includes(name) || (name !== "" && name === host.nodename);
    return (host.job === "node" ? 0 : 2) + (local ? 0 : 1);
  };
  return [...hosts.values()].sort(
    (a, b) => rank(a) - rank(b) || a.instance.localeCompare(b.instance) || a.job.localeCompare(b.job),
  );
}

export const hostKey = (host: Host): string => `${host.job}/${host.instance}`;

/** The name people know the machine by. */
export function hostName(host: Host): string {
  return host.nodename !== "" ? host.nodename : host.instance;
}

const selector = (host: Host, ...more: string[]): string =>
  [matcher("job", host.job), matcher("instance", host.instance), ...more].join(",");

/** Interfaces that come and go with containers: excluded by the server, there may be thousands. */
const CONTAINER_NICS = matcher("device", "veth.*|cali.*|lxc.*|cni.*|vnet.*", "!~");
const RAM_DISKS = matcher("device", "(loop|ram|zram|fd|sr)\\d+", "!~");
const PSEUDO_FS = matcher("fstype", "tmpfs|ramfs|devtmpfs|squashfs|iso9660|rootfs|nsfs|fuse.lxcfs|efivarfs|autofs", "!~");
const MEMORY = "MemTotal|MemAvailable|MemFree|Buffers|Cached|SReclaimable|SwapTotal|SwapFree";

const SOCKETS = "sockets_used|TCP_inuse|TCP_tw|TCP_orphan|TCP6_inuse|UDP_inuse|UDP6_inuse";

export type PlotName = "cpu" | "memory" | "load" | "diskRead" | "diskWrite" | "netRx" | "netTx" | "netErrors" | "pressure" | "sockets";

/** Several rates in one answer: a rate loses its metric's name, so each gets a label instead. */
const labelled = (parts: readonly (readonly [string, string])[]): string =>
  parts.map(([what, expr]) => `label_replace(${expr}, "what", "${what}", "", "")`).join(" or ");

const PRESSURE = ["cpu", "io", "memory"] as const;

/** Packets that were damaged or thrown away, as the plots name them. */
const NET_TROUBLE = [
  ["receive errors", "node_network_receive_errs_total"],
  ["receive drops", "node_network_receive_drop_total"],
  ["transmit errors", "node_network_transmit_errs_total"],
  ["transmit drops", "node_network_transmit_drop_total"],
] as const;

/** Range queries, of what this host has; `window` is a duration that holds at least two samples, e.g. `20s`. */
export function rangeQueries(host: Host, window: string): Partial<Record<PlotName, string>> {
  const rate = (name: string, ...more: string[]): string => `rate(${name}{${selector(host, ...more)}}[${window}])`;
  return {
    cpu: `avg by (mode) (${rate("node_cpu_seconds_total")})`,
    memory: `{__name__=~"node_memory_(${MEMORY})_bytes",${selector(host)}}`,
    load: `{__name__=~"node_load1|node_load5|node_load15",${selector(host)}}`,
    diskRead: rate("node_disk_read_bytes_total", RAM_DISKS),
    diskWrite: rate("node_disk_written_bytes_total", RAM_DISKS),
    netRx: rate("node_network_receive_bytes_total", CONTAINER_NICS),
    netTx: rate("node_network_transmit_bytes_total", CONTAINER_NICS),
    netErrors: labelled(NET_TROUBLE.map(([what, name]) => [what, `sum(${rate(name, CONTAINER_NICS)})`])),
    ...(host.pressure ? { pressure: labelled(PRESSURE.map((what) => [what, rate(`node_pressure_${what}_waiting_seconds_total`)])) } : {}),
    ...(host.sockets ? { sockets: `{__name__=~"node_sockstat_(${SOCKETS})",${selector(host)}}` } : {}),
  };
}

/** Instant query of what hardly changes: cores, kernel, system, start. */
export const factsQuery = (host: Host): string =>
  `{__name__=~"node_uname_info|node_os_info|node_boot_time_seconds",${selector(host)}}`;

export const coresQuery = (host: Host): string => `count(node_cpu_seconds_total{${selector(host, matcher("mode", "idle"))}})`;

export const filesystemQuery = (host: Host): string =>
  `{__name__=~"node_filesystem_(size_bytes|free_bytes|avail_bytes|files|files_free|readonly)",${selector(host, PSEUDO_FS)}}`;

/** The value of the first series with that name and, when given, labels. */
export function find(series: readonly InstantSeries[], name: string): { metric: Labels; value: number } | null {
  const hit = series.find(({ metric }) => metric["__name__"] === name);
  return hit?.value === undefined ? null : { metric: hit.metric, value: Number(hit.value[1]) };
}
