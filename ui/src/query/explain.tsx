// Where a query's time went: a flame of its operations and their phases, and the plan.
import { useMemo, useState } from "preact/hooks";
import type { Trace } from "../api";
import { Notice } from "../components/controls";
import { flame, phaseTotals, type FlameBar, type Phase } from "../lib/flame";
import { formatCount, formatValue } from "../lib/units";

const ROW_PX = 24;
const COLORS: Readonly<Record<Phase, string>> = {
  parse: "--c-grey", plan: "--c-grey", view: "--c-sky", select: "--c-purple", read: "--c-orange", compute: "--c-green", finish: "--c-blue",
};
const MEANINGS: Readonly<Record<Phase, string>> = {
  parse: "reading the text",
  plan: "planning",
  view: "taking a snapshot of the storage",
  select: "finding series",
  read: "decoding samples",
  compute: "computing",
  finish: "making the result",
};

export function Explain({ trace }: { trace: Trace | undefined }) {
  const drawn = useMemo(() => (trace === undefined ? null : flame(trace)), [trace]);
  const [at, setAt] = useState<FlameBar | null>(null);
  if (trace === undefined || drawn === null) {
    return <Notice tone="info" title="This server does not trace queries" />;
  }
  const shown = at ?? drawn.bars[0];
  return (
    <div class="explain">
      <div class="flame" style={{ height: `${drawn.depth * ROW_PX}px` }} onMouseLeave={() => setAt(null)}>
        {drawn.bars.map((bar) => (
          <button
            key={bar.key}
            type="button"
            class={`flame-bar${bar.phase === null ? "" : " flame-phase"}${bar.width > 0.02 ? "" : " flame-thin"}`}
            style={{
              left: `${bar.left * 100}%`,
              width: `${bar.width * 100}%`,
              top: `${bar.depth * ROW_PX}px`,
              ...(bar.phase === null ? {} : { borderTopColor: `var(${COLORS[bar.phase]})` }),
            }}
            aria-label={`${bar.text}: ${formatValue(bar.seconds, "seconds")}`}
            onMouseEnter={() => setAt(bar)}
            onFocus={() => setAt(bar)}
          >
            {bar.width > 0.02 && bar.text}
          </button>
        ))}
      </div>
      {shown !== undefined && <About bar={shown} whole={trace.totalSeconds} />}
      <table class="table explain-phases">
        <caption class="sr-only">Time of each phase</caption>
        <tbody>
          {trace.queuedSeconds > 0 && (
            <tr>
              <td>queued</td>
              <td class="muted">waiting for its turn</td>
              <td class="num">{formatValue(trace.queuedSeconds, "seconds")}</td>
              <td class="num" />
            </tr>
          )}
          {phaseTotals(trace).map(([phase, seconds]) => (
            <tr key={phase}>
              <td>
                <span class="phase-mark" style={{ background: `var(${COLORS[phase]})` }} /> {phase}
              </td>
              <td class="muted">{MEANINGS[phase]}</td>
              <td class="num">{formatValue(seconds, "seconds")}</td>
              <td class="num">{formatValue(seconds / (trace.totalSeconds || 1), "ratio")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <details>
        <summary>Plan</summary>
        <pre class="plan">{trace.plan}</pre>
      </details>
    </div>
  );
}

function About({ bar, whole }: { bar: FlameBar; whole: number }) {
  const facts = [
    formatValue(bar.seconds, "seconds"),
    formatValue(bar.seconds / (whole || 1), "ratio"),
    bar.phase === null && bar.own < bar.seconds ? `${formatValue(bar.own, "seconds")} itself` : null,
    bar.series > 0 ? `${formatCount(bar.series)} series` : null,
    bar.samples > 0 ? `${formatCount(bar.samples)} samples read` : null,
  ];
  return (
    <p class="flame-about" aria-live="polite">
      <code>{bar.text}</code> <span class="muted">{facts.filter((fact) => fact !== null).join(" · ")}</span>
    </p>
  );
}
