// What the pages of alerts and rules have in common.
import type { Rule } from "../api";
import { formatCount } from "../lib/units";
import { graphsLink, queryLink } from "../query/state";
import { Icon } from "./controls";

/** A rule's expression, which leads to its graph, or to those of what it compares with numbers; and why it failed. */
export function Expression({ rule }: { rule: Rule }) {
  const graphs = (rule.type === "alerting" ? rule.graphs : undefined) ?? [];
  const [href, title] =
    graphs.length === 0
      ? [queryLink(rule.query, { tab: "graph" }), "Show the graph of this expression"]
      : [graphsLink(graphs), "Show what is compared, with the threshold"];
  return (
    <>
      <a class="expression" href={href} title={title}>
        {rule.query}
      </a>
      {rule.health === "err" && <p class="rule-error">{rule.lastError}</p>}
    </>
  );
}

const STATES: Readonly<Record<string, { tone: string; path: string }>> = {
  firing: { tone: "down", path: "M8 3.500v5.500M8 12v.1" },
  pending: { tone: "pending", path: "M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11ZM8 5v3.300l2 1.200" },
  inactive: { tone: "up", path: "M4 8.400l2.700 2.700L12 5.500" },
};

/** A state with its sign; `count` of them in a heading. */
export function AlertState({ state, count }: { state: string; count?: number }) {
  const { tone, path } = STATES[state] ?? { tone: "unknown", path: "M5 8h6" };
  return (
    <span class={`health health-${tone}`}>
      <Icon path={path} />
      {count === undefined ? state : `${formatCount(count)} ${state}`}
    </span>
  );
}
