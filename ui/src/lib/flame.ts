// A query's trace as a flame: each operation is as wide as its time with its inputs, and stands on the one that consumes it.
// Invariant: what stands on an operation is never wider than it.
import type { Trace } from "../api";

/** What an operation does itself, in the order in which it is drawn. */
export const PHASES = ["parse", "plan", "view", "select", "read", "compute", "finish"] as const;
export type Phase = (typeof PHASES)[number];

export interface FlameBar {
  key: string;
  /** Rows from the top. */
  depth: number;
  /** Of the whole, 0 to 1. */
  left: number;
  width: number;
  text: string;
  /** Null for an operation. */
  phase: Phase | null;
  seconds: number;
  /** Without what its inputs took. */
  own: number;
  series: number;
  samples: number;
}

export function flame(trace: Trace): { bars: FlameBar[]; depth: number } {
  const { nodes } = trace;
  const own = nodes.map((node) => Object.values(node.seconds).reduce((sum, s) => sum + s, 0));
  const total = [...own];
  // Parents come first, so that going backwards every input is whole when it is added.
  for (let i = nodes.length - 1; i > 0; i--) {
    const parent = nodes[i]?.parent ?? 0;
    total[parent] = (total[parent] ?? 0) + (total[i] ?? 0);
  }
  const whole = total[0] ?? 0;
  const bars: FlameBar[] = [];
  const draw = (i: number, depth: number, left: number): void => {
    const node = nodes[i];
    if (node === undefined || whole <= 0) return;
    const share = (total[i] ?? 0) / whole;
    const { text, series, samples } = node;
    bars.push({ key: String(i), depth, left, width: share, text, phase: null, seconds: total[i] ?? 0, own: own[i] ?? 0, series, samples });
    let at = left;
    for (const phase of PHASES) {
      const seconds = node.seconds[phase] ?? 0;
      if (seconds <= 0) continue;
      bars.push({ key: `${i} ${phase}`, depth: depth + 1, left: at, width: seconds / whole, text: phase, phase, seconds, own: seconds, series: 0, samples: 0 });
      at += seconds / whole;
    }
    nodes.forEach((input, k) => {
      if (k === 0 || input.parent !== i) return;
      draw(k, depth + 1, at);
      at += (total[k] ?? 0) / whole;
    });
  };
  draw(0, 0, 0);
  return { bars, depth: bars.reduce((most, bar) => Math.max(most, bar.depth + 1), 0) };
}

/** The time of each phase over all operations, longest first. */
export function phaseTotals(trace: Trace): [Phase, number][] {
  const sums = PHASES.map((phase): [Phase, number] => [phase, trace.nodes.reduce((sum, node) => sum + (node.seconds[phase] ?? 0), 0)]);
  return sums.filter(([, seconds]) => seconds > 0).sort((a, b) => b[1] - a[1]);
}
