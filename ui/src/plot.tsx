// The only file that knows uPlot: lines on a time axis, plain, stacked or mirrored around zero.
// Invariant: a chart is rebuilt only when its structure changes; data and time range are handed to the living one.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "preact/hooks";
import { stack, type Value } from "./lib/matrix";
import { reaching, yRange, type PlotMode } from "./lib/scale";
import { cssColor, scheme } from "./lib/theme";
import { useStore } from "./lib/store";
import { formatTimeTicks } from "./lib/time";
import { formatTicks, type Unit } from "./lib/units";
import { keyed, zoomed, type TimeRange } from "./lib/zoom";

export interface PlotLine {
  name: string;
  /** A CSS custom property, so that the colour follows the scheme. */
  color: string;
  values: readonly Value[];
  dashed?: boolean;
  /** Hardly coloured: what is there but unused. */
  faint?: boolean;
  /** Drawn below zero (mode `mirrored`); its values stay positive. */
  below?: boolean;
}

/** A single sample over the lines, such as an exemplar. */
export interface PlotMark {
  time: number;
  value: number;
}

/** A value on the y axis that is drawn as a line across the plot. */
export interface PlotLevel {
  value: number;
  text: string;
  /** The side of it that is coloured. */
  side: "above" | "below" | null;
}

export interface PlotProps {
  /** What it shows, for people who don't see it. */
  label: string;
  lines: readonly PlotLine[];
  times: readonly number[];
  from: number;
  to: number;
  unit: Unit;
  mode: PlotMode;
  height: number;
  /** Plots with the same key share one cursor. */
  sync?: string;
  /** The top of the y axis for the highest value; default: a little above it. */
  top?: (highest: number) => number;
  /** The line to bring forward, by name. */
  focus?: string | null;
  /** `index` into the times and the distance from the left edge, as pixels of all the plot area's `width`. */
  onCursor?: (index: number | null, left: number, width: number) => void;
  /** The line closest to the pointer changed. */
  onNear?: (name: string | null) => void;
  onZoom?: (from: number, to: number) => void;
  levels?: readonly PlotLevel[];
  marks?: readonly PlotMark[];
  /** The mark closest to the pointer changed. */
  onMark?: (index: number | null) => void;
}

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';
/** Room for the labels of the y axis; the same everywhere, so that plots above each other align. */
export const GUTTER_PX = 68;
const NEAR_PX = 24;

/** Byte axes step by powers of two; a few zeros before and after make every zoom level round. */
const BYTE_INCREMENTS = Array.from({ length: 70 }, (_, i) => 2 ** (i - 6));

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;
/** Seconds between time ticks: more choices than uPlot's own, for narrow plots. */
const TIME_INCREMENTS = [
  1, 2, 5, 10, 15, 30,
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 4, 6, 8, 12].map((n) => n * HOUR),
  ...[1, 2, 3, 7, 14, 30, 90, 180, 365].map((n) => n * DAY),
];

function dataOf(props: PlotProps): uPlot.AlignedData {
  const { lines, times, mode } = props;
  const columns =
    mode === "stacked"
      ? stack(lines.map((line) => line.values), times.length)
      : lines.map((line) => (line.below === true ? line.values.map((value) => (value === null ? null : -value)) : line.values));
  return [times as number[], ...(columns as Value[][])];
}

const alpha = (color: string, percent: number): string => color.replace(/^rgb\((.*)\)$/, `rgba($1, ${percent / 100})`);

function seriesOf(props: PlotProps): uPlot.Series[] {
  const { lines, mode } = props;
  return lines.map((line) => {
    const stroke = cssColor(line.color);
    const series: uPlot.Series = {
      label: line.name,
      stroke,
      // A stack's areas touch; an outline would give the thinnest of them the whole contour.
      width: mode === "stacked" ? 0 : 1.5,
      points: { show: false, filter: lonely, size: 4, width: 0, fill: stroke },
    };
    if (line.dashed === true) series.dash = [5, 4];
    if (mode === "mirrored") {
      series.fill = alpha(stroke, 22);
      series.fillTo = 0;
    } else if (mode === "stacked") {
      series.fill = alpha(stroke, line.faint === true ? 14 : 78);
    } else if (lines.length === 1) {
      series.fill = alpha(stroke, 10);
    }
    return series;
  });
}

/** Points only where a value stands alone: between gaps a line would be invisible. */
const lonely = (u: uPlot, series: number): number[] => {
  const values = u.data[series] ?? [];
  const alone: number[] = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] != null && values[i - 1] == null && values[i + 1] == null) alone.push(i);
  }
  return alone;
};

function axesOf(props: PlotProps): uPlot.Axis[] {
  const { unit, mode } = props;
  const stroke = cssColor("--text-muted");
  const grid = { stroke: cssColor("--grid"), width: 1 };
  const shown = mode === "mirrored" ? Math.abs : (value: number): number => value;
  const y: uPlot.Axis = {
    stroke,
    grid,
    font: FONT,
    size: GUTTER_PX,
    gap: 6,
    space: props.height > 250 ? 46 : 30,
    ticks: { show: false },
    values: (_u, ticks) => formatTicks(ticks.map(shown), unit),
  };
  if (unit === "bytes" || unit === "bytes/s") y.incrs = BYTE_INCREMENTS;
  const x: uPlot.Axis = {
    stroke,
    grid,
    font: FONT,
    size: 24,
    gap: 6,
    incrs: TIME_INCREMENTS,
    // Labels with seconds are wider; they are shown where ticks come closer than a minute.
    space: (_u, _axis, min, max, width) => (((max - min) / width) * 52 < 45 ? 76 : 52),
    ticks: { show: false },
    values: (_u, ticks, _axis, _space, gap) => formatTimeTicks(ticks, gap),
  };
  return [x, y];
}

function drawLevels(u: uPlot, levels: readonly PlotLevel[]): void {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  const ratio = uPlot.pxRatio;
  const color = cssColor("--c-red");
  ctx.save();
  ctx.font = FONT.replace(/^\d+/, (px) => String(Number(px) * ratio));
  ctx.strokeStyle = color;
  ctx.lineWidth = ratio;
  for (const { value, text, side } of levels) {
    const y = Math.round(u.valToPos(value, "y", true));
    ctx.fillStyle = alpha(color, 7);
    if (side === "above") ctx.fillRect(left, top, width, y - top);
    if (side === "below") ctx.fillRect(left, y, width, top + height - y);
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.stroke();
    ctx.fillStyle = color;
    const isHigh = y - top < 16 * ratio;
    ctx.textAlign = "left";
    ctx.textBaseline = isHigh ? "top" : "bottom";
    ctx.fillText(text, left + 4 * ratio, y + (isHigh ? 3 : -3) * ratio);
  }
  ctx.restore();
}

const MARK_PX = 4;

/** Where a mark is, in pixels of the canvas; one beyond the y axis is at its end. */
function markPlace(u: uPlot, mark: PlotMark): [number, number] {
  const { top, height } = u.bbox;
  const y = u.valToPos(mark.value, "y", true);
  return [u.valToPos(mark.time, "x", true), Math.min(top + height, Math.max(top, y))];
}

function drawMarks(u: uPlot, marks: readonly PlotMark[]): void {
  const { ctx } = u;
  const size = MARK_PX * uPlot.pxRatio;
  ctx.save();
  ctx.fillStyle = cssColor("--c-purple");
  ctx.strokeStyle = cssColor("--surface");
  for (const mark of marks) {
    const [x, y] = markPlace(u, mark);
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, y - size);
    ctx.lineTo(x + size, y);
    ctx.lineTo(x, y + size);
    ctx.lineTo(x - size, y);
    ctx.closePath();
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}

/** The mark at the pointer, if one is close. */
function nearMark(u: uPlot, marks: readonly PlotMark[]): number | null {
  const { left, top } = u.cursor;
  if (left === undefined || top === undefined || left < 0) return null;
  const ratio = uPlot.pxRatio;
  let best: number | null = null;
  let least = (3 * MARK_PX) ** 2;
  marks.forEach((mark, i) => {
    const [x, y] = markPlace(u, mark);
    const distance = ((x - u.bbox.left) / ratio - left) ** 2 + ((y - u.bbox.top) / ratio - top) ** 2;
    if (distance < least) [best, least] = [i, distance];
  });
  return best;
}

/** What the mouse does beside uPlot's own selection: Shift and dragging moves the range, Ctrl and the wheel zooms. */
function bindMouse(u: uPlot, current: () => PlotProps, show: (range: TimeRange | null) => void): () => void {
  let timer = 0;
  let pending: TimeRange | null = null;
  const ask = (range: TimeRange): void => {
    pending = null;
    current().onZoom?.(range.from, range.to);
  };
  const wheel = (event: WheelEvent): void => {
    if (!(event.ctrlKey || event.metaKey) || current().onZoom === undefined) return;
    event.preventDefault();
    const { left } = u.over.getBoundingClientRect();
    const before = pending ?? current();
    const at = before.from + ((event.clientX - left) / u.over.clientWidth) * (before.to - before.from);
    pending = zoomed(before, at, event.deltaY > 0 ? 1.25 : 0.8);
    show(pending);
    // One step of the history for all turns of the wheel.
    clearTimeout(timer);
    timer = window.setTimeout(() => pending !== null && ask(pending), 350);
  };
  const press = (event: MouseEvent): void => {
    if (!event.shiftKey || event.button !== 0 || current().onZoom === undefined) return;
    // Not a selection.
    event.stopImmediatePropagation();
    event.preventDefault();
    const { from, to } = current();
    const begin = event.clientX;
    let moved: TimeRange | null = null;
    const move = (to_: MouseEvent): void => {
      const by = ((begin - to_.clientX) / u.over.clientWidth) * (to - from);
      moved = { from: from + by, to: to + by };
      show(moved);
    };
    const release = (): void => {
      document.removeEventListener("mousemove", move);
      document.removeEventListener("mouseup", release);
      if (moved !== null) ask(moved);
    };
    document.addEventListener("mousemove", move);
    document.addEventListener("mouseup", release);
  };
  const widen = (): void => {
    const { from, to } = current();
    current().onZoom?.(...(Object.values(zoomed({ from, to }, (from + to) / 2, 2)) as [number, number]));
  };
  u.over.addEventListener("wheel", wheel, { passive: false });
  // Before uPlot's own, which are on the same element.
  u.over.addEventListener("mousedown", press, { capture: true });
  u.over.addEventListener("dblclick", widen);
  return () => {
    clearTimeout(timer);
    u.over.removeEventListener("wheel", wheel);
    u.over.removeEventListener("mousedown", press, { capture: true });
    u.over.removeEventListener("dblclick", widen);
  };
}

function optionsOf(width: number, current: () => PlotProps, shown: () => TimeRange, moved: (u: uPlot) => void): uPlot.Options {
  const props = current();
  const { lines, mode, height, sync, onZoom, levels = [] } = props;
  const options: uPlot.Options = {
    width,
    height,
    padding: [8, 16, 0, 0],
    legend: { show: false },
    series: [{}, ...seriesOf(props)],
    axes: axesOf(props),
    scales: {
      x: { time: true, range: () => [shown().from, shown().to] },
      y: { range: (_u, min, max) => yRange(...reaching(min, max, levels.map(({ value }) => value)), current().mode, current().top) },
    },
    focus: { alpha: 0.25 },
    cursor: {
      y: false,
      ...(props.onNear === undefined ? {} : { focus: { prox: NEAR_PX } }),
      drag: { x: onZoom !== undefined, y: false, setScale: false },
      points: { size: 6, width: 0, fill: (u, i) => String((u.series[i] as { _stroke?: string })._stroke ?? cssColor("--text")) },
      ...(sync === undefined ? {} : { sync: { key: sync, setSeries: false } }),
    },
    hooks: {
      setCursor: [moved],
      draw: [(u) => drawLevels(u, levels), (u) => drawMarks(u, current().marks ?? [])],
      setSeries: [(_u, index) => current().onNear?.(index === null ? null : (current().lines[index - 1]?.name ?? null))],
      setSelect: [
        (u) => {
          const { left, width: span } = u.select;
          if (span < 4) return;
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          current().onZoom?.(u.posToVal(left, "x"), u.posToVal(left + span, "x"));
        },
      ],
    },
  };
  if (mode === "stacked") {
    // Each area reaches down to the line below it; the first one to zero by itself.
    options.bands = lines.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as [number, number] }));
  }
  return options;
}

/** Moves the cursor as a key says; false for keys that mean nothing here. `at` is where it is, null for nowhere. */
function moveCursor(u: uPlot, times: readonly number[], at: number | null, key: string): boolean {
  const end = times.length - 1;
  const targets: Readonly<Record<string, number>> = {
    ArrowLeft: at === null ? end : Math.max(0, at - 1),
    ArrowRight: at === null ? end : Math.min(end, at + 1),
    Home: 0,
    End: end,
    Escape: -1,
  };
  const next = targets[key];
  if (next === undefined || end < 0) return false;
  const time = times[next];
  u.setCursor(time === undefined ? { left: -10, top: -10 } : { left: u.valToPos(time, "x"), top: 4 });
  return true;
}

export function Plot(props: PlotProps) {
  const { label, lines, times, from, to, unit, mode, height, sync, focus } = props;
  const colors = useStore(scheme);
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const lastIndex = useRef<number | null>(null);
  /** The range while the mouse changes it. */
  const preview = useRef<TimeRange | null>(null);

  const structure = JSON.stringify([
    colors, unit, mode, height, sync, props.onZoom !== undefined, props.levels,
    lines.map((line) => [line.name, line.color, line.dashed, line.below, line.faint]),
  ]);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const moved = (u: uPlot): void => {
      const { idx, left } = u.cursor;
      const index = idx == null || left === undefined || left < 0 ? null : idx;
      lastIndex.current = index;
      latest.current.onCursor?.(index, left ?? 0, u.over.clientWidth);
      latest.current.onMark?.(nearMark(u, latest.current.marks ?? []));
    };
    const shown = (): TimeRange => preview.current ?? latest.current;
    const u = new uPlot(optionsOf(element.clientWidth, () => latest.current, shown, moved), dataOf(latest.current), element);
    chart.current = u;
    const unbind = bindMouse(u, () => latest.current, (range) => {
      preview.current = range;
      u.setScale("x", { min: shown().from, max: shown().to });
    });
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== u.width) u.setSize({ width: element.clientWidth, height });
    });
    observer.observe(element);
    return () => {
      unbind();
      observer.disconnect();
      u.destroy();
      chart.current = null;
    };
  }, [structure]);

  useEffect(() => {
    const u = chart.current;
    if (u === null) return;
    preview.current = null;
    u.setData(dataOf(latest.current), false);
    u.setScale("x", { min: from, max: to });
    // The y scale follows from the x scale: uPlot ranges it over what is in sight.
  }, [lines, times, from, to, props.marks]);

  useEffect(() => {
    const u = chart.current;
    if (u === null) return;
    const index = focus == null ? -1 : lines.findIndex((line) => line.name === focus);
    u.setSeries(index < 0 ? null : index + 1, { focus: true }, false);
  }, [focus, structure]);

  const points = lines.reduce((n, line) => n + line.values.filter((value) => value !== null).length, 0);
  return (
    <div
      ref={box}
      class="plot"
      role="img"
      tabIndex={0}
      aria-label={label}
      aria-roledescription={props.onZoom === undefined ? "plot; arrow keys move the cursor" : "plot; arrow keys move the cursor, with Shift the range; plus and minus zoom"}
      data-points={points}
      data-to={to}
      style={{ height: `${height}px` }}
      onKeyDown={(event) => {
        const asked = props.onZoom === undefined ? null : keyed({ from, to }, event.key, event.shiftKey);
        if (asked !== null) {
          event.preventDefault();
          props.onZoom?.(asked.from, asked.to);
          return;
        }
        if (chart.current !== null && moveCursor(chart.current, times, lastIndex.current, event.key)) event.preventDefault();
      }}
      onBlur={() => chart.current?.setCursor({ left: -10, top: -10 })}
    />
  );
}
