// What scraping costs, pool by pool: samples, bytes and time per second.
import { formatAddress } from "../lib/address";
import { poolsOf, rateOf, type Pool, type TargetRow } from "../lib/targets";
import { formatCount, formatValue } from "../lib/units";
import { Table, barColumn, type Column } from "./table";

type Kind = keyof Pool["rates"];

const COLUMNS: readonly { kind: Kind; title: string; hint: string; text: (value: number) => string }[] = [
  { kind: "series", title: "Samples", hint: "per second", text: (value) => formatValue(value, "per second") },
  { kind: "bytes", title: "Traffic", hint: "bodies per second, uncompressed", text: (value) => formatValue(value, "bytes/s") },
  { kind: "seconds", title: "Time", hint: "spent in scrapes, of one second", text: (value) => formatValue(value, "ratio") },
];

export function ScrapeCost({ rows, limit }: { rows: readonly TargetRow[]; limit: number }) {
  const pools = poolsOf(rows).sort((a, b) => (b.rates.series ?? 0) - (a.rates.series ?? 0));
  const totals: Pool["rates"] = { series: rateOf(rows, "series"), bytes: rateOf(rows, "bytes"), seconds: rateOf(rows, "seconds") };
  const columns: readonly Column<Pool>[] = [
    { title: "Pool", cell: ({ name }) => <a href={formatAddress("/targets", { pool: name })}>{name}</a> },
    {
      title: "Up",
      num: true,
      class: ({ down }) => (down > 0 ? "summary-down" : undefined),
      cell: (pool) => `${formatCount(pool.up)} of ${formatCount(pool.rows.length)}`,
    },
    ...COLUMNS.map(({ kind, title, hint, text }) => barColumn<Pool>(title, ({ rates }) => rates[kind], text, totals[kind] ?? 0, hint)),
  ];
  const foot = pools.length > 1 && (
    <tfoot>
      <tr>
        <th scope="row">All {pools.length} pools</th>
        <td class="num">
          {formatCount(pools.reduce((sum, pool) => sum + pool.up, 0))} of {formatCount(rows.length)}
        </td>
        {COLUMNS.map(({ kind, title, text }) => (
          <td key={kind} class="num" data-title={title}>
            {totals[kind] === null ? "–" : text(totals[kind])}
          </td>
        ))}
      </tr>
    </tfoot>
  );
  return <Table class="scrape-cost" columns={columns} rows={pools.slice(0, limit)} keyOf={({ name }) => name} foot={foot} />;
}
