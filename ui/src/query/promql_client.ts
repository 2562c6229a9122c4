// What Prometheus' completion asks of a server, answered from this page's own requests and lists.
import { labelMatchersToString } from "@prometheus-io/codemirror-promql/dist/esm/parser/matcher";
import type { PrometheusClient } from "@prometheus-io/codemirror-promql";
import { knownLabels, knownMetadata, knownMetrics, knownValues } from "../lib/names";

type Matchers = Parameters<PrometheusClient["labelValues"]>[2];

/** The selector of the series meant so far; undefined for all. The label that is being completed restricts nothing. */
function selector(metric = "", matchers?: Matchers, label?: string): string | undefined {
  if (metric === "" && (matchers ?? []).length === 0) return undefined;
  const text = labelMatchersToString(metric, matchers, label);
  return text === "" || text === "{}" ? undefined : text;
}

export const promqlClient: PrometheusClient = {
  labelNames: async (metric) => [...(await knownLabels(selector(metric)))],
  labelValues: async (label, metric, matchers) => [...(await knownValues(label, selector(metric, matchers, label)))],
  metricMetadata: async () => {
    const all = Object.entries(await knownMetadata());
    return Object.fromEntries(all.map(([name, about]) => [name, about.map(({ type, help }) => ({ type, help }))]));
  },
  metricNames: async () => [...(await knownMetrics())],
  series: () => Promise.resolve([]),
  flags: () => Promise.resolve({}),
};
