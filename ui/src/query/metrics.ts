// Searching metrics by name, type and help.

export interface MetricEntry {
  name: string;
  type: string;
  help: string;
}

/** Entries that contain every word, those with all of them in the name first; otherwise in the given order. */
export function find(entries: readonly MetricEntry[], text: string, type: string | null): MetricEntry[] {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const named: MetricEntry[] = [];
  const described: MetricEntry[] = [];
  for (const entry of entries) {
    if (type !== null && entry.type !== type) continue;
    const name = entry.name.toLowerCase();
    const help = entry.help.toLowerCase();
    if (words.every((word) => name.includes(word))) named.push(entry);
    else if (words.every((word) => name.includes(word) || help.includes(word))) described.push(entry);
  }
  return [...named, ...described];
}
