// Storage figures in a shape to show.
import { matcher, type Block } from "../api";

/** A time in milliseconds that means one: a head without samples has the extremes of 64 bits. */
export const isTime = (ms: number): boolean => Number.isFinite(ms) && Math.abs(ms) < 8.64e15;

/** The matcher of a pair that the API writes as `name=value`. */
export function pairSelector(pair: string): string {
  const at = pair.indexOf("=");
  return matcher(pair.slice(0, at), pair.slice(at + 1));
}

export interface BlockRow {
  ulid: string;
  /** Unix seconds. */
  from: number;
  seconds: number;
  level: number | null;
  series: number | null;
  samples: number | null;
}

/** Newest first. */
export function blockRows(blocks: readonly Block[]): BlockRow[] {
  return blocks
    .map((block): BlockRow => ({
      ulid: block.ulid,
      from: block.minTime / 1000,
      seconds: (block.maxTime - block.minTime) / 1000,
      level: block.compaction?.level ?? null,
      series: block.stats?.numSeries ?? null,
      samples: block.stats?.numSamples ?? null,
    }))
    .sort((a, b) => b.from - a.from || a.ulid.localeCompare(b.ulid));
}
