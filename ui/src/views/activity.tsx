// Queries: which run, and which cost most since the server started.
import { activeQueries, serverNow, topQueries, type ActiveQuery, type QueryCost, type TopQueries } from "../api";
import { Choice } from "../components/controls";
import { Loaded } from "../components/loaded";
import { Page } from "../components/page";
import { Table, barColumn, type Column } from "../components/table";
import { ORDERS, originText, type Order } from "../lib/activity";
import { usePoll } from "../lib/poll";
import { adjust, route } from "../lib/router";
import { useStore } from "../lib/store";
import { formatAgo, formatDateTime, formatDuration } from "../lib/time";
import { formatCount, formatValue } from "../lib/units";
import { queryLink } from "../query/state";

const SHOWN = 25;
const STATE_WORDS: Readonly<Record<ActiveQuery["state"], string>> = { queued: "waiting", evaluating: "evaluating", sending: "sending its answer" };

const RUNNING: readonly Column<ActiveQuery>[] = [
  { title: "Query", class: "mono", cell: (one) => <QueryText text={one.query} range={one.end - one.start} /> },
  { title: "State", cell: (one) => STATE_WORDS[one.state] },
  { title: "For", num: true, cell: (one) => formatValue(one.durationSeconds, "seconds") },
  {
    title: "Times",
    cell: (one) => (one.step === 0 ? formatDateTime(one.end) : `${formatDuration(one.end - one.start)} by ${formatDuration(one.step)}`),
  },
  { title: "Asked by", about: ({ origin }) => (origin.kind === "rule" ? origin.file : origin.path), cell: (one) => originText(one.origin) },
];

/** Without the share, which depends on the order. */
const COSTS: readonly Column<QueryCost>[] = [
  { title: "Query", class: "mono", cell: (cost) => <QueryText text={cost.query} range={cost.timeRangeSeconds} /> },
  { title: "Range", num: true, cell: (cost) => (cost.timeRangeSeconds === 0 ? "–" : formatDuration(cost.timeRangeSeconds)) },
  { title: "Evaluations", num: true, cell: (cost) => formatCount(cost.count) },
  { title: "Failed", num: true, class: (cost) => (cost.failures > 0 ? "health-down" : undefined), cell: (cost) => formatCount(cost.failures) },
  { title: "Time", num: true, cell: (cost) => formatValue(cost.sumDurationSeconds, "seconds") },
  { title: "Mean", num: true, cell: (cost) => formatValue(cost.avgDurationSeconds, "seconds") },
  { title: "Longest", num: true, cell: (cost) => formatValue(cost.maxDurationSeconds, "seconds") },
  { title: "Samples read", num: true, cell: (cost) => formatCount(cost.samplesRead) },
];

export default function ActivityView() {
  const { params } = useStore(route);
  const order = ORDERS.find(({ name }) => name === params["by"]) ?? ORDERS[0];
  const running = usePoll("active queries", activeQueries);
  const top = usePoll("top queries", (signal) => topQueries(SHOWN, signal));
  const count = running.data?.data.length ?? 0;
  return (
    <Page title="Queries" head={running.data !== null && <p class="summary">{count === 0 ? "none running" : `${formatCount(count)} running`}</p>}>
      <Loaded polled={running} what="its queries">
        {({ data }) => (data.length === 0 ? <p class="awaiting">Nobody asks anything just now.</p> : <Running queries={data} />)}
      </Loaded>
      <section class="section" aria-label="Most expensive">
        <div class="view-head">
          <h2>Most expensive</h2>
          <Choice
            label="Ordered by"
            options={ORDERS.map(({ name, words }) => [name, words] as const)}
            value={order.name}
            onChange={(value) => adjust({ by: value === "time" ? undefined : value })}
          />
        </div>
        <Loaded polled={top} what="its expensive queries">
          {({ data }) => <Expensive top={data} order={order} />}
        </Loaded>
      </section>
    </Page>
  );
}

function Running({ queries }: { queries: readonly ActiveQuery[] }) {
  const longestFirst = [...queries].sort((a, b) => b.durationSeconds - a.durationSeconds);
  return <Table columns={RUNNING} rows={longestFirst} keyOf={({ id }) => id} scrolls />;
}

function Expensive({ top, order }: { top: TopQueries; order: Order }) {
  const costs = order.list(top);
  if (costs.length === 0) return <p class="awaiting">No query was evaluated since {formatDateTime(top.since)}.</p>;
  const most = Math.max(...costs.map(order.weight));
  const columns: readonly Column<QueryCost>[] = [
    ...COSTS,
    barColumn("Share", order.weight, () => "", most),
    { title: "Last", cell: (cost) => formatAgo(cost.last, serverNow()) },
  ];
  return (
    <>
      <Table columns={columns} rows={costs} keyOf={(cost) => `${cost.timeRangeSeconds} ${cost.query}`} scrolls />
      <p class="more muted">Counted since {formatDateTime(top.since)}, rules included.</p>
    </>
  );
}

/** The query with a link to ask it again; explaining it says where its time goes. */
function QueryText({ text, range }: { text: string; range: number }) {
  const link = queryLink(text, range > 0 ? { tab: "explain", range } : { tab: "explain" });
  return (
    <a href={link} title="Open in Query and explain">
      {text}
    </a>
  );
}
