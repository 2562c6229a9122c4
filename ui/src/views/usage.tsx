// Metrics by how often somebody asks for them: what nobody uses first.
import { useState } from "preact/hooks";
import { matcher, metricUses, serverNow, type MetricUse } from "../api";
import { Choice } from "../components/controls";
import { Loaded } from "../components/loaded";
import { Page } from "../components/page";
import { Table, type Column } from "../components/table";
import { containing, usersOf } from "../lib/activity";
import { usePoll } from "../lib/poll";
import { adjust, route } from "../lib/router";
import { useStore } from "../lib/store";
import { formatAgo, formatDateTime } from "../lib/time";
import { formatCount } from "../lib/units";
import { queryLink } from "../query/state";

const REFRESH_MS = 30_000;
const SHOWN = 200;

export default function UsageView() {
  const { params } = useStore(route);
  const unused = params["show"] !== "all";
  const text = params["name"] ?? "";
  const key = `metric usage ${unused} ${text}`;
  const polled = usePoll(key, (signal) => metricUses(SHOWN, containing(text), unused ? 0 : null, signal), REFRESH_MS);
  const head = (
    <>
      <Choice
        label="Metrics"
        options={[["unused", "nobody asks for"], ["all", "all, least used first"]] as const}
        value={unused ? "unused" : "all"}
        onChange={(value) => adjust({ show: value === "all" ? "all" : undefined })}
      />
      <Filter text={text} />
    </>
  );
  return (
    <Page title="Metric usage" head={head}>
      <Loaded polled={polled} what="which metrics are used">
        {({ data }) => (
          <>
            <p class="summary">
              <strong>{formatCount(data.matchingTotal)}</strong> {unused ? "metrics that no query, dashboard or rule asked for" : "metrics"} since{" "}
              {formatDateTime(data.statsCollectedSince)}
            </p>
            {data.records.length > 0 && <Table columns={USES} rows={data.records} keyOf={({ metricName }) => metricName} scrolls />}
            {data.matchingTotal > data.records.length && <p class="more muted">The first {formatCount(data.records.length)} are shown.</p>}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Filter({ text }: { text: string }) {
  const [typed, setTyped] = useState(text);
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        adjust({ name: typed.trim() === "" ? undefined : typed.trim() });
      }}
    >
      <input
        type="search"
        class="input"
        aria-label="Part of a metric's name"
        placeholder="part of a name"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
    </form>
  );
}

const USES: readonly Column<MetricUse>[] = [
  {
    title: "Metric",
    class: "mono",
    cell: ({ metricName }) => (
      <a href={queryLink(`count by (job) ({${matcher("__name__", metricName)}})`)} title="Its series by job">
        {metricName}
      </a>
    ),
  },
  { title: "Dashboards", num: true, cell: (use) => formatCount(use.dashboards) },
  { title: "Rules", num: true, cell: (use) => formatCount(use.rules) },
  { title: "Queries", num: true, cell: (use) => formatCount(use.queries) },
  { title: "Used by", class: (use) => (use.queryRequestsCount === 0 ? "muted" : undefined), cell: usersOf },
  {
    title: "Last",
    cell: ({ lastRequestTimestamp: last }) => (last === 0 ? "never" : formatAgo(last, serverNow())),
  },
];
