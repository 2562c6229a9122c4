// What a server tells about itself, as rows with a name people know and a value they can read. Names that are not known
// here are shown as they are; empty values are left out.
import { formatDateTime } from "./time";
import { formatCount, formatSpan, formatValue } from "./units";

export interface InfoRow {
  /** The API's own name. */
  key: string;
  title: string;
  value: string;
}

type Show = (value: string | number | boolean) => string;

const text: Show = (value) => String(value);
const time: Show = (value) => {
  const seconds = Date.parse(String(value)) / 1000;
  // Go's zero time is year 1, the epoch is "never" elsewhere.
  return seconds > 0 ? formatDateTime(seconds) : "";
};
const count: Show = (value) => (typeof value === "number" ? formatCount(value) : String(value));
/** What every Go program has some of; none means that the server isn't one. */
const some: Show = (value) => (value === 0 ? "" : count(value));
/** Go's limit when there is none is 2^63 - 1. */
const bytes: Show = (value) => (typeof value === "number" && value > 0 && value < 2 ** 62 ? formatValue(value, "bytes") : "");

const KNOWN: Readonly<Record<string, readonly [string, Show]>> = {
  startTime: ["Started", time],
  serverTime: ["Server’s clock", time],
  hostname: ["Host", text],
  CWD: ["Working directory", text],
  reloadConfigSuccess: ["Last reload of the configuration", (value) => (value === true ? "succeeded" : "failed")],
  lastConfigTime: ["Configuration loaded", time],
  storageRetention: ["Retention", text],
  corruptionCount: ["Damaged files found", count],
  goroutineCount: ["Goroutines", some],
  GOMAXPROCS: ["Processors used", some],
  GOMEMLIMIT: ["Memory limit", bytes],
  GOGC: ["GOGC", text],
  GODEBUG: ["GODEBUG", text],
  application: ["Application", text],
  applicationVersion: ["Version", text],
  version: ["Speaks the API of Prometheus", text],
  revision: ["Revision", text],
  branch: ["Branch", text],
  buildDate: ["Built", text],
  buildUser: ["Built by", text],
  goVersion: ["Go", text],
  compiler: ["Compiler", text],
};

/** Rows in the order above, what is unknown last. */
export function infoRows(info: Readonly<Record<string, unknown>>): InfoRow[] {
  const order = Object.keys(KNOWN);
  const rank = (key: string): number => (key in KNOWN ? order.indexOf(key) : order.length);
  const rows: InfoRow[] = [];
  for (const [key, value] of Object.entries(info).sort(([a], [b]) => rank(a) - rank(b))) {
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") continue;
    const [title, show] = KNOWN[key] ?? [key, text];
    const shown = show(value);
    if (shown !== "") rows.push({ key, title, value: shown });
  }
  return rows;
}

/** `7 d 3 h` since a time; empty when it is unknown. */
export function uptime(startTime: unknown, nowSeconds: number): string {
  const started = Date.parse(String(startTime)) / 1000;
  return started > 0 ? formatSpan(Math.max(0, nowSeconds - started)) : "";
}

/** A flag's value counts as set when it is neither empty nor a plain "false" or zero. */
export function isSet(value: string): boolean {
  return value !== "" && value !== "false" && !/^0[a-z]*$/.test(value);
}
