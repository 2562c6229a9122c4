// Metrics by how often somebody asks for them: what nobody uses first.
import { useState } from "preact/hooks";
import { matcher, metricUses, serverNow, type MetricUse } from "../api";
import { Choice } from "../components/controls";
import { Loaded } from "../components/loaded";
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
  return (
    <div class="view">
      <div class="view-head host-head">
        <h1>Metric usage</h1>
        <Choice
          label="Metrics"
          options={[["unused", "nobody asks for"], ["all", "all, least used first"]] as const}
          value={unused ? "unused" : "all"}
          onChange={(value) => adjust({ show: value === "all" ? "all" : undefined })}
        />
        <Filter text={text} />
      </div>
      <Loaded polled={polled} what="which metrics are used">
        {({ data }) => (
          <>
            <p class="summary">
              <strong>{formatCount(data.matchingTotal)}</strong> {unused ? "metrics that no query, dashboard or rule asked for" : "metrics"} since{" "}
              {formatDateTime(data.statsCollectedSince)}
            </p>
            {data.records.length > 0 && <Uses uses={data.records} />}
            {data.matchingTotal > data.records.length && <p class="more muted">The first {formatCount(data.records.length)} are shown.</p>}
          </>
        )}
      </Loaded>
    </div>
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

function Uses({ uses }: { uses: readonly MetricUse[] }) {
  return (
    <div class="scroll-x">
      <table class="table">
        <thead>
          <tr>
            <th>Metric</th>
            <th class="num">Dashboards</th>
            <th class="num">Rules</th>
            <th class="num">Queries</th>
            <th>Used by</th>
            <th>Last</th>
          </tr>
        </thead>
        <tbody>
          {uses.map((use) => (
            <tr key={use.metricName}>
              <td class="mono">
                <a href={queryLink(`count by (job) ({${matcher("__name__", use.metricName)}})`)} title="Its series by job">
                  {use.metricName}
                </a>
              </td>
              <td class="num">{formatCount(use.dashboards)}</td>
              <td class="num">{formatCount(use.rules)}</td>
              <td class="num">{formatCount(use.queries)}</td>
              <td class={use.queryRequestsCount === 0 ? "muted" : undefined}>{usersOf(use)}</td>
              <td>{use.lastRequestTimestamp === 0 ? "never" : formatAgo(use.lastRequestTimestamp, serverNow())}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
