// The targets as a table with bars for what each scrape costs; cards on a phone.
import { useId, useState } from "preact/hooks";
import { serverNow, type Target } from "../api";
import { formatAgo, formatDateTime } from "../lib/time";
import { formatCount, formatValue } from "../lib/units";
import type { TargetRow } from "../lib/targets";
import { Icon, Meter } from "./controls";
import { Health } from "./health";
import { LabelChips } from "./labels";

type Column = "target" | "health" | "age" | "seconds" | "bytes" | "series";

const COLUMNS: readonly { id: Column; title: string; hint: string; numeric?: boolean }[] = [
  { id: "target", title: "Target", hint: "job and instance" },
  { id: "health", title: "Health", hint: "result of the last scrape" },
  { id: "age", title: "Last scrape", hint: "time since the last scrape and the interval", numeric: true },
  { id: "seconds", title: "Duration", hint: "of the last scrape", numeric: true },
  { id: "bytes", title: "Size", hint: "of the last scrape’s body, uncompressed", numeric: true },
  { id: "series", title: "Series", hint: "samples in the last scrape", numeric: true },
];

function sortValue(row: TargetRow, column: Column): number | string {
  switch (column) {
    case "target":
      return `${row.job} ${row.instance}`;
    case "health":
      return { down: 0, unknown: 1, up: 2 }[row.target.health];
    case "age":
      return -(row.lastScrape ?? 0);
    default:
      return -(row[column] ?? -1);
  }
}

/** Costs are sorted largest first, words from A to Z; the opposite on a second click. */
export function sortRows(rows: readonly TargetRow[], column: Column | null, reverse: boolean): TargetRow[] {
  if (column === null) return [...rows];
  const sorted = [...rows].sort((a, b) => {
    const [x, y] = [sortValue(a, column), sortValue(b, column)];
    if (typeof x === "string" || typeof y === "string") return String(x).localeCompare(String(y), undefined, { numeric: true });
    return x - y;
  });
  return reverse ? sorted.reverse() : sorted;
}

function Cost(props: { title: string; value: number | null; max: number; text: (value: number) => string }) {
  const { value, max } = props;
  return (
    <td class="num cost" data-title={props.title}>
      {value === null ? (
        <span class="muted">–</span>
      ) : (
        <>
          <span>{props.text(value)}</span>
          <Meter share={max > 0 ? value / max : 0} />
        </>
      )}
    </td>
  );
}

type Most = Record<"seconds" | "bytes" | "series", number>;

/** `inPool`: under a heading that already names the job. */
function Row({ row, max, inPool }: { row: TargetRow; max: Most; inPool: boolean }) {
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
        <td data-title="Health">
          <Health state={target.health} text={target.health === "unknown" ? "not scraped yet" : target.health} />
        </td>
        <td class="num" data-title="Last scrape">
          {row.lastScrape === null ? (
            <span class="muted">never</span>
          ) : (
            <span title={formatDateTime(row.lastScrape)}>{formatAgo(row.lastScrape, serverNow())}</span>
          )}
          {target.scrapeInterval !== undefined && <span class="muted"> / {target.scrapeInterval}</span>}
        </td>
        <Cost title="Duration" value={row.seconds} max={max.seconds} text={(value) => formatValue(value, "seconds")} />
        <Cost title="Size" value={row.bytes} max={max.bytes} text={(value) => formatValue(value, "bytes")} />
        <Cost title="Series" value={row.series} max={max.series} text={formatCount} />
      </tr>
      <tr class="target-more" id={id} hidden={!open}>
        <td colSpan={COLUMNS.length}>{open && <Details row={row} />}</td>
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
  const [order, setOrder] = useState<{ column: Column | null; reverse: boolean }>({ column: null, reverse: false });
  const most = (field: "seconds" | "bytes" | "series"): number => among.reduce((top, row) => Math.max(top, row[field] ?? 0), 0);
  const max = { seconds: most("seconds"), bytes: most("bytes"), series: most("series") };
  const sorted = sortRows(rows, order.column, order.reverse).slice(0, limit);
  return (
    <table class="table cards targets">
      <thead>
        <tr>
          {COLUMNS.map(({ id, title, hint, numeric }) => {
            const active = order.column === id;
            const direction = active ? (order.reverse ? "descending" : "ascending") : "none";
            return (
              <th key={id} class={numeric === true ? "num" : undefined} aria-sort={direction}>
                <button
                  type="button"
                  class="sort"
                  title={`Sort by ${title.toLowerCase()}: ${hint}`}
                  onClick={() => setOrder({ column: id, reverse: active && !order.reverse })}
                >
                  {title}
                  <span class="sort-mark" aria-hidden="true">
                    {active ? (order.reverse ? "↑" : "↓") : ""}
                  </span>
                </button>
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>
        {sorted.map((row) => (
          <Row key={row.key} row={row} max={max} inPool={inPool} />
        ))}
      </tbody>
    </table>
  );
}
