// Label sets side by side.
import type { Labels } from "../api";

/** Labels that all series share: named once instead of in every row. */
export function commonLabels(metrics: readonly Labels[]): Record<string, string> {
  const [first, ...others] = metrics;
  if (first === undefined || others.length === 0) return {};
  return Object.fromEntries(
    Object.entries(first).filter(([name, value]) => name !== "__name__" && others.every((other) => other[name] === value)),
  );
}

/** Labels as texts to look for words in: `job=node`. */
export const texts = (labels: Labels | undefined): string[] => Object.entries(labels ?? {}).map(([name, value]) => `${name}=${value}`);

export const without = (metric: Labels, common: Labels): Labels =>
  Object.fromEntries(Object.entries(metric).filter(([name]) => !(name in common)));
