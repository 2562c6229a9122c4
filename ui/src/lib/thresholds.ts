// Thresholds of a graph, in an address and in a field as text: `> 0.5, < 10`.
// Invariant: what is printed reads back as it was.

const COMPARISONS = ["==", "!=", ">=", "<=", ">", "<"] as const;
export type Comparison = (typeof COMPARISONS)[number];

export interface Threshold {
  op: Comparison;
  value: number;
}

/** The thresholds of a text, none for an empty one; null where anything in it is not one. */
export function parseThresholds(text: string): Threshold[] | null {
  if (text.trim() === "") return [];
  const found: Threshold[] = [];
  for (const part of text.split(",")) {
    const trimmed = part.trim();
    const op = COMPARISONS.find((one) => trimmed.startsWith(one));
    const digits = trimmed.slice(op?.length ?? 0).trim();
    const value = Number(digits);
    if (op === undefined || digits === "" || !Number.isFinite(value)) return null;
    found.push({ op, value });
  }
  return found;
}

export const formatThresholds = (thresholds: readonly Threshold[]): string => thresholds.map(({ op, value }) => `${op} ${value}`).join(", ");
