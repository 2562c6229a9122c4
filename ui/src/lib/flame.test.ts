import { describe, expect, it } from "vitest";
import type { Trace } from "../api";
import { flame, phaseTotals } from "./flame";

const node = (text: string, parent: number | null, seconds: Record<string, number>) => ({ text, parent, seconds, series: 1, samples: 2 });

const trace: Trace = {
  queuedSeconds: 0,
  totalSeconds: 10,
  plan: "",
  nodes: [node("a+b", null, { parse: 1, finish: 1 }), node("a", 0, { read: 3 }), node("b", 0, { read: 1, compute: 1 }), node("c", 2, { select: 3 })],
};

const round = (share: number): number => Math.round(share * 1e9) / 1e9;

describe("flames", () => {
  it("are as wide as time, inputs beside what an operation does itself", () => {
    const { bars, depth } = flame(trace);
    const shown = bars.map(({ text, depth: row, left, width }) => [text, row, round(left), round(width)]);
    expect(shown).toEqual([
      ["a+b", 0, 0, 1],
      ["parse", 1, 0, 0.1],
      ["finish", 1, 0.1, 0.1],
      ["a", 1, 0.2, 0.3],
      ["read", 2, 0.2, 0.3],
      ["b", 1, 0.5, 0.5],
      ["read", 2, 0.5, 0.1],
      ["compute", 2, 0.6, 0.1],
      ["c", 2, 0.7, 0.3],
      ["select", 3, 0.7, 0.3],
    ]);
    expect(depth).toBe(4);
    expect(bars.find((bar) => bar.text === "b")).toMatchObject({ seconds: 5, own: 2 });
  });

  it("sum phases over all operations", () => {
    expect(phaseTotals(trace)).toEqual([["read", 4], ["select", 3], ["parse", 1], ["compute", 1], ["finish", 1]]);
  });

  it("are empty without any time", () => {
    expect(flame({ ...trace, nodes: [node("x", null, {})] }).bars).toEqual([]);
  });
});
