// What the pages of alerts and rules have in common.
import type { Rule } from "../api";
import { graphsLink, queryLink } from "../query/state";

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
