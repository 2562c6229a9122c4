// How far a starting server is with its log.
import type { WalReplay } from "../api";

/** The file being read, counted from 1, and how many there are; null where there is no log. */
export function replayed({ min, max, current }: WalReplay): { read: number; files: number } | null {
  if (max === 0 || max < min) return null;
  const files = max - min + 1;
  return { read: Math.min(Math.max(current - min + 1, 1), files), files };
}
