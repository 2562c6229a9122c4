// The targets as a table with bars for what each scrape costs; cards on a phone.
import { useId, useState } from "preact/hooks";
import { serverNow, type Target } from "../api";
import { formatAgo, formatDateTime } from "../lib/time";
import { formatCount, formatValue } from "../lib/units";
import type { TargetRow } from "../lib/targets";
import { Icon } from "./controls";
import { Health } from "./health";
import { LabelChips } from "./labels";
import { barColumn, cellOf, type Column } from "./table";

interface Sortable {
  title: string;
  hint: string;
  num?: boolean;
  /** Costs are sorted largest first, words from A to Z. */
  by: (row: TargetRow) => number | string;
}

const TARGET: Sortable = { title: "Target", hint: "job and instance", by: ({ job, instance }) => `${job} ${instance}` };

/** What is behind the target itself; bars are measured against the most `among` rows. */
function columnsAmong(among: readonly TargetRow[]): readonly (Sortable & Column<TargetRow>)[] {
  const cost = (field: "seconds" | "bytes" | "series", title: string, hint: string, text: (value: number) => string) => {
    const most = among.reduce((top, row) => Math.max(top, row[field] ?? 0), 0);
    return { hint, by: (row: TargetRow) => -(row[field] ?? -1), ...barColumn<TargetRow>(title, (row) => row[field], text, most) };
  };
  return [
    {
      title: "Health",
      hint: "result of the last scrape",
      by: ({ target }) => ["down", "unknown", "up"].indexOf(target.health),
      cell: ({ target: { health } }) => <Health state={health} text={health === "unknown" ? "not scraped yet" : health} />,
    },
    {
      title: "Last scrape",
      hint: "time since the last scrape and the interval",
      num: true,
      by: ({ lastScrape }) => -(lastScrape ?? 0),
      cell: ({ lastScrape, target: { scrapeInterval } }) => (
        <>
          {lastScrape === null ? (
            <span class="muted">never</span>
          ) : (
            <span title={formatDateTime(lastScrape)}>{formatAgo(lastScrape, serverNow())}</span>
          )}
          {scrapeInterval !== undefined && <span class="muted"> / {scrapeInterval}</span>}
        </>
      ),
    },
    cost("seconds", "Duration", "of the last scrape", (value) => formatValue(value, "seconds")),
    cost("bytes", "Size", "of the last scrape’s body, uncompressed", (value) => formatValue(value, "bytes")),
    cost("series", "Series", "samples in the last scrape", formatCount),
  ];
}

/** In the opposite order on a second click. */
function sortRows(rows: readonly TargetRow[], { by }: Sortable, reverse: boolean): readonly TargetRow[] {
  const sorted = [...rows].sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    if (typeof x === "string" || typeof y === "string") return String(x).localeCompare(String(y), undefined, { numeric: true });
    return x - y;
  });
  return reverse ? sorted.reverse() : sorted;
}

/** `inPool`: under a heading that already names the job. */
function Row({ row, columns, inPool }: { row: TargetRow; columns: readonly Column<TargetRow>[]; inPool: boolean }) {
  const [open, setOpen] = useState(false);
  const id = useId();
  const { target } = row;
  const extra = Object.entries(target.labels).filter(([name]) => name !== "job" && name !== "instance");
  const named = inPool && row.job === target.scrapePool ? null : <span class="target-job">{row.job}</span>;
  return (
    <>
      <tr class={open ? "target-open" : undefined}>
        <td class="target-name">
          <button
            type="button"
            class="expander"
            aria-expanded={open}
            aria-controls={id}
            aria-label={`Details of ${row.job} ${row.instance}`}
            onClick={() => setOpen(!open)}
          >
            <Icon path="M6 3.500 10.500 8 6 12.500" />
          </button>
          {named}
          <span class="target-instance">{row.instance}</span>
          <TargetUrl target={target} />
          {extra.length > 0 && <LabelChips labels={Object.fromEntries(extra)} />}
          {target.lastError !== "" && <span class="target-error">{target.lastError}</span>}
        </td>
        {columns.map((column) => cellOf(column, row))}
      </tr>
      <tr class="target-more" id={id} hidden={!open}>
        <td colSpan={1 + columns.length}>{open && <Details row={row} />}</td>
      </tr>
    </>
  );
}

/** A link where a browser can follow it: sources inside the server have no address. */
function TargetUrl({ target }: { target: Target }) {
  const url = target.globalUrl ?? target.scrapeUrl;
  if (!/^https?:/.test(url)) return <span class="target-url">{target.scrapeUrl}</span>;
  return (
    <a class="target-url" href={url} target="_blank" rel="noreferrer">
      {target.scrapeUrl}
    </a>
  );
}

function Details({ row }: { row: TargetRow }) {
  const { target } = row;
  return (
    <dl class="details">
      <div>
        <dt>Labels</dt>
        <dd>
          <LabelChips labels={target.labels} />
        </dd>
      </div>
      <div>
        <dt>Before relabelling</dt>
        <dd>
          <LabelChips labels={target.discoveredLabels ?? {}} empty="this server does not tell" />
        </dd>
      </div>
      <div>
        <dt>Scrapes</dt>
        <dd>
          every {target.scrapeInterval ?? "?"}, at most {target.scrapeTimeout ?? "?"} each
          {row.lastScrape === null ? "" : `; last at ${formatDateTime(row.lastScrape)}`}
        </dd>
      </div>
    </dl>
  );
}

export interface TargetsTableProps {
  rows: readonly TargetRow[];
  limit: number;
  /** What bars are measured against; the rows themselves by default. */
  among?: readonly TargetRow[];
  inPool?: boolean;
}

export function TargetsTable({ rows, limit, among = rows, inPool = false }: TargetsTableProps) {
  const [order, setOrder] = useState<{ title: string; reverse: boolean } | null>(null);
  const columns = columnsAmong(among);
  const headings = [TARGET, ...columns];
  const chosen = headings.find(({ title }) => title === order?.title);
  const sorted = chosen === undefined ? rows : sortRows(rows, chosen, order?.reverse === true);
  return (
    <table class="table cards targets">
      <thead>
        <tr>
          {headings.map(({ title, hint, num }) => {
            const reverse = order?.title === title ? order.reverse : null;
            return (
              <th key={title} class={num === true ? "num" : undefined} aria-sort={reverse === null ? "none" : reverse ? "descending" : "ascending"}>
                <button
                  type="button"
                  class="sort"
                  title={`Sort by ${title.toLowerCase()}: ${hint}`}
                  onClick={() => setOrder({ title, reverse: reverse === false })}
                >
                  {title}
                  <span class="sort-mark" aria-hidden="true">
                    {reverse === null ? "" : reverse ? "↑" : "↓"}
                  </span>
                </button>
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>
        {sorted.slice(0, limit).map((row) => (
          <Row key={row.key} row={row} columns={columns} inPool={inPool} />
        ))}
      </tbody>
    </table>
  );
}
