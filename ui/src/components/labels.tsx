// Label sets as chips.
import type { Labels } from "../api";
import { ordered } from "../lib/discovery";

export function LabelChips({ labels, empty = "none" }: { labels: Labels; empty?: string }) {
  const pairs = ordered(labels);
  if (pairs.length === 0) return <span class="muted">{empty}</span>;
  return (
    <span class="chips">
      {pairs.map(([name, value]) => (
        <span class={name.startsWith("__") ? "chip chip-meta" : "chip"} key={name}>
          {name}=<b>{value}</b>
        </span>
      ))}
    </span>
  );
}
