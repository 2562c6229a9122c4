// The query page's state in its address, in Prometheus' own parameters: `g0.expr`, `g0.tab`, `g0.range_input`, ... for the
// first panel, `g1.` for the second. Links made for Prometheus work here, also those of its older pages, and links from
// here work there. Invariant: defaults are left out, so a plain query has a short link.
import { formatAddress } from "../lib/address";
import { formatThresholds, parseThresholds, type Threshold } from "../lib/thresholds";
import { formatDuration, niceStep, parseDuration } from "../lib/time";
import { UNITS, type Unit } from "../lib/units";

export type Tab = "table" | "graph" | "explain";
export type Density = "low" | "medium" | "high";

export interface PanelState {
  expr: string;
  tab: Tab;
  /** Seconds. */
  range: number;
  /** Unix seconds; null follows the clock. */
  end: number | null;
  /** Seconds; null chooses by range and density. */
  step: number | null;
  density: Density;
  stacked: boolean;
  /** Histograms as a heat map; null decides by the result. */
  heatmap: boolean | null;
  /** Exemplars over the graph. */
  exemplars: boolean;
  /** Null guesses from the expression. */
  unit: Unit | null;
  /** Lines at values that matter; where an alert comes from, those that raise it. */
  thresholds: readonly Threshold[];
  /** Asks again every few seconds. */
  live: boolean;
}

export const DEFAULT_RANGE = 3600;
/** Points of a graph; a screen shows a few hundred. */
const POINTS: Readonly<Record<Density, number>> = { low: 100, medium: 250, high: 750 };
/** What a server refuses to exceed. */
const MAX_POINTS = 11_000;
/** Nobody reads that many; an address made by a machine must not freeze the page. */
const MAX_PANELS = 50;

export const EMPTY_PANEL: PanelState = {
  expr: "", tab: "table", range: DEFAULT_RANGE, end: null, step: null, density: "medium", stacked: false, heatmap: null, exemplars: false,
  unit: null, thresholds: [], live: false,
};

type Params = Readonly<Record<string, string | undefined>>;

/** The panels of an address: as many as have an expression, from `g0` without gaps; always at least one. */
export function readPanels(params: Params): PanelState[] {
  const panels: PanelState[] = [];
  for (let i = 0; i < MAX_PANELS && params[`g${i}.expr`] !== undefined; i++) panels.push(readPanel((name) => params[`g${i}.${name}`]));
  return panels.length === 0 ? [EMPTY_PANEL] : panels;
}

function readPanel(get: (name: string) => string | undefined): PanelState {
  const tab = get("tab");
  const mode = get("display_mode");
  return {
    expr: get("expr") ?? "",
    // Pages before Prometheus 3 wrote numbers.
    tab: tab === "graph" || tab === "0" ? "graph" : tab === "explain" ? "explain" : "table",
    range: parseDuration(get("range_input") ?? "") ?? DEFAULT_RANGE,
    end: parseTime(get("moment_input") ?? "") ?? parseTime(get("end_input") ?? ""),
    step: readStep(get),
    density: (["low", "high"] as const).find((one) => one === get("res_density")) ?? "medium",
    stacked: mode === undefined ? get("stacked") === "1" : mode === "stacked",
    heatmap: mode === "heatmap" ? true : mode === "lines" ? false : null,
    exemplars: get("show_exemplars") === "1",
    unit: UNITS.find((one) => one === get("unit")) ?? null,
    thresholds: parseThresholds(get("threshold") ?? "") ?? [],
    live: get("live") === "1",
  };
}

function readStep(get: (name: string) => string | undefined): number | null {
  const type = get("res_type");
  if (type === "auto") return null;
  const text = (type === "fixed" || type === "custom" ? get("res_step") : undefined) ?? get("step_input") ?? "";
  return parseDuration(text);
}

/** Parameters of all panels; the address of a page without any query has none. */
export function writePanels(panels: readonly PanelState[]): Record<string, string | undefined> {
  const only = panels[0];
  if (panels.length === 1 && only !== undefined && JSON.stringify(only) === JSON.stringify(EMPTY_PANEL)) return {};
  return Object.assign({}, ...panels.map((panel, i) => writePanel(panel, `g${i}.`))) as Record<string, string | undefined>;
}

function writePanel(panel: PanelState, prefix: string): Record<string, string | undefined> {
  const end = panel.end === null ? undefined : formatUtc(panel.end);
  const written: Record<string, string | undefined> = {
    expr: panel.expr,
    tab: panel.tab === "table" ? undefined : panel.tab,
    range_input: panel.range === DEFAULT_RANGE ? undefined : formatDuration(panel.range),
    end_input: end,
    moment_input: end,
    res_type: panel.step !== null ? "custom" : panel.density === "medium" ? undefined : "auto",
    res_step: panel.step === null ? undefined : String(panel.step),
    res_density: panel.step !== null || panel.density === "medium" ? undefined : panel.density,
    display_mode: panel.stacked ? "stacked" : panel.heatmap === null ? undefined : panel.heatmap ? "heatmap" : "lines",
    show_exemplars: panel.exemplars ? "1" : undefined,
    unit: panel.unit ?? undefined,
    threshold: formatThresholds(panel.thresholds) || undefined,
    live: panel.live ? "1" : undefined,
  };
  return Object.fromEntries(Object.entries(written).map(([name, value]) => [prefix + name, value]));
}

/** The address of the query page with one panel. */
export function queryLink(expr: string, more: Partial<PanelState> = {}): string {
  return formatAddress("/query", writePanels([{ ...EMPTY_PANEL, ...more, expr }]));
}

/** The address of the query page with graphs, each with its thresholds. */
export function graphsLink(graphs: readonly Pick<PanelState, "expr" | "thresholds">[]): string {
  return formatAddress("/query", writePanels(graphs.map((graph) => ({ ...EMPTY_PANEL, ...graph, tab: "graph" }))));
}

/** Unix seconds of `2026-11-20 14:03:05` in UTC, of a time with a zone, or of a number; null for anything else. */
export function parseTime(text: string): number | null {
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Number(trimmed) > 0 ? Number(trimmed) : null;
  const plain = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)$/.exec(trimmed);
  const ms = plain !== null ? Date.parse(`${plain[1]}T${plain[2]}Z`) : /^\d{4}-.*(?:Z|[+-]\d\d:\d\d)$/.test(trimmed) ? Date.parse(trimmed) : NaN;
  return Number.isNaN(ms) ? null : ms / 1000;
}

/** `2026-11-20 14:03:05` in UTC, as Prometheus writes it; with a fraction only where there is one. */
export function formatUtc(seconds: number): string {
  return new Date(Math.round(seconds * 1000)).toISOString().replace("T", " ").replace(/(?:\.000)?Z$/, "");
}

/** The step in effect: the wanted one unless it asks for more points than a server gives. */
export function stepOf(state: Pick<PanelState, "range" | "step" | "density">): number {
  const step = state.step ?? niceStep(state.range, POINTS[state.density]);
  return state.range / step > MAX_POINTS - 1 ? niceStep(state.range, MAX_POINTS - 1) : step;
}
