// Where an error points.
import { describe, expect, test } from "vitest";
import { locate, remarks } from "./parse_error";

const marked = (expr: string, text: string): string | undefined => {
  const spot = locate(expr, text);
  return spot === null ? undefined : `${expr.slice(0, spot.start)}[${expr.slice(spot.start, spot.end)}]${expr.slice(spot.end)}: ${spot.message}`;
};

describe("locate", () => {
  test("a token", () => {
    const text = 'invalid parameter "query": 1:18: parse error: unexpected <by> in aggregation';
    expect(marked("sum(rate(up[5m]) by (job)", text)).toBe("sum(rate(up[5m]) [by] (job): unexpected <by> in aggregation");
  });

  test("the end of the expression", () => {
    const spot = locate("sum(", "1:5: parse error: unclosed left parenthesis");
    expect(spot).toMatchObject({ start: 4, end: 5, line: 1, column: 5, message: "unclosed left parenthesis" });
  });

  test("a later line", () => {
    expect(marked("a\n+ + )", "2:5: parse error: unexpected right parenthesis")).toBe("a\n+ + [)]: unexpected right parenthesis");
  });

  test("columns are bytes", () => {
    // "é" is two bytes, "日" three: the parenthesis is byte 13.
    expect(marked('{a="é日"} ) b', "1:13: parse error: x")).toBe('{a="é日"} [)] b: x');
  });

  test("an annotation with its place behind it", () => {
    const text = 'PromQL info: metric might not be a counter: "up" (1:6)';
    expect(marked("rate(up[5m])", text)).toBe('rate([up][5m]): PromQL info: metric might not be a counter: "up"');
  });

  test("strings and operators are whole tokens", () => {
    expect(marked('up{a=="b"}', "1:5: parse error: x")).toBe('up{a[==]"b"}: x');
    expect(marked('up "abc d"', "1:4: parse error: x")).toBe('up ["abc d"]: x');
  });

  test.each(["query timed out in expression evaluation", "0:0: nothing", "9:1: parse error: beyond", ""])("nothing in %j", (text) => {
    expect(locate("up", text)).toBeNull();
  });
});

test("remarks are those texts that name a place", () => {
  const texts = ['PromQL info: metric might not be a counter: "up" (1:6)', "no place"];
  expect(remarks("rate(up[5m])", texts, "info")).toEqual([
    { start: 5, end: 7, line: 1, column: 6, message: 'PromQL info: metric might not be a counter: "up"', severity: "info" },
  ]);
});
