// A table from a list of columns, each with its title and how it shows a row.
import type { ComponentChildren } from "preact";
import { Meter } from "./controls";

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers stand at the right, their title too. */
  num?: boolean;
  /** Of the cells. */
  class?: string | ((row: T) => string | undefined);
  /** What the title means, and what stands behind a cell: shown at the mouse. */
  hint?: string;
  about?: (row: T) => string;
  /** Needs no title where rows are cards. */
  untitled?: boolean;
}

/** `scrolls` keeps a wide table within the page; `bare` shows no titles. */
export function Table<T>(props: {
  class?: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T, at: number) => string;
  foot?: ComponentChildren;
  scrolls?: boolean;
  bare?: boolean;
}) {
  const { columns, rows, keyOf } = props;
  const table = (
    <table class={`table ${props.class ?? ""}`.trim()}>
      {props.bare !== true && (
        <thead>
          <tr>
            {columns.map(({ title, hint, num }) => (
              <th key={title} class={num === true ? "num" : undefined} title={hint}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
      )}
      <tbody>
        {rows.map((row, at) => (
          <tr key={keyOf(row, at)}>{columns.map((column) => cellOf(column, row))}</tr>
        ))}
      </tbody>
      {props.foot}
    </table>
  );
  return props.scrolls === true ? <div class="scroll-x">{table}</div> : table;
}

export function cellOf<T>({ title, cell, num, class: own, about, untitled }: Column<T>, row: T) {
  const classes = [num === true ? "num" : "", (typeof own === "function" ? own(row) : own) ?? ""].join(" ").trim();
  return (
    <td key={title} class={classes || undefined} title={about?.(row)} data-title={untitled === true ? undefined : title}>
      {cell(row)}
    </td>
  );
}

/** A column of numbers, each with a bar for its share of `most`. */
export function barColumn<T>(
  title: string,
  value: (row: T) => number | null,
  text: (value: number) => string,
  most: number,
  hint?: string,
): Column<T> {
  const cell = (row: T): ComponentChildren => {
    const shown = value(row);
    if (shown === null) return <span class="muted">–</span>;
    return (
      <>
        {text(shown)}
        <Meter share={most > 0 ? shown / most : 0} />
      </>
    );
  };
  return { title, num: true, class: "cost", cell, ...(hint === undefined ? {} : { hint }) };
}
