// A heat map on a canvas: time to the right, buckets upwards, the darker the more observations.
import { useEffect, useRef, useState } from "preact/hooks";
import { heatScale, type Heat, type HeatCell } from "./lib/heat";
import { useStore } from "./lib/store";
import { cssColor, scheme } from "./lib/theme";
import { formatDateTime, formatTimeTicks } from "./lib/time";
import { formatCount, formatValue, type Unit } from "./lib/units";
import { GUTTER_PX } from "./plot";

const HEIGHT = 360;
const FOOT = 24;
const RIGHT = 16;
const TOP = 8;
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';

export interface HeatMapProps {
  heat: Heat;
  unit: Unit;
  label: string;
  onZoom: (from: number, to: number) => void;
}

interface Spot {
  cell: HeatCell;
  left: number;
  width: number;
}

/** Pixels of the plot area, and where times and bounds are in it. */
function layout(heat: Heat, width: number) {
  const inner = Math.max(10, width - GUTTER_PX - RIGHT);
  const high = HEIGHT - FOOT - TOP;
  const column = inner / Math.max(1, heat.times.length);
  const scale = heatScale(heat.bounds, {
    below: heat.cells.some((cell) => cell.low === -Infinity),
    above: heat.cells.some((cell) => cell.high === Infinity),
  });
  return {
    inner,
    column,
    x: (at: number): number => GUTTER_PX + at * column,
    y: (value: number): number => TOP + (1 - scale(value)) * high,
  };
}

function draw(canvas: HTMLCanvasElement, heat: Heat, unit: Unit, width: number): void {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(HEIGHT * ratio);
  const ctx = canvas.getContext("2d");
  if (ctx === null) return;
  ctx.scale(ratio, ratio);
  ctx.clearRect(0, 0, width, HEIGHT);
  const { column, x, y, inner } = layout(heat, width);
  ctx.fillStyle = cssColor("--c-orange");
  for (const cell of heat.cells) {
    // A few observations among many are still seen.
    ctx.globalAlpha = 0.12 + 0.88 * (Math.log1p(cell.count) / Math.log1p(heat.most));
    const [top, bottom] = [y(cell.high), y(cell.low)];
    ctx.fillRect(x(cell.at), top, Math.max(1, column - (column > 4 ? 0.5 : 0)), Math.max(1, bottom - top - 0.5));
  }
  ctx.globalAlpha = 1;
  ctx.font = FONT;
  ctx.fillStyle = cssColor("--text-muted");
  ctx.strokeStyle = cssColor("--grid");
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  let last = Infinity;
  for (const bound of heat.bounds) {
    const at = y(bound);
    if (last - at < 18) continue;
    last = at;
    ctx.fillText(formatValue(bound, unit), GUTTER_PX - 8, at);
    ctx.beginPath();
    ctx.moveTo(GUTTER_PX, at);
    ctx.lineTo(GUTTER_PX + inner, at);
    ctx.stroke();
  }
  ctx.textAlign = "center";
  const every = Math.max(1, Math.ceil(90 / column));
  const ticks = heat.times.filter((_, i) => i % every === 0);
  formatTimeTicks(ticks, every * heat.step).forEach((text, i) => {
    const at = x(i * every) + column / 2;
    if (at < width - 30) ctx.fillText(text ?? "", at, HEIGHT - FOOT / 2);
  });
}

export function HeatMap({ heat, unit, label, onZoom }: HeatMapProps) {
  const colors = useStore(scheme);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [spot, setSpot] = useState<Spot | null>(null);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current !== null && width > 0) draw(canvas.current, heat, unit, width);
  }, [heat, unit, width, colors]);

  const { column, y } = layout(heat, width);
  const place = (event: MouseEvent): { at: number; left: number; top: number } => {
    const area = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const left = event.clientX - area.left;
    return { at: Math.floor((left - GUTTER_PX) / column), left, top: event.clientY - area.top };
  };
  const move = (event: MouseEvent): void => {
    const { at, left, top } = place(event);
    if (drag !== null) setDrag({ ...drag, to: left });
    const cell = heat.cells.find((one) => one.at === at && y(one.high) <= top && top <= y(one.low));
    setSpot(cell === undefined ? null : { cell, left, width });
  };
  const time = (left: number): number => (heat.times[0] ?? 0) + ((left - GUTTER_PX) / column) * heat.step;
  const end = (): void => {
    if (drag !== null && Math.abs(drag.to - drag.from) > 4) onZoom(time(Math.min(drag.from, drag.to)), time(Math.max(drag.from, drag.to)));
    setDrag(null);
  };

  return (
    <div
      ref={box}
      class="heat graph-plot"
      role="img"
      aria-label={label}
      data-cells={heat.cells.length}
      style={{ height: `${HEIGHT}px` }}
      onMouseMove={move}
      onMouseDown={(event) => setDrag({ from: place(event).left, to: place(event).left })}
      onMouseUp={end}
      onMouseLeave={() => {
        setSpot(null);
        setDrag(null);
      }}
    >
      <canvas ref={canvas} class="heat-canvas" />
      {drag !== null && <div class="heat-drag" style={{ left: `${Math.min(drag.from, drag.to)}px`, width: `${Math.abs(drag.to - drag.from)}px` }} />}
      {spot !== null && drag === null && (
        <div class={spot.left < spot.width / 2 ? "readout" : "readout readout-left"} style={{ left: `${spot.left}px` }} aria-hidden="true">
          <p class="muted">{formatDateTime(heat.times[spot.cell.at] ?? 0)}</p>
          <p>
            <strong>{formatCount(spot.cell.count)}</strong> from {formatValue(spot.cell.low, unit)} to {formatValue(spot.cell.high, unit)}
          </p>
        </div>
      )}
    </div>
  );
}
