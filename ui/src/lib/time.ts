// Durations as Prometheus writes them and clock times as people read them. Times are Unix seconds unless a name says ms.

const UNIT_SECONDS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400, w: 604800, y: 31536000 };
const ORDER = ["y", "w", "d", "h", "m", "s", "ms"] as const;

/** Seconds of a duration such as `1h30m`, `15s`, `500ms`, or of a bare number of seconds; null when it is neither or zero. */
export function parseDuration(text: string): number | null {
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Number(trimmed) > 0 ? Number(trimmed) : null;
  let rest = trimmed;
  let total = 0;
  let from = 0;
  while (rest !== "") {
    const match = /^(\d+)(ms|[ywdhms])/.exec(rest);
    const rank = match === null ? -1 : ORDER.indexOf(match[2] as (typeof ORDER)[number]);
    // Units come largest first and once each, as the server's own parser wants them.
    if (match === null || rank < from) return null;
    total += Number(match[1]) * (UNIT_SECONDS[match[2] as string] as number);
    from = rank + 1;
    rest = rest.slice(match[0].length);
  }
  return total > 0 ? total : null;
}

/** The shortest exact duration: 5400 is `1h30m`. Years and weeks are used only when nothing is left over. */
export function formatDuration(seconds: number): string {
  let rest = Math.round(seconds * 1000);
  if (rest <= 0) return "0s";
  let text = "";
  for (const unit of ORDER) {
    const size = (UNIT_SECONDS[unit] as number) * 1000;
    if ((unit === "y" || unit === "w") && rest % size !== 0) continue;
    const count = Math.floor(rest / size);
    if (count > 0) text += `${count}${unit}`;
    rest -= count * size;
  }
  return text;
}

const NICE_STEPS = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

/** The smallest round step that covers `rangeSeconds` with at most `points` points. */
export function niceStep(rangeSeconds: number, points: number): number {
  const wanted = rangeSeconds / Math.max(points, 1);
  return NICE_STEPS.find((step) => step >= wanted) ?? Math.ceil(wanted / 604800) * 604800;
}

/** Steps up (+1) or down (-1) through the usual ranges from any range. */
export const RANGES = [60, 300, 900, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000] as const;
export function nextRange(seconds: number, direction: 1 | -1): number {
  if (direction > 0) return RANGES.find((range) => range > seconds) ?? seconds * 2;
  return [...RANGES].reverse().find((range) => range < seconds) ?? seconds;
}

const two = (value: number): string => String(value).padStart(2, "0");

/** `14:03:05` in the browser's time zone. */
export function formatClock(seconds: number): string {
  const date = new Date(seconds * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** `2026-11-20` in the browser's time zone. */
export function formatDay(seconds: number): string {
  const date = new Date(seconds * 1000);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** `2026-11-20 14:03:05`. */
export function formatDateTime(seconds: number): string {
  return `${formatDay(seconds)} ${formatClock(seconds)}`;
}

/** Labels of a time axis: seconds only when ticks are that close, the day where it changes. */
export function formatTimeTicks(ticks: readonly number[], gap: number): string[] {
  let lastDay = "";
  return ticks.map((tick, i) => {
    const day = formatDay(tick).slice(5);
    const clock = gap < 60 ? formatClock(tick) : formatClock(tick).slice(0, 5);
    const changed = i > 0 && day !== lastDay;
    lastDay = day;
    if (gap >= 86400) return day;
    return changed ? day : clock;
  });
}

/** How long ago `then` was, coarse: `3 s ago`. */
export function formatAgo(then: number, current: number): string {
  const seconds = Math.max(0, Math.round(current - then));
  if (seconds < 60) return `${seconds}\u00a0s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}\u00a0min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}\u00a0h ago`;
  return `${Math.floor(seconds / 86400)}\u00a0d ago`;
}

/** Value of a `datetime-local` input for a time, and back (null when incomplete). */
export function toInputTime(seconds: number): string {
  return `${formatDay(seconds)}T${formatClock(seconds)}`;
}
export function fromInputTime(text: string): number | null {
  const ms = new Date(text).getTime();
  return Number.isNaN(ms) ? null : ms / 1000;
}
