// Turns numbers into text with units. Invariant: a value and its unit never break apart (no-break spaces inside).

/** What a number measures; `ratio` is 0..1 and shown as percent. */
export type Unit = "number" | "bytes" | "bytes/s" | "ratio" | "seconds" | "per second";

export const UNITS: readonly Unit[] = ["number", "bytes", "bytes/s", "ratio", "seconds", "per second"];

const NBSP = "\u00a0";
const MINUS = "\u2212";

interface Step {
  factor: number;
  name: string;
}

const steps = (factors: Readonly<Record<string, number>>): readonly Step[] => Object.entries(factors).map(([name, factor]) => ({ name, factor }));

const IEC: readonly Step[] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].map((name, i) => ({ factor: 1024 ** i, name }));
const SI = steps({ "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 });
const SECONDS = steps({ ns: 1e-9, µs: 1e-6, ms: 1e-3, s: 1 });
const LONG_SECONDS = steps({ min: 60, h: 3600, d: 86400 });
const PERCENT = steps({ "%": 0.01 });

function stepsOf(unit: Unit): readonly Step[] {
  switch (unit) {
    case "bytes":
    case "bytes/s":
      return IEC;
    case "seconds":
      return SECONDS;
    case "ratio":
      return PERCENT;
    default:
      return SI;
  }
}

/** The largest step not above `magnitude`; the smallest one for values below all of them. */
function stepFor(magnitude: number, steps: readonly Step[]): Step {
  let best = steps[0] as Step;
  for (const step of steps) if (magnitude >= step.factor) best = step;
  return best;
}

function join(digits: string, name: string, unit: Unit): string {
  const suffix = unit === "bytes/s" || unit === "per second" ? `${name}/s` : name;
  if (suffix === "") return digits;
  return suffix === "%" ? `${digits}%` : unit === "number" ? digits + suffix : digits + NBSP + suffix;
}

function special(value: number): string | null {
  if (Number.isNaN(value)) return "NaN";
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? `${MINUS}Inf` : null;
}

const sign = (value: number): string => (value < 0 ? MINUS : "");

/** Three significant digits, never more than `maxDecimals` of them behind the point. */
function digits3(scaled: number, maxDecimals: number): string {
  const decimals = scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
  return scaled.toFixed(Math.min(decimals, maxDecimals));
}

/** A value for reading at a glance: three significant digits and its unit, `1.46 MiB`, `12.3%`, `3.20 ms`. */
export function formatValue(value: number, unit: Unit = "number"): string {
  const odd = special(value);
  if (odd !== null) return odd;
  const magnitude = Math.abs(value);
  if (magnitude === 0) return join("0", unit === "seconds" ? "s" : (stepsOf(unit)[0] as Step).name, unit);
  if (unit === "seconds" && magnitude >= 60) return sign(value) + formatSpan(magnitude);
  const steps = stepsOf(unit);
  let step = stepFor(magnitude, steps);
  // 1023.99 KiB would print as "1024 KiB": the rounded digits decide the step.
  const next = steps[steps.indexOf(step) + 1];
  if (next !== undefined && Number(digits3(magnitude / step.factor, 2)) * step.factor >= next.factor) step = next;
  const scaled = magnitude / step.factor;
  if (unit === "number" && step.factor === 1) return sign(value) + plain(magnitude);
  if (scaled < 0.005 && unit !== "seconds") return `<${join("0.01", step.name, unit)}`;
  return sign(value) + join(digits3(scaled, step.name === "B" && Number.isInteger(scaled) ? 0 : 2), step.name, unit);
}

/** Small plain numbers: integers as they are, fractions with three significant digits. */
function plain(magnitude: number): string {
  if (Number.isInteger(magnitude)) return String(magnitude);
  return magnitude >= 0.0001 ? String(Number(magnitude.toPrecision(3))) : magnitude.toExponential(1);
}

/** A span of at least a minute in its two largest parts: `4 min 10 s`, `3 d 7 h`. */
export function formatSpan(seconds: number): string {
  if (seconds < 60) return formatValue(seconds, "seconds");
  const total = Math.round(seconds);
  const parts: readonly [number, string, number, string][] = [
    [86400, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ];
  for (const [big, bigName, small, smallName] of parts) {
    if (total < big) continue;
    const rest = Math.floor((total % big) / small);
    return `${Math.floor(total / big)}${NBSP}${bigName}` + (rest > 0 ? ` ${rest}${NBSP}${smallName}` : "");
  }
  return `${total}${NBSP}s`;
}

/** Labels for the ticks of one axis: all in the same unit, with just the decimals that tell them apart. */
export function formatTicks(ticks: readonly number[], unit: Unit): string[] {
  const top = ticks.reduce((max, tick) => Math.max(max, Math.abs(tick)), 0);
  const gap = ticks.length > 1 ? Math.abs((ticks[1] as number) - (ticks[0] as number)) : top;
  const steps = unit === "seconds" && top >= 120 ? LONG_SECONDS : stepsOf(unit);
  // Bytes keep whole numbers as long as four digits do: 768 and 1024 KiB rather than 0.75 and 1 MiB.
  const fine = stepFor(gap, steps);
  const step = steps === IEC && top < 10_000 * fine.factor ? fine : stepFor(top, steps);
  const tiny = step.factor === 1 && unit === "number" && gap > 0 && gap < 1e-4;
  const decimals = decimalsFor(ticks.map((tick) => Math.abs(tick) / step.factor), gap / step.factor);
  return ticks.map((tick) => {
    if (tick === 0) return "0";
    const scaled = Math.abs(tick) / step.factor;
    return sign(tick) + join(tiny ? scaled.toExponential(1) : scaled.toFixed(decimals), step.name, unit);
  });
}

/** As many decimals as the gap's leading digit has; one more where a gap like 0.25 needs it. */
function decimalsFor(scaled: readonly number[], gap: number): number {
  if (!(gap > 0)) return 0;
  const decimals = Math.min(6, Math.max(0, -Math.floor(Math.log10(gap) + 1e-9)));
  const short = scaled.every((value) => Math.abs(Number(value.toFixed(decimals)) - value) <= value * 1e-6);
  return short ? decimals : decimals + 1;
}

/** A whole number with thin groups: `1 234 567`. */
export function formatCount(value: number): string {
  const odd = special(value);
  if (odd !== null) return odd;
  return sign(value) + String(Math.round(Math.abs(value))).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** The unit a metric's name or a query's shape promises, by the naming conventions of Prometheus. */
export function guessUnit(expr: string): Unit {
  const perSecond = /\b(i?rate|deriv)\s*\(/.test(expr);
  const names = expr.replace(/\{[^}]*\}|\[[^\]]*\]|"[^"]*"/g, " ").match(/[a-zA-Z_:][a-zA-Z0-9_:]*/g) ?? [];
  const has = (suffix: RegExp): boolean => names.some((name) => suffix.test(name));
  if (/\/(?!=)/.test(expr.replace(/\{[^}]*\}|"[^"]*"/g, " "))) return "number";
  if (/\b(count|group|absent|changes|resets|count_over_time)\s*(by|without|\()/.test(expr)) return "number";
  if (has(/_bytes(_total|_sum)?$/)) return perSecond ? "bytes/s" : "bytes";
  if (has(/_seconds(_total|_sum|_bucket)?$/)) return perSecond && !/histogram_quantile/.test(expr) ? "number" : "seconds";
  if (has(/_ratio$/)) return "ratio";
  return perSecond ? "per second" : "number";
}
