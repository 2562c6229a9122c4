// Queries: which run, and which cost most since the server started.
import { activeQueries, serverNow, topQueries, type ActiveQuery, type QueryCost, type TopQueries } from "../api";
import { Choice, Meter } from "../components/controls";
import { Loaded } from "../components/loaded";
import { costsBy, ORDER_WORDS, ORDERS, originText, weightOf, type Order } from "../lib/activity";
import { usePoll } from "../lib/poll";
import { adjust, route } from "../lib/router";
import { useStore } from "../lib/store";
import { formatAgo, formatDateTime, formatDuration } from "../lib/time";
import { formatCount, formatValue } from "../lib/units";
import { queryLink } from "../query/state";

const SHOWN = 25;
const STATE_WORDS: Readonly<Record<ActiveQuery["state"], string>> = { queued: "waiting", evaluating: "evaluating", sending: "sending its answer" };

export default function ActivityView() {
  const { params } = useStore(route);
  const order: Order = ORDERS.find((one) => one === params["by"]) ?? "time";
  const running = usePoll("active queries", activeQueries);
  const top = usePoll("top queries", (signal) => topQueries(SHOWN, signal));
  return (
    <div class="view">
      <div class="view-head">
        <h1>Queries</h1>
        {running.data !== null && <p class="summary">{running.data.data.length === 0 ? "none running" : `${formatCount(running.data.data.length)} running`}</p>}
      </div>
      <Loaded polled={running} what="its queries">
        {({ data }) => (data.length === 0 ? <p class="awaiting">Nobody asks anything just now.</p> : <Running queries={data} />)}
      </Loaded>
      <section class="section" aria-label="Most expensive">
        <div class="view-head host-head">
          <h2>Most expensive</h2>
          <Choice
            label="Ordered by"
            options={ORDERS.map((one) => [one, ORDER_WORDS[one]] as const)}
            value={order}
            onChange={(value) => adjust({ by: value === "time" ? undefined : value })}
          />
        </div>
        <Loaded polled={top} what="its expensive queries">
          {({ data }) => <Expensive top={data} order={order} />}
        </Loaded>
      </section>
    </div>
  );
}

function Running({ queries }: { queries: readonly ActiveQuery[] }) {
  const longestFirst = [...queries].sort((a, b) => b.durationSeconds - a.durationSeconds);
  return (
    <div class="scroll-x">
      <table class="table">
        <thead>
          <tr>
            <th>Query</th>
            <th>State</th>
            <th class="num">For</th>
            <th>Times</th>
            <th>Asked by</th>
          </tr>
        </thead>
        <tbody>
          {longestFirst.map((one) => (
            <tr key={one.id}>
              <td class="mono">
                <QueryText text={one.query} range={one.end - one.start} />
              </td>
              <td>{STATE_WORDS[one.state]}</td>
              <td class="num">{formatValue(one.durationSeconds, "seconds")}</td>
              <td>{one.step === 0 ? formatDateTime(one.end) : `${formatDuration(one.end - one.start)} by ${formatDuration(one.step)}`}</td>
              <td title={one.origin.kind === "rule" ? one.origin.file : one.origin.path}>{originText(one.origin)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Expensive({ top, order }: { top: TopQueries; order: Order }) {
  const costs = costsBy(top, order);
  if (costs.length === 0) return <p class="awaiting">No query was evaluated since {formatDateTime(top.since)}.</p>;
  const most = Math.max(...costs.map((cost) => weightOf(cost, order)));
  return (
    <>
      <div class="scroll-x">
        <table class="table">
          <thead>
            <tr>
              <th>Query</th>
              <th class="num">Range</th>
              <th class="num">Evaluations</th>
              <th class="num">Failed</th>
              <th class="num">Time</th>
              <th class="num">Mean</th>
              <th class="num">Longest</th>
              <th class="num">Samples read</th>
              <th class="num">Share</th>
              <th>Last</th>
            </tr>
          </thead>
          <tbody>
            {costs.map((cost) => (
              <Cost key={`${cost.timeRangeSeconds} ${cost.query}`} cost={cost} share={most > 0 ? weightOf(cost, order) / most : 0} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="more muted">Counted since {formatDateTime(top.since)}, rules included.</p>
    </>
  );
}

function Cost({ cost, share }: { cost: QueryCost; share: number }) {
  return (
    <tr>
      <td class="mono">
        <QueryText text={cost.query} range={cost.timeRangeSeconds} />
      </td>
      <td class="num">{cost.timeRangeSeconds === 0 ? "–" : formatDuration(cost.timeRangeSeconds)}</td>
      <td class="num">{formatCount(cost.count)}</td>
      <td class={cost.failures > 0 ? "num health-down" : "num"}>{formatCount(cost.failures)}</td>
      <td class="num">{formatValue(cost.sumDurationSeconds, "seconds")}</td>
      <td class="num">{formatValue(cost.avgDurationSeconds, "seconds")}</td>
      <td class="num">{formatValue(cost.maxDurationSeconds, "seconds")}</td>
      <td class="num">{formatCount(cost.samplesRead)}</td>
      <td class="num cost">
        <Meter share={share} />
      </td>
      <td>{formatAgo(cost.last, serverNow())}</td>
    </tr>
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
