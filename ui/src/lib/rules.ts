// Alerts and rules as the pages list them: troubled ones first, with what is searched and counted.
import type { Alert, AlertState, AlertingRule, Rule, RuleGroup } from "../api";
import { texts } from "./labels";
import { hasWords } from "./targets";

export interface AlertRow {
  /** Unique among the alerts of its rule. */
  key: string;
  alert: Alert;
  /** Unix seconds. */
  since: number;
}

export interface RuleOfAlerts {
  /** Unique; stays while the group does. */
  key: string;
  group: RuleGroup;
  rule: AlertingRule;
  rows: AlertRow[];
}

/** States that alerts are filtered by. */
export const STATES = ["firing", "pending", "inactive"] as const;
export type ShownState = (typeof STATES)[number];

const rank = (state: AlertState): number => (state === "firing" ? 0 : state === "pending" ? 1 : 2);

/** Alerting rules: those that fire first, failing ones before other inactive ones, then by name; of their alerts the ones that fire, then those that last longest. */
export function rulesOfAlerts(groups: readonly RuleGroup[]): RuleOfAlerts[] {
  const found: RuleOfAlerts[] = [];
  for (const group of groups) {
    for (const [i, rule] of group.rules.entries()) {
      if (rule.type !== "alerting") continue;
      const rows = (rule.alerts ?? []).map((alert) => ({ key: JSON.stringify(alert.labels), alert, since: Date.parse(alert.activeAt) / 1000 }));
      rows.sort((a, b) => rank(a.alert.state) - rank(b.alert.state) || a.since - b.since || a.key.localeCompare(b.key));
      found.push({ key: `${group.file};${group.name};${i}`, group, rule, rows });
    }
  }
  const place = ({ rule }: RuleOfAlerts): number => 2 * rank(rule.state) - (rule.health === "err" ? 1 : 0);
  return found.sort((a, b) => place(a) - place(b) || a.rule.name.localeCompare(b.rule.name) || a.key.localeCompare(b.key));
}

/** Alerts that fire and that are pending, and rules without either. */
export function countStates(rules: readonly RuleOfAlerts[]): Record<ShownState, number> {
  const of = (state: AlertState): number => rules.reduce((sum, { rows }) => sum + rows.filter(({ alert }) => alert.state === state).length, 0);
  return { firing: of("firing"), pending: of("pending"), inactive: rules.filter(({ rows }) => rows.length === 0).length };
}

/**
 * What a filter leaves: of each rule the alerts in which every word of the text occurs, or all of them where the rule
 * itself has the words. A rule without alerts is inactive.
 */
export function filterAlerts(rules: readonly RuleOfAlerts[], state: ShownState | null, text: string): RuleOfAlerts[] {
  const found: RuleOfAlerts[] = [];
  for (const one of rules) {
    const { rule, group, rows } = one;
    const own = [rule.name, rule.query, group.name, group.file];
    if (rows.length === 0) {
      const wanted = state === null || state === "inactive";
      if (wanted && hasWords([...own, ...texts(rule.labels), ...texts(rule.annotations)], text)) found.push(one);
      continue;
    }
    const kept = rows.filter(
      ({ alert }) => (state === null || alert.state === state) && hasWords([...own, ...texts(alert.labels), ...texts(alert.annotations)], text),
    );
    if (kept.length > 0) found.push({ ...one, rows: kept });
  }
  return found;
}

export type RuleHealth = Rule["health"];

/** Whether a recorded metric is read by nobody, as far as the server knows since its start. */
export const isUnread = (rule: Rule): boolean => rule.type === "recording" && rule.wasRead === false && rule.health === "ok";

/** Groups with the rules that a filter leaves; those without any are left out. */
export function filterRules(groups: readonly RuleGroup[], health: RuleHealth | "unread" | null, text: string): RuleGroup[] {
  const wanted = (group: RuleGroup, rule: Rule): boolean =>
    (health === null || (health === "unread" ? isUnread(rule) : rule.health === health)) &&
    hasWords([rule.name, rule.query, rule.lastError ?? "", group.name, group.file, ...texts(rule.labels)], text);
  return groups.map((group) => ({ ...group, rules: group.rules.filter((rule) => wanted(group, rule)) })).filter(({ rules }) => rules.length > 0);
}

/** The name under which the server's metrics know a group. */
export const groupKey = (group: RuleGroup): string => `${group.file};${group.name}`;

/** Unix seconds of an evaluation; null before the first, for which Go writes the year 1. */
export function evaluatedAt(time: string): number | null {
  const seconds = Date.parse(time) / 1000;
  return seconds > 0 ? seconds : null;
}

/** An annotation's text in pieces: those that are addresses can be followed. */
export function linked(text: string): { text: string; isLink: boolean }[] {
  const pieces = text.split(/(https?:\/\/[^\s<>"']*[^\s<>"'.,;:!?)\]])/);
  return pieces.map((piece, i) => ({ text: piece, isLink: i % 2 === 1 })).filter(({ text: piece }) => piece !== "");
}
