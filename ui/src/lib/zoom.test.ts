import { describe, expect, it } from "vitest";
import { keyed, panned, zoomed } from "./zoom";

describe("zooming and panning", () => {
  it("keeps what is below the pointer", () => {
    expect(zoomed({ from: 0, to: 100 }, 25, 0.5)).toEqual({ from: 12.5, to: 62.5 });
    expect(zoomed({ from: 0, to: 100 }, 100, 2)).toEqual({ from: -100, to: 100 });
  });

  it("has ends", () => {
    expect(zoomed({ from: 0, to: 1.5 }, 0, 0.1)).toEqual({ from: 0, to: 1 });
    const { from, to } = zoomed({ from: 0, to: 3e8 }, 0, 10);
    expect(to - from).toBe(10 * 365 * 86_400);
  });

  it("moves by a part of the range", () => {
    expect(panned({ from: 0, to: 100 }, -0.25)).toEqual({ from: -25, to: 75 });
  });

  it("answers keys", () => {
    const range = { from: 0, to: 100 };
    expect(keyed(range, "+", false)).toEqual({ from: 25, to: 75 });
    expect(keyed(range, "-", false)).toEqual({ from: -50, to: 150 });
    expect(keyed(range, "ArrowRight", true)).toEqual({ from: 25, to: 125 });
    expect(keyed(range, "ArrowRight", false)).toBeNull();
  });
});
