// Numbers with units, as people read them.
import { describe, expect, test } from "vitest";
import { formatCount, formatSpan, formatTicks, formatValue, guessUnit } from "./units";

const plain = (text: string): string => text.replace(/\u00a0/g, " ").replace(/\u202f/g, "_").replace(/\u2212/g, "-");

describe("formatValue", () => {
  test.each([
    [0, "0 B"],
    [1, "1 B"],
    [512, "512 B"],
    [1023, "1023 B"],
    [1024, "1.00 KiB"],
    [1536, "1.50 KiB"],
    [10 * 1024, "10.0 KiB"],
    [1023.99 * 1024, "1.00 MiB"],
    [25276502016, "23.5 GiB"],
    [2 ** 60, "1.00 EiB"],
    [2 ** 72, "4096 EiB"],
    [0.5, "0.50 B"],
    [-2048, "-2.00 KiB"],
  ])("bytes %d", (value, text) => expect(plain(formatValue(value, "bytes"))).toBe(text));

  test.each([
    [0, "0 B/s"],
    [228.4, "228 B/s"],
    [1.5 * 2 ** 20, "1.50 MiB/s"],
    [0.001, "<0.01 B/s"],
  ])("bytes/s %d", (value, text) => expect(plain(formatValue(value, "bytes/s"))).toBe(text));

  test.each([
    [0, "0%"],
    [0.1234, "12.3%"],
    [1, "100%"],
    [0.0003, "0.03%"],
    [0.00001, "<0.01%"],
    [0.9996, "100%"],
  ])("ratio %d", (value, text) => expect(plain(formatValue(value, "ratio"))).toBe(text));

  test.each([
    [0, "0 s"],
    [0.0032, "3.20 ms"],
    [0.00041, "410 µs"],
    [5e-9, "5.00 ns"],
    [0.9999, "1.00 s"],
    [12.12, "12.1 s"],
    [90, "1 min 30 s"],
    [7200, "2 h"],
    [-0.5, "-500 ms"],
  ])("seconds %d", (value, text) => expect(plain(formatValue(value, "seconds"))).toBe(text));

  test.each([
    [0, "0"],
    [42, "42"],
    [0.12345, "0.123"],
    [3.6e-4, "0.00036"],
    [3.6e-5, "3.6e-5"],
    [1234, "1.23k"],
    [999999, "1.00M"],
    [NaN, "NaN"],
    [Infinity, "+Inf"],
    [-Infinity, "-Inf"],
  ])("number %d", (value, text) => expect(plain(formatValue(value))).toBe(text));

  test("per second", () => expect(plain(formatValue(1500, "per second"))).toBe("1.50 k/s"));
});

describe("formatTicks", () => {
  test.each([
    [[0, 0.25, 0.5, 0.75, 1], "ratio", ["0", "25%", "50%", "75%", "100%"]],
    [[0, 0.05, 0.1], "ratio", ["0", "5%", "10%"]],
    [[0, 8 * 2 ** 30, 16 * 2 ** 30], "bytes", ["0", "8 GiB", "16 GiB"]],
    [[512 * 2 ** 20, 2 ** 30, 1.5 * 2 ** 30], "bytes", ["512 MiB", "1024 MiB", "1536 MiB"]],
    [[0, 2 ** 30, 2 ** 31], "bytes/s", ["0", "1 GiB/s", "2 GiB/s"]],
    [[0, 0.2, 0.4], "number", ["0", "0.2", "0.4"]],
    [[0, 0.25, 0.5], "number", ["0", "0.25", "0.50"]],
    [[0, 2000, 4000], "number", ["0", "2k", "4k"]],
    [[-1, 0, 1], "number", ["-1", "0", "1"]],
    [[0, 0.001, 0.002], "seconds", ["0 ", "1 ms", "2 ms"]],
    [[0, 1800, 3600], "seconds", ["0", "0.5 h", "1.0 h"]],
    [[], "number", []],
  ] as const)("%j %s", (ticks, unit, labels) => {
    expect(formatTicks(ticks, unit).map(plain)).toEqual(labels.map((label) => label.trim()));
  });

  test("labels of different ticks differ", () => {
    for (const gap of [0.001, 0.02, 0.25, 0.5, 1, 2.5, 10, 250, 5000]) {
      const ticks = Array.from({ length: 6 }, (_, i) => 100 * gap + i * gap);
      for (const unit of ["number", "seconds", "ratio", "bytes"] as const) {
        expect(new Set(formatTicks(ticks, unit)).size, `${gap} ${unit}: ${formatTicks(ticks, unit).join()}`).toBe(6);
      }
    }
  });
});

test("spans in their two largest parts", () => {
  expect(plain(formatSpan(250))).toBe("4 min 10 s");
  expect(plain(formatSpan(86400 * 3 + 3600 * 7 + 59))).toBe("3 d 7 h");
  expect(plain(formatSpan(3600))).toBe("1 h");
  expect(plain(formatSpan(59.996))).toBe("60.0 s");
});

test("counts in groups", () => {
  expect(plain(formatCount(0))).toBe("0");
  expect(plain(formatCount(999))).toBe("999");
  expect(plain(formatCount(1234567))).toBe("1_234_567");
});

describe("guessUnit", () => {
  test.each([
    ["node_memory_MemFree_bytes", "bytes"],
    ['rate(node_network_receive_bytes_total{device="lo"}[5m])', "bytes/s"],
    ["node_network_receive_bytes_total", "bytes"],
    ["scrape_duration_seconds", "seconds"],
    ["rate(node_cpu_seconds_total[1m])", "number"],
    ["histogram_quantile(0.9, rate(http_request_duration_seconds_bucket[5m]))", "seconds"],
    ["rate(http_requests_total[1m])", "per second"],
    ["used_ratio", "ratio"],
    ["node_memory_MemFree_bytes / node_memory_MemTotal_bytes", "number"],
    ['count(node_memory_MemFree_bytes)', "number"],
    ['up{path="/x_bytes"}', "number"],
    ["up", "number"],
  ])("%s", (expr, unit) => expect(guessUnit(expr)).toBe(unit));
});
