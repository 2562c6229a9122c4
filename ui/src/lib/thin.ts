// Fewer marks than there is room for, so that the lines below stay visible: of each stretch of time the highest, the lowest
// and the one in the middle, because who looks for an exemplar looks for those.

/** The marks to draw, in the order of `marks`; `stretches` divide the time from `from` to `to`. */
export function thin<T extends { time: number; value: number }>(marks: readonly T[], from: number, to: number, stretches: number): T[] {
  const groups = new Map<number, T[]>();
  for (const mark of marks) {
    const at = Math.floor(((mark.time - from) / Math.max(1e-9, to - from)) * stretches);
    const group = groups.get(at) ?? [];
    groups.set(at, group);
    group.push(mark);
  }
  const kept = new Set<T>();
  for (const group of groups.values()) {
    const sorted = [...group].sort((a, b) => a.value - b.value);
    for (const at of [0, Math.floor(sorted.length / 2), sorted.length - 1]) kept.add(sorted[at] as T);
  }
  return marks.filter((mark) => kept.has(mark));
}
