import { describe, expect, it } from "vitest";
import type { RangeSeries } from "../api";
import { heatScale, heatUnit, isHeat, toHeat } from "./heat";

const classic = (le: string, values: [number, string][], more: Record<string, string> = {}): RangeSeries => ({ metric: { le, ...more }, values });

describe("heat maps", () => {
  it("know what can be drawn", () => {
    expect(isHeat([{ metric: {}, histograms: [[1, { count: "1", sum: "1" }]] }])).toBe("native");
    expect(isHeat([classic("1", [[0, "1"]]), classic("+Inf", [[0, "2"]])])).toBe("classic");
    expect(isHeat([classic("1", [[0, "1"]]), { metric: {}, values: [[0, "2"]] }])).toBeNull();
    expect(isHeat([])).toBeNull();
  });

  it("take the difference of cumulative buckets, summed over series", () => {
    const heat = toHeat(
      [
        classic("+Inf", [[0, "7"], [10, "9"]]),
        classic("0.5", [[0, "2"], [10, "9"]], { instance: "a" }),
        classic("0.5", [[0, "1"]], { instance: "b" }),
        classic("1", [[0, "5"], [10, "8"]]),
      ],
      0, 10, 10,
    );
    expect(heat.cells).toEqual([
      { at: 0, low: 0, high: 0.5, count: 3 },
      { at: 0, low: 0.5, high: 1, count: 2 },
      { at: 0, low: 1, high: Infinity, count: 2 },
      // A bucket that holds more than a greater one is not negative there.
      { at: 10 / 10, low: 0, high: 0.5, count: 9 },
    ]);
    expect(heat.bounds).toEqual([0, 0.5, 1]);
    expect(heat.most).toBe(9);
  });

  it("add up native buckets with equal bounds", () => {
    const one = (count: string): RangeSeries => ({
      metric: {},
      histograms: [[20, { count, sum: "0", buckets: [[0, "1", "2", count], [0, "2", "4", "0"]] }]],
    });
    const heat = toHeat([one("3"), one("4")], 0, 20, 10);
    expect(heat.cells).toEqual([{ at: 2, low: 1, high: 2, count: 7 }]);
  });

  it("place values on a logarithmic axis, or by rank", () => {
    const open = { below: true, above: true };
    const log = heatScale([1, 10, 100], open);
    expect(log(1)).toBeCloseTo(0.25);
    expect(log(100)).toBeCloseTo(0.75);
    expect([log(0), log(Infinity)]).toEqual([0, 1]);
    const even = heatScale([-1, 0, 1], open);
    expect([even(-Infinity), even(-1), even(0), even(1), even(Infinity)]).toEqual([0, 0.25, 0.5, 0.75, 1]);
    const closed = heatScale([0, 1, 2], { below: false, above: false });
    expect([closed(0), closed(1), closed(2)]).toEqual([0, 0.5, 1]);
    expect(heatScale([1, 100], { below: false, above: false })(10)).toBeCloseTo(0.5);
  });

  it("have the unit of the metric", () => {
    expect(heatUnit("sum by (le) (rate(http_seconds_bucket[5m]))")).toBe("seconds");
    expect(heatUnit("rate(response_size_bytes[5m])")).toBe("bytes");
    expect(heatUnit("x_seconds_total")).toBe("number");
  });
});
