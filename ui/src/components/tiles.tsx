/** What a tile shows: its title, a value, and a note below it. */
export type Tile = readonly [string, string, string];

/** Numbers side by side. */
export function Tiles({ tiles, label }: { tiles: readonly Tile[]; label?: string }) {
  return (
    <dl class="tiles" aria-label={label}>
      {tiles.map(([title, value, note]) => (
        <div key={title} class="tile">
          <dt>{title}</dt>
          <dd>{value}</dd>
          <dd class="tile-note">{note}</dd>
        </div>
      ))}
    </dl>
  );
}
