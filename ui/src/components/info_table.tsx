// Names and values, two columns.
import type { ComponentChildren } from "preact";
import type { InfoRow } from "../lib/info";

export function InfoTable({ title, rows, children }: { title: string; rows: readonly InfoRow[]; children?: ComponentChildren }) {
  return (
    <section class="info" aria-label={title}>
      <h2>{title}</h2>
      {children}
      <dl>
        {rows.map(({ key, title: name, value }) => (
          <div key={key}>
            <dt title={key}>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
