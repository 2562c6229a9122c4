// Storage: what is in the head, what makes many series, and the blocks on disk.
import { ifTold, tsdbBlocks, tsdbStatus, type Block, type Counted, type TsdbStatus } from "../api";
import { Choice } from "../components/controls";
import { Loaded } from "../components/loaded";
import { Page } from "../components/page";
import { Table, barColumn, type Column } from "../components/table";
import { Tiles, type Tile } from "../components/tiles";
import { usePoll } from "../lib/poll";
import { adjust, route } from "../lib/router";
import { useStore } from "../lib/store";
import { blockRows, isTime, pairSelector, type BlockRow } from "../lib/tsdb";
import { formatDateTime } from "../lib/time";
import { formatCount, formatSpan, formatValue } from "../lib/units";
import { queryLink } from "../query/state";

const REFRESH_MS = 30_000;
const LIMITS = ["10", "25", "100"] as const;
type Limit = (typeof LIMITS)[number];
const BLOCKS_SHOWN = 50;

export default function TsdbView() {
  const { params } = useStore(route);
  const limit: Limit = LIMITS.find((one) => one === params["limit"]) ?? "10";
  const polled = usePoll(`tsdb ${limit}`, (signal) => tsdbStatus(Number(limit), signal), REFRESH_MS);
  // The head is worth showing without them.
  const blocks = usePoll("blocks", (signal) => ifTold(tsdbBlocks(signal)), REFRESH_MS);
  const choice = (
    <Choice
      label="Rows of each table"
      options={LIMITS.map((one) => [one, `top ${one}`] as const)}
      value={limit}
      onChange={(value) => adjust({ limit: value === "10" ? undefined : value })}
    />
  );
  return (
    <Page title="TSDB status" head={choice}>
      <Loaded polled={polled} what="its storage">
        {({ data }) => (
          <>
            <Head stats={data.headStats} />
            <Tables data={data} />
          </>
        )}
      </Loaded>
      {blocks.data !== null && <Blocks blocks={blocks.data.blocks ?? []} />}
    </Page>
  );
}

function Head({ stats }: { stats: TsdbStatus["headStats"] }) {
  if (stats === undefined) return null;
  const { minTime, maxTime } = stats;
  const range = isTime(minTime) && isTime(maxTime) && maxTime >= minTime ? [minTime / 1000, maxTime / 1000] : null;
  const tiles: readonly Tile[] = [
    ["Series", formatCount(stats.numSeries), "in the head"],
    ["Chunks", formatCount(stats.chunkCount), stats.numSeries > 0 ? `${formatValue(stats.chunkCount / stats.numSeries)} a series` : ""],
    ["Label pairs", formatCount(stats.numLabelPairs), "different ones"],
    ["Covers", range === null ? "–" : formatSpan((range[1] as number) - (range[0] as number)), range === null ? "no samples yet" : `since ${formatDateTime(range[0] as number)}`],
  ];
  return <Tiles label="Head" tiles={tiles} />;
}

function Tables({ data }: { data: TsdbStatus }) {
  const total = data.headStats?.numSeries ?? 0;
  return (
    <div class="top-tables">
      <Top
        title="Metrics with most series"
        column="Series"
        rows={data.seriesCountByMetricName}
        total={total}
        link={(name) => queryLink(`count by (job, instance) ({${pairSelector(`__name__=${name}`)}})`)}
      />
      <Top
        title="Label pairs with most series"
        column="Series"
        rows={data.seriesCountByLabelValuePair}
        total={total}
        link={(name) => queryLink(`count by (__name__) ({${pairSelector(name)}})`)}
      />
      <Top title="Labels with most values" column="Values" rows={data.labelValueCountByLabelName} />
      <Top title="Labels that take most memory" column="Bytes" rows={data.memoryInBytesByLabelName} text={(value) => formatValue(value, "bytes")} />
    </div>
  );
}

function Top(props: {
  title: string;
  column: string;
  rows: readonly Counted[] | null | undefined;
  /** What 100 % is; the largest row where it isn't told. */
  total?: number;
  text?: (value: number) => string;
  link?: (name: string) => string;
}) {
  const { title, column, link, text = formatCount } = props;
  const rows = props.rows ?? [];
  const most = props.total !== undefined && props.total > 0 ? props.total : (rows[0]?.value ?? 0);
  const columns: readonly Column<Counted>[] = [
    { title: "Name", class: "mono", cell: ({ name }) => (link === undefined ? name : <a href={link(name)}>{name}</a>) },
    barColumn(column, ({ value }) => value, text, most),
  ];
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {rows.length === 0 ? (
        <p class="awaiting">Nothing yet.</p>
      ) : (
        <Table class="top-table" columns={columns} rows={rows} keyOf={({ name }) => name} />
      )}
    </section>
  );
}

const count = (value: number | null): string => (value === null ? "–" : formatCount(value));

const BLOCKS: readonly Column<BlockRow>[] = [
  { title: "Block", class: "mono", cell: ({ ulid }) => ulid },
  { title: "From", cell: ({ from }) => formatDateTime(from) },
  { title: "Covers", num: true, cell: ({ seconds }) => formatSpan(seconds) },
  { title: "Level", num: true, cell: ({ level }) => level ?? "–" },
  { title: "Series", num: true, cell: ({ series }) => count(series) },
  { title: "Samples", num: true, cell: ({ samples }) => count(samples) },
];

function Blocks({ blocks }: { blocks: readonly Block[] }) {
  const rows = blockRows(blocks);
  return (
    <section class="section" aria-label="Blocks">
      <div class="view-head">
        <h2>Blocks</h2>
        <p class="summary">{rows.length === 0 ? "none on disk yet" : `${formatCount(rows.length)} on disk`}</p>
      </div>
      {rows.length > 0 && <Table columns={BLOCKS} rows={rows.slice(0, BLOCKS_SHOWN)} keyOf={({ ulid }) => ulid} scrolls />}
      {rows.length > BLOCKS_SHOWN && <p class="more muted">The newest {BLOCKS_SHOWN} are shown.</p>}
    </section>
  );
}
