import { describe, expect, it } from "vitest";
import { dataCsv, fileName, frameCsv } from "./export";
import { toFrame } from "./matrix";

describe("files", () => {
  it("have a line for each sample, quoted where it must be", () => {
    const csv = dataCsv({
      resultType: "vector",
      result: [
        { metric: { __name__: "up", b: 'say "x", y' }, value: [1.5, "+Inf"] },
        { metric: { a: "1" }, histogram: [2, { count: "3", sum: "4" }] },
      ],
    });
    expect(csv).toBe('__name__,a,b,timestamp,value\r\nup,,"say ""x"", y",1.5,+Inf\r\n,1,,2,count 3 sum 4\r\n');
    expect(dataCsv({ resultType: "scalar", result: [1, "2"] })).toBe("timestamp,value\r\n1,2\r\n");
  });

  it("have a column for each series of a graph", () => {
    const frame = toFrame([{ metric: { a: "x" }, values: [[0, "1"]] }, { metric: { a: "y" }, values: [[0, "2"], [10, "3"]] }], 0, 10, 10);
    expect(frameCsv(frame)).toBe('time,"{a=""x""}","{a=""y""}"\r\n1970-01-01T00:00:00.000Z,1,2\r\n1970-01-01T00:00:10.000Z,,3\r\n');
  });

  it("are named after their expression", () => {
    expect(fileName('rate(x{a="b"}[5m])', "csv")).toBe("rate-x-a-b-5m.csv");
    expect(fileName("()", "png")).toBe("query.png");
  });
});
