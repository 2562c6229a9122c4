// What a server does that watches no host: what it takes in, what it stores, who sends to it.
import { useRef } from "preact/hooks";
import { selfMetrics, serverNow, tsdbStatus, type Counted } from "../api";
import { formatAddress } from "../lib/address";
import { OWN_METRICS, look, rate, receivers, type Look, type Receiver } from "../lib/ingest";
import { usePoll } from "../lib/poll";
import type { TargetRow } from "../lib/targets";
import { formatCount, formatValue } from "../lib/units";
import { queryLink } from "../query/state";
import { Plot } from "../plot";
import { PLOT_HEIGHT, PanelEmpty, PanelFrame } from "./panel";
import { Table, barColumn, type Column } from "./table";
import { Tiles, type Tile } from "./tiles";

/** Looks that are kept: five minutes of them. */
const KEPT = 60;
const TOP = 8;
const TOP_REFRESH_MS = 30_000;

export function ServerOverview({ targets }: { targets: readonly TargetRow[] | null }) {
  const looks = useRef<Look[]>([]);
  const own = usePoll("own metrics", async (signal) => {
    const { data } = await selfMetrics(OWN_METRICS, signal);
    looks.current = [...looks.current, look(data, serverNow())].slice(-KEPT);
    return looks.current;
  });
  const seen = own.data ?? [];
  const [before, now] = [seen.at(-2), seen.at(-1)];
  const count = (key: string): string => (now?.counters.get(key) === undefined ? "–" : formatCount(now.counters.get(key) as number));
  const perSecond = (key: string): string => {
    const value = rate(before, now, key);
    return value === null ? "–" : formatValue(value, "per second");
  };
  const up = targets?.filter((row) => row.target.health === "up").length ?? 0;
  const jobs = new Set(targets?.map((row) => row.job)).size;
  const tiles: readonly Tile[] = [
    ["Taken in", perSecond("prometheus_tsdb_head_samples_appended_total"), `${count("prometheus_tsdb_head_samples_appended_total")} samples since the start`],
    ["Series", count("prometheus_tsdb_head_series"), `${count("prometheus_tsdb_head_series_created_total")} since the start`],
    ["Targets", targets === null ? "–" : `${formatCount(up)} of ${formatCount(targets.length)} up`, jobs === 1 ? "1 job" : `${formatCount(jobs)} jobs`],
    ["Requests", perSecond("prometheus_http_requests_total"), running(now?.counters.get("prometheus_engine_queries"))],
  ];
  return (
    <section aria-label="This server">
      <div class="view-head">
        <h2>This server</h2>
      </div>
      <Tiles tiles={tiles} />
      <div class="panels">
        <Ingest looks={seen} />
        <Largest />
        <Receivers before={before} now={now} />
      </div>
    </section>
  );
}

function running(queries: number | undefined): string {
  if (queries === undefined) return "";
  return queries === 1 ? "1 query running" : `${formatCount(queries)} queries running`;
}

function Ingest({ looks }: { looks: readonly Look[] }) {
  const times = looks.slice(1).map(({ at }) => at);
  const values = looks.slice(1).map((after, i) => rate(looks[i], after, "prometheus_tsdb_head_samples_appended_total"));
  const last = values.at(-1) ?? null;
  const to = times.at(-1) ?? 0;
  return (
    <PanelFrame title="Samples taken in" headline={last === null ? undefined : formatValue(last, "per second")} note="while this page is open">
      {times.length < 2 ? (
        <PanelEmpty>The plot begins with the third look at the server’s counters.</PanelEmpty>
      ) : (
        <div class="panel-plot">
          <Plot
            label={`Samples taken in: ${last === null ? "unknown" : formatValue(last, "per second")}`}
            lines={[{ name: "samples", color: "--c-blue", values }]}
            times={times}
            from={Math.min(times[0] as number, to - 60)}
            to={to}
            unit="per second"
            mode="lines"
            height={PLOT_HEIGHT}
            top={(highest) => highest * 1.15 || 1}
          />
        </div>
      )}
    </PanelFrame>
  );
}

function Largest() {
  const polled = usePoll("largest metrics", (signal) => tsdbStatus(TOP, signal), TOP_REFRESH_MS);
  const rows = polled.data?.data.seriesCountByMetricName ?? [];
  const columns: readonly Column<Counted>[] = [
    { title: "Metric", cell: ({ name }) => <a href={queryLink(name)} title={name}>{name}</a> },
    barColumn("Series", ({ value }) => value, formatCount, polled.data?.data.headStats?.numSeries ?? 0),
  ];
  return (
    <PanelFrame title="Metrics with most series" link={formatAddress("/tsdb-status")}>
      {rows.length === 0 ? (
        <PanelEmpty low>{polled.loading ? "Counting…" : "Nothing is stored yet."}</PanelEmpty>
      ) : (
        <Table class="overview-list" columns={columns} rows={rows} keyOf={({ name }) => name} bare />
      )}
    </PanelFrame>
  );
}

const RECEIVERS: readonly Column<Receiver>[] = [
  { title: "Kind", cell: ({ what, handler }) => <>{what} <span class="muted mono">{handler}</span></> },
  { title: "Rate", num: true, cell: ({ perSecond }) => (perSecond === null ? "–" : formatValue(perSecond, "per second")) },
  { title: "Total", num: true, class: "muted", cell: ({ total }) => `${formatCount(total)} in all` },
];

function Receivers({ before, now }: { before: Look | undefined; now: Look | undefined }) {
  const rows = now === undefined ? [] : receivers(before, now);
  return (
    <PanelFrame title="Receivers">
      {rows.length === 0 ? (
        <PanelEmpty low>Nobody has sent anything: no remote write, no push.</PanelEmpty>
      ) : (
        <Table class="overview-list" columns={RECEIVERS} rows={rows} keyOf={({ handler }) => handler} bare />
      )}
    </PanelFrame>
  );
}
