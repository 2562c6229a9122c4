// A plot with its title, its latest value and a legend that follows the cursor.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { queryLink } from "../query/state";
import { latest } from "../lib/matrix";
import { formatClock } from "../lib/time";
import { formatValue, type Unit } from "../lib/units";
import type { PlotMode } from "../lib/scale";
import { Plot, type PlotLine } from "../plot";
import { Icon } from "./controls";

export interface PanelProps {
  title: string;
  /** The one number to look at. */
  headline?: string | undefined;
  /** What the headline is of: `of 16 GiB`. */
  note?: ComponentChildren;
  lines: readonly PlotLine[];
  times: readonly number[];
  from: number;
  to: number;
  unit: Unit;
  mode: PlotMode;
  top?: (highest: number) => number;
  /** What to say instead of a plot without lines. */
  empty: ComponentChildren;
  /** The expression behind it, to go on from. */
  expr: string;
  /** Seconds. */
  range: number;
}

export const PLOT_HEIGHT = 168;

/** Frame of every panel, plotted or not. */
export function PanelFrame(props: { title: string; headline?: string | undefined; note?: ComponentChildren; link?: string; children: ComponentChildren }) {
  return (
    <section class="panel" aria-label={props.title}>
      <header class="panel-head">
        <h3>{props.title}</h3>
        {props.link !== undefined && (
          <a class="panel-link" href={props.link} title="Open in Query" aria-label={`Open ${props.title} in Query`}>
            <Icon path="M6 3.500H3.500v9h9V10M9 3h4v4M13 3 7.500 8.500" />
          </a>
        )}
        <p class="panel-value">
          {props.headline !== undefined && <strong>{props.headline}</strong>}
          {props.note !== undefined && <span>{props.note}</span>}
        </p>
      </header>
      {props.children}
    </section>
  );
}

/** What stands in the place of a plot, as high as one; a `low` one takes the room there is. */
export function PanelEmpty({ low, children }: { low?: boolean; children: ComponentChildren }) {
  return (
    <div class="panel-empty" style={low === true ? undefined : { minHeight: `${PLOT_HEIGHT + 22}px` }}>
      <p>{children}</p>
    </div>
  );
}

export function Panel(props: PanelProps) {
  const { title, lines, times, unit, mode } = props;
  const [cursor, setCursor] = useState<number | null>(null);
  const index = cursor !== null && cursor < times.length ? cursor : null;
  const valueOf = (line: PlotLine): string => {
    const value = index === null ? latest(line.values) : (line.values[index] ?? null);
    return value === null ? "–" : formatValue(value, unit);
  };
  const summary = lines.map((line) => `${line.name} ${valueOf(line)}`).join(", ");
  return (
    <PanelFrame
      title={title}
      headline={props.headline}
      note={props.note}
      link={queryLink(props.expr, { tab: "graph", range: props.range, stacked: mode === "stacked" })}
    >
      {lines.length === 0 ? (
        <PanelEmpty>{props.empty}</PanelEmpty>
      ) : (
        <>
          <div class="panel-plot">
          <Plot
            label={`${title}: ${summary}`}
            lines={lines}
            times={times}
            from={props.from}
            to={props.to}
            unit={unit}
            mode={mode}
            height={PLOT_HEIGHT}
            sync="host"
            {...(props.top === undefined ? {} : { top: props.top })}
            onCursor={setCursor}
          />
          {index !== null && <span class="plot-time">{formatClock(times[index] as number)}</span>}
          </div>
          <ul class="legend">
            {lines.map((line) => (
              <li key={line.name}>
                <Swatch color={line.color} dashed={line.dashed === true} />
                <span class="muted">{line.name}</span>
                <span class="legend-value">{valueOf(line)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </PanelFrame>
  );
}

/** The colour of a line beside its name. */
export function Swatch({ color, dashed }: { color: string; dashed?: boolean }) {
  return (
    <svg class="swatch" viewBox="0 0 12 4" aria-hidden="true">
      {dashed === true ? (
        <path d="M0 2h5M7 2h5" style={{ stroke: `var(${color})` }} />
      ) : (
        <path d="M0 2h12" style={{ stroke: `var(${color})` }} />
      )}
    </svg>
  );
}
