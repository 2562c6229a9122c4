// What scraping costs, pool by pool: samples, bytes and time per second.
import { formatAddress } from "../lib/address";
import { poolsOf, rateOf, type Pool, type TargetRow } from "../lib/targets";
import { formatCount, formatValue } from "../lib/units";
import { Meter } from "./controls";

type Kind = keyof Pool["rates"];

const COLUMNS: readonly { kind: Kind; title: string; hint: string; text: (value: number) => string }[] = [
  { kind: "series", title: "Samples", hint: "per second", text: (value) => formatValue(value, "per second") },
  { kind: "bytes", title: "Traffic", hint: "bodies per second, uncompressed", text: (value) => formatValue(value, "bytes/s") },
  { kind: "seconds", title: "Time", hint: "spent in scrapes, of one second", text: (value) => formatValue(value, "ratio") },
];

export function ScrapeCost({ rows, limit }: { rows: readonly TargetRow[]; limit: number }) {
  const pools = poolsOf(rows).sort((a, b) => (b.rates.series ?? 0) - (a.rates.series ?? 0));
  const totals: Pool["rates"] = { series: rateOf(rows, "series"), bytes: rateOf(rows, "bytes"), seconds: rateOf(rows, "seconds") };
  return (
    <table class="table scrape-cost">
      <thead>
        <tr>
          <th>Pool</th>
          <th class="num">Up</th>
          {COLUMNS.map(({ kind, title, hint }) => (
            <th key={kind} class="num" title={hint}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {pools.slice(0, limit).map((pool) => (
          <tr key={pool.name}>
            <td>
              <a href={formatAddress("/targets", { pool: pool.name })}>{pool.name}</a>
            </td>
            <td class={pool.down > 0 ? "num summary-down" : "num"}>
              {formatCount(pool.up)} of {formatCount(pool.rows.length)}
            </td>
            {COLUMNS.map(({ kind, title, text }) => (
              <td key={kind} class="num cost" data-title={title}>
                {pool.rates[kind] === null ? <span class="muted">–</span> : text(pool.rates[kind])}
                <Meter share={(pool.rates[kind] ?? 0) / (totals[kind] || 1)} />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
      {pools.length > 1 && (
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
      )}
    </table>
  );
}
