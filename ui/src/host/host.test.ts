// Which machines there are, what is asked about one, and what is drawn of the answers.
import { describe, expect, test } from "vitest";
import type { InstantSeries, Labels, RangeSeries } from "../api";
import { toFrame } from "../lib/matrix";
import {
  cpuLines, diskDevices, filesystems, flow, loadLines, memoryLines, networkDevices, pressureLines, socketLines, troubleLines,
} from "./derive";
import { coresQuery, filesystemQuery, hostName, hostsOf, rangeQueries } from "./queries";

const instant = (metric: Labels, value = "1"): InstantSeries => ({ metric, value: [0, value] });
const frame = (...lines: [Labels, number[]][]) => {
  const matrix = lines.map(([metric, values]): RangeSeries => ({ metric, values: values.map((value, i) => [i, String(value)]) }));
  return toFrame(matrix, 0, (lines[0]?.[1].length ?? 1) - 1, 1);
};

describe("hosts", () => {
  const series = [
    instant({ __name__: "node_load1", job: "other", instance: "a:9100" }),
    instant({ __name__: "node_load1", job: "node", instance: "b:9100" }),
    instant({ __name__: "node_load1", job: "node", instance: "vm" }),
    instant({ __name__: "node_uname_info", job: "node", instance: "vm", nodename: "vm" }),
    instant({ __name__: "node_boot_time_seconds", job: "node", instance: "vm" }),
  ];

  test("are told apart by job and instance, the server's own first", () => {
    expect(hostsOf(series, "example.org").map((host) => `${host.job} ${host.instance}`)).toEqual(["node vm", "node b:9100", "other a:9100"]);
    expect(hostsOf(series, "b").map((host) => host.instance)[0]).toBe("b:9100");
    expect(hostsOf([], "x")).toEqual([]);
  });

  test("are asked only for what they tell", () => {
    const more = [instant({ __name__: "node_pressure_cpu_waiting_seconds_total", job: "node", instance: "vm" })];
    const [vm, b] = hostsOf([...series, ...more], "example.org");
    if (vm === undefined || b === undefined) throw new Error("two hosts");
    expect([vm.pressure, vm.sockets, b.pressure]).toEqual([true, false, false]);
    expect(Object.keys(rangeQueries(vm, "20s"))).toContain("pressure");
    expect(Object.keys(rangeQueries(b, "20s"))).not.toContain("pressure");
    expect(Object.keys(rangeQueries(b, "20s"))).not.toContain("sockets");
  });

  test("have their own name where known", () => {
    expect(hostsOf(series, "").map(hostName)).toEqual(["vm", "b:9100", "a:9100"]);
  });

  test("are asked for by escaped labels", () => {
    const host = { job: 'j"', instance: "i\\", nodename: "", pressure: true, sockets: true };
    const queries = rangeQueries(host, "20s");
    for (const query of [...Object.values(queries), coresQuery(host), filesystemQuery(host)]) {
      expect(query).toContain('job="j\\"",instance="i\\\\"');
    }
    expect(queries.cpu).toBe('avg by (mode) (rate(node_cpu_seconds_total{job="j\\"",instance="i\\\\"}[20s]))');
  });
});

test("CPU: fixed order, interrupts together, unused modes left out, user and system always", () => {
  const lines = cpuLines(
    frame(
      [{ mode: "idle" }, [0.9, 0.9]],
      [{ mode: "user" }, [0, 0]],
      [{ mode: "system" }, [0.1, 0.2]],
      [{ mode: "irq" }, [0.01, 0.02]],
      [{ mode: "softirq" }, [0.03, 0.01]],
      [{ mode: "steal" }, [0.004, 0.001]],
    ),
  );
  expect(lines.map((line) => line.name)).toEqual(["system", "user", "irq"]);
  expect(lines[2]?.values).toEqual([0.04, 0.03]);
  expect(cpuLines(frame())).toEqual([]);
});

describe("memory", () => {
  const name = (part: string): Labels => ({ __name__: `node_memory_${part}_bytes` });

  test("three parts make the whole", () => {
    const { lines, total, swapUsed, swapTotal } = memoryLines(
      frame([name("MemTotal"), [100]], [name("MemFree"), [20]], [name("MemAvailable"), [70]], [name("SwapTotal"), [8]], [name("SwapFree"), [5]]),
    );
    expect(lines.map((line) => [line.name, line.values[0]])).toEqual([["used", 30], ["cached", 50], ["free", 20]]);
    expect([total, swapUsed, swapTotal]).toEqual([100, 3, 8]);
  });

  test("available less than free, and kernels that don't tell", () => {
    const less = memoryLines(frame([name("MemTotal"), [100]], [name("MemFree"), [20]], [name("MemAvailable"), [15]]));
    expect(less.lines.map((line) => line.values[0])).toEqual([85, 0, 15]);
    const old = memoryLines(frame([name("MemTotal"), [100]], [name("MemFree"), [20]], [name("Cached"), [30]], [name("Buffers"), [5]]));
    expect(old.lines.map((line) => line.values[0])).toEqual([45, 35, 20]);
    expect(memoryLines(frame()).lines).toEqual([]);
  });
});

test("load lines that exist", () => {
  expect(loadLines(frame([{ __name__: "node_load5" }, [1]], [{ __name__: "node_load1" }, [2]])).map((line) => line.name)).toEqual(["1 min", "5 min"]);
});

describe("devices count once", () => {
  test.each([
    [["eth0", "lo", "veth12", "docker0"], ["eth0"]],
    [["bond0", "eno1", "eno2", "eno1.100"], ["eno1", "eno2"]],
    [["lo", "docker0"], ["docker0"]],
    [["lo"], ["lo"]],
    [["wlp3s0", "tailscale0", "br-ab12"], ["wlp3s0"]],
    [[], []],
  ])("network %j", (devices, kept) => expect(networkDevices(devices)).toEqual(kept));

  test.each([
    [["sda", "sda1", "sda2", "dm-0"], ["sda"]],
    [["nvme0n1", "nvme0n1p1", "md0"], ["nvme0n1"]],
    [["vda", "zram0"], ["vda"]],
    [["dm-0", "dm-1"], ["dm-0", "dm-1"]],
    [["mmcblk0", "mmcblk0p1"], ["mmcblk0"]],
    // A partition without its disk, as some containers see it.
    [["xvda1"], ["xvda1"]],
    [["sda", "sdb", "sdaa"], ["sda", "sdaa", "sdb"]],
  ])("disks %j", (devices, kept) => expect(diskDevices(devices)).toEqual(kept));

  test("and are added up", () => {
    const { lines, devices } = flow(
      { name: "receive", frame: frame([{ device: "eth0" }, [1, 2]], [{ device: "eth1" }, [10, 20]], [{ device: "lo" }, [99, 99]]) },
      { name: "transmit", frame: frame([{ device: "eth0" }, [3, 4]]) },
      networkDevices,
    );
    expect(devices).toEqual(["eth0", "eth1"]);
    expect(lines.map((line) => [line.name, line.values, line.below === true])).toEqual([
      ["receive", [11, 22], false],
      ["transmit", [3, 4], true],
    ]);
  });
});

test("pressure: what the kernel tells, always in the same colours", () => {
  const lines = pressureLines(frame([{ what: "memory" }, [0]], [{ what: "cpu" }, [0.2]]));
  expect(lines.map(({ name, values }) => [name, values[0]])).toEqual([["CPU", 0.2], ["memory", 0]]);
});

test("lost packets: only kinds that happened, sent ones below", () => {
  const lines = troubleLines(
    frame([{ what: "receive errors" }, [0, 0]], [{ what: "receive drops" }, [0, 2]], [{ what: "transmit drops" }, [1, 0]]),
  );
  expect(lines.map(({ name, below }) => [name, below === true])).toEqual([["receive drops", false], ["transmit drops", true]]);
  expect(troubleLines(frame())).toEqual([]);
});

test("sockets: both versions of IP together", () => {
  const name = (part: string): Labels => ({ __name__: `node_sockstat_${part}` });
  const { lines, used } = socketLines(
    frame([name("TCP_inuse"), [3]], [name("TCP6_inuse"), [4]], [name("TCP_tw"), [5]], [name("sockets_used"), [90]]),
  );
  expect(lines.map((line) => [line.name, line.values[0]])).toEqual([["TCP", 7], ["TCP closing", 5]]);
  expect(used).toBe(90);
});

test("filesystems: fullest first, as df counts, one per device, inodes where there are", () => {
  const mount = (device: string, mountpoint: string, size: number, free: number, avail: number, more: Record<string, number> = {}): InstantSeries[] =>
    Object.entries({ size_bytes: size, free_bytes: free, avail_bytes: avail, ...more }).map(([name, value]) =>
      instant({ __name__: `node_filesystem_${name}`, device, mountpoint, fstype: "ext4" }, String(value)),
    );
  const found = filesystems([
    ...mount("/dev/sda1", "/etc/hosts", 100, 60, 50),
    ...mount("/dev/sda1", "/", 100, 60, 50, { files: 1000, files_free: 250 }),
    ...mount("/dev/sdb1", "/data", 100, 10, 10, { readonly: 1, files: 0, files_free: 0 }),
    ...mount("overlay", "/a", 10, 9, 9),
    ...mount("overlay", "/b", 10, 8, 8),
    ...mount("/dev/zero", "/empty", 0, 0, 0),
  ]);
  expect(found.map((one) => one.mountpoint)).toEqual(["/data", "/", "/b", "/a"]);
  expect(found[0]).toMatchObject({ readOnly: true, inodesUsedRatio: null, usedRatio: 0.9 });
  expect(found[1]).toMatchObject({ usedBytes: 40, inodesUsedRatio: 0.75 });
  expect(found[1]?.usedRatio).toBeCloseTo(40 / 90);
});
