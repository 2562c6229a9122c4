// What is offered at the cursor, marked by a bar in the text.
import { describe, expect, test } from "vitest";
import { contextAt, rank } from "./complete";

const at = (text: string) => contextAt(text.replace("|", ""), text.indexOf("|"));

describe("contextAt", () => {
  test.each([
    ["no|", { kind: "name", from: 0, word: "no" }],
    ["sum(ra|", { kind: "name", from: 4, word: "ra" }],
    ["a + b:c|", { kind: "name", from: 4, word: "b:c" }],
    ["up{jo|", { kind: "label", from: 3, word: "jo" }],
    ['up{job="x", in|', { kind: "label", from: 12, word: "in" }],
    ["up{|", { kind: "label", from: 3, word: "" }],
    ["sum by (jo|", { kind: "label", from: 8, word: "jo" }],
    ["sum by (job, in|", { kind: "label", from: 13, word: "in" }],
    ['up{job="no|', { kind: "value", from: 8, word: "no", label: "job" }],
    ['up{job=~"a|b', { kind: "value", from: 9, word: "a", label: "job" }],
    ['up{path="a}b", x="|', { kind: "value", from: 18, word: "", label: "x" }],
  ])("%s", (text, context) => expect(at(text)).toEqual(context));

  test.each(["|", "rate(up[5|", "12|", "up{job|=", 'label_replace(up, "no|', "1.5e|", 'up{job="a"|'])("nothing at %s", (text) => {
    // A bar inside a label name still completes that name.
    if (text === "up{job|=") expect(at(text)).toEqual({ kind: "label", from: 3, word: "job" });
    else expect(at(text)).toBeNull();
  });
});

test("rank: begins, then contains; a finished word offers nothing", () => {
  expect(rank(["xup", "up_b", "UP_a", "z"], "up", 9)).toEqual(["up_b", "UP_a", "xup"]);
  expect(rank(["up"], "up", 9)).toEqual([]);
  expect(rank(["a1", "a2", "a3"], "a", 2)).toEqual(["a1", "a2"]);
});
