// Alerts and rules, on what Prometheus answered.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { decode, type RuleGroup } from "../api";
import { countStates, evaluatedAt, filterAlerts, filterRules, linked, rulesOfAlerts } from "./rules";

const recorded = readFileSync(new URL("../../e2e/rules.json", import.meta.url), "utf8");
const { groups } = decode<{ groups: RuleGroup[] }>(200, recorded).data;
const all = rulesOfAlerts(groups);
const names = (rules: readonly { rule: { name: string } }[]): string[] => rules.map(({ rule }) => rule.name);

test("rules that fire come first, those that fail before inactive ones", () => {
  expect(all.map(({ rule, rows }) => [rule.name, rule.state, rows.length])).toEqual([
    ["TargetDown", "firing", 1],
    ["ManyGoroutines", "pending", 1],
    ["Duplicates", "inactive", 0],
    ["DiskFull", "inactive", 0],
  ]);
  expect(new Set(all.map(({ key }) => key)).size).toBe(4);
  expect(countStates(all)).toEqual({ firing: 1, pending: 1, inactive: 2 });
});

test("of a rule's alerts those that fire come first, and the oldest of them", () => {
  const alert = (state: "firing" | "pending", day: number) => ({
    labels: { day: String(day) }, annotations: {}, state, activeAt: `2026-11-0${day}T00:00:00Z`, value: "1e+00",
  });
  const rule = { ...all[0]!.rule, alerts: [alert("pending", 1), alert("firing", 3), alert("firing", 2)] };
  const [first] = rulesOfAlerts([{ ...groups[0]!, rules: [rule] }]);
  expect(first?.rows.map((row) => row.alert.labels["day"])).toEqual(["2", "3", "1"]);
});

test("alerts are filtered by state, and by words of labels, annotations and rules", () => {
  expect(names(filterAlerts(all, null, ""))).toEqual(names(all));
  expect(names(filterAlerts(all, "firing", ""))).toEqual(["TargetDown"]);
  expect(names(filterAlerts(all, "inactive", ""))).toEqual(["Duplicates", "DiskFull"]);
  expect(names(filterAlerts(all, null, "severity=PAGE down"))).toEqual(["TargetDown"]);
  expect(names(filterAlerts(all, null, "33 goroutines"))).toEqual(["ManyGoroutines"]);
  expect(names(filterAlerts(all, null, "node.yml avail_bytes"))).toEqual(["DiskFull"]);
  expect(filterAlerts(all, "pending", "TargetDown")).toEqual([]);
});

test("rules are filtered by health and words, group by group", () => {
  const found = (health: "ok" | "err" | null, text: string) => filterRules(groups, health, text).map(({ name, rules }) => [name, rules.length]);
  expect(found(null, "")).toEqual([["requests", 3], ["targets", 3]]);
  expect(found("err", "")).toEqual([["requests", 1]]);
  expect(found(null, "many-to-many")).toEqual([["requests", 1]]);
  expect(found(null, "source=rules")).toEqual([["requests", 1]]);
  expect(found("ok", "targets")).toEqual([["targets", 3]]);
  expect(found(null, "nothing of the kind")).toEqual([]);
});

test("rules that nobody reads are those that record and are known not to be read", () => {
  const recording = groups.flatMap(({ rules }) => rules).find(({ type, health }) => type === "recording" && health === "ok")!;
  const rules = [true, false, undefined].map((wasRead) => ({ ...recording, ...(wasRead === undefined ? {} : { wasRead }) }) as typeof recording);
  const found = filterRules([{ ...groups[0]!, rules: [...rules, all[0]!.rule] }], "unread", "");
  expect(found.map((group) => group.rules)).toEqual([[rules[1]]]);
});

test("a rule that was never evaluated has Go's zero time", () => {
  expect(evaluatedAt("0001-01-01T00:00:00Z")).toBeNull();
  expect(evaluatedAt("2026-11-23T14:19:31.5Z")).toBe(Date.parse("2026-11-23T14:19:31.5Z") / 1000);
});

test("addresses in annotations are links, without the end of the sentence", () => {
  expect(linked("see https://wiki/a?b=c, or (http://x/y).")).toEqual([
    { text: "see ", isLink: false },
    { text: "https://wiki/a?b=c", isLink: true },
    { text: ", or (", isLink: false },
    { text: "http://x/y", isLink: true },
    { text: ").", isLink: false },
  ]);
  expect(linked("javascript:alert(1)")).toEqual([{ text: "javascript:alert(1)", isLink: false }]);
  expect(linked("")).toEqual([]);
});
