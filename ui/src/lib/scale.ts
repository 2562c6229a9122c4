// Which part of the y axis a plot shows.

export type PlotMode = "lines" | "stacked" | "mirrored";

/** The range of the data widened to `values` that must be seen. */
export function reaching(min: number | null, max: number | null, values: readonly number[]): [number | null, number | null] {
  if (values.length === 0) return [min, max];
  return [Math.min(min ?? Infinity, ...values), Math.max(max ?? -Infinity, ...values)];
}

/** Room for the data: from zero when zero is near, never a flat line glued to an edge. */
export function yRange(min: number | null, max: number | null, mode: PlotMode, top?: (highest: number) => number): [number, number] {
  if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max)) return [0, top?.(0) ?? 1];
  if (top !== undefined) return [0, top(max)];
  if (mode === "mirrored") {
    const span = Math.max(max, 0) - Math.min(min, 0);
    const least = span === 0 ? 1 : span * 0.12;
    return [Math.min(min * 1.08, -least), Math.max(max * 1.08, least)];
  }
  if (min === max) {
    if (max === 0) return [0, 1];
    return max > 0 ? [0, max * 1.25] : [max * 1.25, 0];
  }
  const pad = (max - min) * 0.06;
  const low = min >= 0 && min < max * 0.6 ? 0 : min - pad;
  const high = max <= 0 && max > min * 0.6 ? 0 : max + pad;
  return [mode === "stacked" ? Math.min(0, low) : low, high];
}
