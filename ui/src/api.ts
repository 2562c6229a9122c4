// The Prometheus HTTP API as this page uses it: every type and every request.
// Invariant: a request ends in typed data or in an ApiError that says whether the server, its start or the question is at fault.

import type { Threshold } from "./lib/thresholds";

export type Labels = Readonly<Record<string, string>>;

/** `[unix seconds, value as text]`; the text keeps `NaN`, `+Inf` and every digit. */
export type Sample = readonly [number, string];

export interface Histogram {
  count: string;
  sum: string;
  /** `[boundary rule, lower, upper, count]`. */
  buckets?: readonly (readonly [number, string, string, string])[];
}

export interface InstantSeries {
  metric: Labels;
  value?: Sample;
  histogram?: readonly [number, Histogram];
}

export interface RangeSeries {
  metric: Labels;
  values?: readonly Sample[];
  histograms?: readonly (readonly [number, Histogram])[];
}

/** What an evaluation cost the server; times in seconds. A server may leave any of it out. */
export interface QueryStats {
  timings?: Readonly<Record<string, number>>;
  samples?: Readonly<Record<string, unknown>>;
}

/** Where a query's time went, by operation; times in seconds. Only this server tells. */
export interface Trace {
  queuedSeconds: number;
  totalSeconds: number;
  plan: string;
  /** Parents first; the first one is the query itself. */
  nodes: readonly TraceNode[];
}

export interface TraceNode {
  /** The operation's part of the query. */
  text: string;
  parent: number | null;
  /** By phase, without inputs. */
  seconds: Readonly<Record<string, number>>;
  /** Passed on. */
  series: number;
  /** Read from the storage. */
  samples: number;
}

export interface ExemplarSeries {
  seriesLabels: Labels;
  exemplars: readonly { labels: Labels; value: string; timestamp: number }[];
}

/** A family of the server's own metrics, as protobuf's JSON has it. */
export interface OwnFamily {
  name: string;
  metric: readonly { label?: readonly { name: string; value: string }[]; counter?: { value: number | string }; gauge?: { value: number | string } }[];
}

export type QueryData = { stats?: QueryStats; trace?: Trace } & (
  | { resultType: "vector"; result: readonly InstantSeries[] }
  | { resultType: "matrix"; result: readonly RangeSeries[] }
  | { resultType: "scalar"; result: Sample }
  | { resultType: "string"; result: Sample }
);

export interface Answer<T> {
  data: T;
  warnings: readonly string[];
  infos: readonly string[];
  /** What the question cost: round trip and size of the answer. */
  elapsedMs: number;
  bytes: number;
}

export interface Target {
  /** Before relabelling. */
  discoveredLabels?: Labels;
  labels: Labels;
  scrapePool: string;
  scrapeUrl: string;
  /** The same with a host name that others can use. */
  globalUrl?: string;
  health: "up" | "down" | "unknown";
  lastError: string;
  lastScrape: string;
  lastScrapeDuration: number;
  /** The body, uncompressed, and its samples; Prometheus doesn't tell. */
  lastScrapeBytes?: number;
  lastScrapeSamples?: number;
  scrapeInterval?: string;
  scrapeTimeout?: string;
}

export interface DroppedTarget {
  discoveredLabels: Labels;
  scrapePool?: string;
  /** Why it is not scraped; Prometheus doesn't tell. */
  reason?: string;
}

export interface Targets {
  activeTargets: readonly Target[];
  droppedTargets?: readonly DroppedTarget[] | null;
  /** By pool; the server may list fewer targets than it dropped. */
  droppedTargetCounts?: Readonly<Record<string, number>> | null;
  /** By pool, then by reason; Prometheus doesn't tell. */
  droppedTargetReasons?: Readonly<Record<string, Readonly<Record<string, number>>>> | null;
  /** What was discovered and makes no target, with the reason; Prometheus only logs it. */
  failedTargets?: readonly DroppedTarget[] | null;
  failedTargetCounts?: Readonly<Record<string, number>> | null;
}

/** Metrics that another process keeps in shared memory; only this server tells. */
export interface Segment {
  file: string;
  state: "alive" | "dead" | "broken";
  /** What is wrong with a broken one. */
  reason: string | null;
  /** What follows is absent where not even the header can be read. */
  app?: string;
  worker?: string;
  pid?: number;
  createdMs?: number;
  bytes?: number;
  series?: number;
  /** Series that its writer had no room for, or could not describe. */
  refusedSeries?: number;
  metrics: readonly SegmentMetric[];
}

export interface SegmentMetric {
  name: string;
  type: string;
  series: number;
  isOn: boolean;
}

export interface Segments {
  /** Nothing where no directory is configured. */
  dir: string | null;
  maySwitch: boolean;
  segments: readonly Segment[];
}

/** A remote end that samples are sent to. */
export interface RemoteEnd {
  name: string;
  url: string;
  /** The protobuf message in use, or that of frames. */
  message: string;
  shards: number;
  maxShards: number;
  pendingSamples: number;
  sentSamples: number;
  /** Refused by the remote end for good. */
  refusedSamples: number;
  droppedSamples: number;
  queueFiles: number;
  queueBytes: number;
  queueLimitBytes: number;
  /** Between the newest sample that came and the newest that was sent. */
  behindSeconds: number;
  newestSent: string | null;
  failingSince: string | null;
  lastError: string | null;
  lastErrorTime: string | null;
}

export interface BuildInfo {
  /** The version of Prometheus whose API this is. */
  version: string;
  /** The server's own version, where it is not Prometheus. */
  applicationVersion?: string;
  revision?: string;
}

/** `/status/runtimeinfo`; a server that isn't written in Go leaves Go's settings empty or out. */
export type RuntimeInfo = Readonly<Record<string, string | number | boolean | null>>;

export interface Counted {
  name: string;
  value: number;
}

/** `/status/memory`: who uses the memory there is; only this server tells. */
export interface MemoryStatus {
  limitBytes: number;
  usedBytes: number;
  /** In words; `none` while there is enough. */
  pressure: string;
  shares: readonly MemoryShare[];
}

export interface MemoryShare {
  name: string;
  usedBytes: number;
  peakBytes: number;
  /** Nothing where it has no limit of its own. */
  limitBytes: number | null;
  refusedTotal: number;
}

export interface TsdbStatus {
  headStats?: { numSeries: number; numLabelPairs: number; chunkCount: number; minTime: number; maxTime: number };
  seriesCountByMetricName?: readonly Counted[] | null;
  labelValueCountByLabelName?: readonly Counted[] | null;
  memoryInBytesByLabelName?: readonly Counted[] | null;
  seriesCountByLabelValuePair?: readonly Counted[] | null;
}

export interface Block {
  ulid: string;
  /** Milliseconds since the epoch; `maxTime` is exclusive. */
  minTime: number;
  maxTime: number;
  stats?: { numSamples?: number; numSeries?: number; numChunks?: number };
  compaction?: { level?: number };
}

/** Who asks a query; only this server tells. */
export type QueryOrigin =
  | { kind: "rule"; file: string; group: string }
  | { kind: "dashboard" | "query"; clientIP: string; method: string; path: string };

/** A query that runs; times in seconds. */
export interface ActiveQuery {
  id: string;
  query: string;
  start: number;
  end: number;
  /** 0 for an instant. */
  step: number;
  durationSeconds: number;
  state: "queued" | "evaluating" | "sending";
  origin: QueryOrigin;
}

/** What evaluations of a query cost since the server started. */
export interface QueryCost {
  query: string;
  /** Length of its range; 0 for instants. */
  timeRangeSeconds: number;
  count: number;
  failures: number;
  sumDurationSeconds: number;
  avgDurationSeconds: number;
  maxDurationSeconds: number;
  samplesRead: number;
  peakSamples: number;
  last: number;
}

export interface TopQueries {
  /** Since when they are counted. */
  since: number;
  topByCount: readonly QueryCost[];
  topBySumDuration: readonly QueryCost[];
  topByAvgDuration: readonly QueryCost[];
  topBySamples: readonly QueryCost[];
}

/** Who asked for a metric. */
export interface MetricUse {
  metricName: string;
  queryRequestsCount: number;
  queries: number;
  dashboards: number;
  rules: number;
  /** 0 for never. */
  lastRequestTimestamp: number;
}

export interface MetricUses {
  statsCollectedSince: number;
  /** Of which `records` are the least used. */
  matchingTotal: number;
  records: readonly MetricUse[];
}

export interface Metadata {
  type: string;
  help: string;
  unit: string;
}

export interface RuleGroup {
  name: string;
  file: string;
  rules: readonly Rule[];
  /** Seconds. */
  interval: number;
  /** Most results of a rule; 0 for no limit. */
  limit?: number;
  /** Seconds that the last evaluation of all rules took. */
  evaluationTime: number;
  lastEvaluation: string;
}

interface RuleStatus {
  name: string;
  query: string;
  labels?: Labels;
  health: "ok" | "err" | "unknown";
  lastError?: string;
  /** Seconds that the last evaluation took. */
  evaluationTime: number;
  lastEvaluation: string;
  /** What the last evaluation read and stored; Prometheus does not say. */
  samplesRead?: number;
  series?: number;
}

export type AlertState = "firing" | "pending" | "inactive" | "unknown";

export interface AlertingRule extends RuleStatus {
  type: "alerting";
  /** The highest of its alerts. */
  state: AlertState;
  /** Seconds before an alert fires, and for which it goes on without its element. */
  duration: number;
  keepFiringFor?: number;
  /** Templates. */
  annotations?: Labels;
  alerts?: readonly Alert[] | null;
  /** What is compared with numbers, and these; Prometheus does not say. */
  graphs?: readonly { expr: string; thresholds: readonly Threshold[] }[];
}

export interface RecordingRule extends RuleStatus {
  type: "recording";
  /** Whether a rule or a query read the metric since it is recorded; Prometheus does not say. */
  wasRead?: boolean;
}

export type Rule = AlertingRule | RecordingRule;

export interface Alert {
  labels: Labels;
  annotations: Labels;
  state: AlertState;
  activeAt: string;
  /** Since when its element is gone. */
  keepFiringSince?: string;
  /** The value of its element, `1.5e+00`. */
  value: string;
}

export interface Alertmanagers {
  activeAlertmanagers: readonly { url: string }[] | null;
}

export type Fault =
  /** No answer at all. */
  | "unreachable"
  /** It answers, but not yet: 503 while the log is replayed. */
  | "starting"
  /** The server has no such endpoint. */
  | "missing"
  /** The answer isn't the API's. */
  | "protocol"
  /** The server's own error types (`bad_data`, `execution`, `timeout`, ...). */
  | (string & {});

export class ApiError extends Error {
  constructor(
    readonly fault: Fault,
    message: string,
    readonly status = 0,
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** Worth asking again unchanged: the server is at fault, not the question. */
  get passing(): boolean {
    return this.fault === "unreachable" || this.fault === "starting" || this.fault === "protocol";
  }
}

type Params = Readonly<Record<string, string | readonly string[] | undefined>>;

const TIMEOUT_MS = 30_000;
/** Proxies commonly refuse request lines above 8 KiB; longer questions go as a form. */
const MAX_GET_CHARS = 2_000;

let skewSeconds = 0;

/** The server's clock, Unix seconds: plots end at its time, not at the browser's. */
export function serverNow(): number {
  return Date.now() / 1000 + skewSeconds;
}

/** `Date` has whole seconds and travels late, so only a real difference counts. */
function noteDate(header: string | null): void {
  const then = header === null ? NaN : Date.parse(header);
  if (Number.isNaN(then)) return;
  const difference = (then - Date.now()) / 1000;
  skewSeconds = Math.abs(difference) > 2.5 ? difference + 0.5 : 0;
}

async function request<T>(path: string, params: Params, signal?: AbortSignal, method: "GET" | "POST" = "GET"): Promise<Answer<T>> {
  const began = performance.now();
  const form = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    for (const one of typeof value === "string" ? [value] : (value ?? [])) form.append(key, one);
  }
  // Relative to the page: also right below a route prefix.
  const url = new URL(`api/v1/${path}`, document.baseURI);
  const query = form.toString();
  const init: RequestInit = { method, headers: { Accept: "application/json" } };
  if (query.length > MAX_GET_CHARS && path.startsWith("query")) {
    init.method = "POST";
    init.body = form;
  } else {
    url.search = query;
  }
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  init.signal = signal === undefined ? timeout : AbortSignal.any([signal, timeout]);

  let response: Response;
  let text: string;
  try {
    response = await fetch(url, init);
    text = await response.text();
  } catch (error) {
    if (signal?.aborted === true) throw error;
    const why = timeout.aborted ? `no answer within ${TIMEOUT_MS / 1000} s` : "no connection";
    throw new ApiError("unreachable", `${url.host}: ${why}`);
  }
  noteDate(response.headers.get("date"));
  return { ...decode<T>(response.status, text), elapsedMs: performance.now() - began, bytes: text.length };
}

/** Makes a request without parameters. */
const get =
  <T>(path: string) =>
  (signal?: AbortSignal): Promise<Answer<T>> =>
    request(path, {}, signal);

/** What a server need not tell: null where it has no such endpoint. */
export async function ifTold<T>(answer: Promise<Answer<T>>): Promise<T | null> {
  try {
    return (await answer).data;
  } catch (error) {
    if (error instanceof ApiError && error.fault === "missing") return null;
    throw error;
  }
}

/** Opens the envelope `{status, data | error, errorType, warnings, infos}`. */
export function decode<T>(status: number, text: string): Pick<Answer<T>, "data" | "warnings" | "infos"> {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = null;
  }
  const envelope = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  if (envelope["status"] === "success") {
    return {
      data: envelope["data"] as T,
      warnings: (envelope["warnings"] as string[] | undefined) ?? [],
      infos: (envelope["infos"] as string[] | undefined) ?? [],
    };
  }
  // A query that ran out of time is also 503, but it is an answer.
  if (envelope["status"] === "error" && envelope["errorType"] !== "unavailable") {
    throw new ApiError(String(envelope["errorType"] ?? "error"), String(envelope["error"] ?? "unknown error"), status);
  }
  const said = String(envelope["error"] ?? text.trim()).slice(0, 200);
  if (status === 503) throw new ApiError("starting", said === "" ? "Service Unavailable" : said, status);
  if (status === 502 || status === 504) throw new ApiError("unreachable", `a proxy answers ${status}`, status);
  if (status === 404 || status === 501) throw new ApiError("missing", "this server has no such endpoint", status);
  throw new ApiError("protocol", `unexpected answer (HTTP ${status})${status === 200 ? "" : `: ${said}`}`, status);
}

/** Files of the log by number: the first, the last, and the one being read while the server starts. */
export interface WalReplay {
  min: number;
  max: number;
  current: number;
}

/** How far the log is replayed; answered before anything else is. */
export const walReplay = get<WalReplay>("status/walreplay");

export const segments = get<Segments>("segments");
export const buildInfo = get<BuildInfo>("status/buildinfo");
export const config = get<{ yaml: string }>("status/config");
export const flags = get<Readonly<Record<string, string>>>("status/flags");
export const runtimeInfo = get<RuntimeInfo>("status/runtimeinfo");
export const memoryStatus = get<MemoryStatus>("status/memory");
export const tsdbBlocks = get<{ blocks: readonly Block[] | null }>("status/tsdb/blocks");
export const activeQueries = get<readonly ActiveQuery[]>("status/active_queries");
export const metadata = get<Readonly<Record<string, readonly Metadata[]>>>("metadata");

/** Also asks what an evaluation cost; a trace says where the time went. */
export const STATS: Params = { stats: "true" };
export const TRACE: Params = { ...STATS, trace: "1" };

/** Evaluates at one time; without `time` at the server's own clock. */
export function query(expr: string, time?: number, signal?: AbortSignal, more: Params = {}): Promise<Answer<QueryData>> {
  return request("query", { query: expr, time: time?.toFixed(3), ...more }, signal);
}

/** Exemplars of the series that an expression selects. */
export async function exemplars(expr: string, start: number, end: number, signal?: AbortSignal): Promise<readonly ExemplarSeries[]> {
  const { data } = await request<readonly ExemplarSeries[] | null>("query_exemplars", { query: expr, start: start.toFixed(3), end: end.toFixed(3) }, signal);
  return data ?? [];
}

/** The server's own metrics whose names match, anchored. */
export function selfMetrics(pattern: string, signal?: AbortSignal): Promise<Answer<readonly OwnFamily[]>> {
  return request("status/self_metrics", { metric_name_pattern: pattern }, signal);
}

/** Evaluates at `start`, `start + step`, ... up to and including `end`. */
export function queryRange(
  expr: string,
  start: number,
  end: number,
  step: number,
  signal?: AbortSignal,
  more: Params = {},
): Promise<Answer<QueryData>> {
  const range = { start: start.toFixed(3), end: end.toFixed(3), step: String(step) };
  return request("query_range", { query: expr, ...range, ...more }, signal);
}

/** The expression as the server would write it. */
export function formatQuery(expr: string, signal?: AbortSignal): Promise<Answer<string>> {
  return request("format_query", { query: expr }, signal);
}

/** The instant vector of an expression known to give one. */
export async function vector(expr: string, signal?: AbortSignal): Promise<readonly InstantSeries[]> {
  const { data } = await query(expr, undefined, signal);
  return data.resultType === "vector" ? data.result : [];
}

export function targets(signal?: AbortSignal, state: "active" | "any" = "active"): Promise<Answer<Targets>> {
  return request("targets", { state }, signal);
}

/** Switches a metric in every segment of an application. */
export function switchSegments(app: string, metric: string, on: boolean): Promise<Answer<{ segments: number }>> {
  return request("segments/switch", { app, metric, state: on ? "on" : "off" }, undefined, "POST");
}

/** How sending to each remote end does. */
export const remoteWrite = get<readonly RemoteEnd[]>("status/remote_write");

/** Groups of rules with what their last evaluation came to. */
export function rules(signal?: AbortSignal, type?: "alert" | "record"): Promise<Answer<{ groups: readonly RuleGroup[] }>> {
  return request("rules", { type }, signal);
}

/** Where alerts are sent. */
export const alertmanagers = get<Alertmanagers>("alertmanagers");

/** Head statistics, and the `limit` largest of each kind. */
export function tsdbStatus(limit: number, signal?: AbortSignal): Promise<Answer<TsdbStatus>> {
  return request("status/tsdb", { limit: String(limit) }, signal);
}

export function topQueries(topN: number, signal?: AbortSignal): Promise<Answer<TopQueries>> {
  return request("status/top_queries", { topN: String(topN) }, signal);
}

/** The least used metrics, of all or of those whose names match an anchored pattern; `most` leaves out those with more uses. */
export function metricUses(limit: number, pattern: string, most: number | null, signal?: AbortSignal): Promise<Answer<MetricUses>> {
  const params = { limit: String(limit), match_pattern: pattern === "" ? undefined : pattern, le: most === null ? undefined : String(most) };
  return request("status/metric_names_stats", params, signal);
}

/** Label names, of all series or of those that a selector matches. */
export function labelNames(signal?: AbortSignal, selector?: string): Promise<Answer<readonly string[]>> {
  return request("labels", { "match[]": selector }, signal);
}

export function labelValues(name: string, signal?: AbortSignal, selector?: string): Promise<Answer<readonly string[]>> {
  return request(`label/${encodeURIComponent(name)}/values`, { "match[]": selector }, signal);
}

/** A label matcher `name="value"`, escaped. */
export function matcher(name: string, value: string, operator = "="): string {
  return `${name}${operator}"${value.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`;
}

/** A series as PromQL writes it: `up{job="node"}`. */
export function seriesName(metric: Labels): string {
  const name = metric["__name__"] ?? "";
  const pairs = Object.entries(metric)
    .filter(([key]) => key !== "__name__")
    .map(([key, value]) => matcher(key, value));
  if (pairs.length === 0) return name === "" ? "{}" : name;
  return `${name}{${pairs.join(", ")}}`;
}

/** The number a sample's text stands for. */
export function parseNumber(text: string): number {
  if (text === "+Inf") return Infinity;
  return text === "-Inf" ? -Infinity : Number(text);
}
