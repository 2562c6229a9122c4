// What could be meant at the cursor of an expression. A plain look backwards; a real grammar comes with a real editor.

export type Context =
  | { kind: "name"; from: number; word: string }
  | { kind: "label"; from: number; word: string }
  | { kind: "value"; from: number; word: string; label: string };

export const FUNCTIONS = [
  "abs", "absent", "absent_over_time", "avg", "avg_over_time", "bottomk", "by", "ceil", "changes", "clamp", "clamp_max",
  "clamp_min", "count", "count_over_time", "count_values", "day_of_month", "day_of_week", "day_of_year", "days_in_month",
  "delta", "deriv", "exp", "floor", "group", "group_left", "group_right", "histogram_avg", "histogram_count",
  "histogram_fraction", "histogram_quantile", "histogram_sum", "hour", "idelta", "ignoring", "increase", "irate",
  "label_join", "label_replace", "last_over_time", "ln", "log10", "log2", "max", "max_over_time", "min", "min_over_time",
  "minute", "month", "offset", "on", "predict_linear", "present_over_time", "quantile", "quantile_over_time", "rate",
  "resets", "round", "scalar", "sgn", "sort", "sort_desc", "sqrt", "stddev", "stddev_over_time", "stdvar",
  "stdvar_over_time", "sum", "sum_over_time", "time", "timestamp", "topk", "vector", "without", "year",
] as const;

/** The context at `caret`, or null where nothing sensible can be offered (numbers, durations, operators). */
export function contextAt(text: string, caret: number): Context | null {
  const before = text.slice(0, caret);
  const value = /([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)\s*"([^"\n]*)$/.exec(before);
  if (value !== null && insideBraces(before)) {
    const word = value[2] as string;
    return { kind: "value", from: caret - word.length, word, label: value[1] as string };
  }
  if (inString(before)) return null;
  const word = /[a-zA-Z_:][a-zA-Z0-9_:]*$/.exec(before)?.[0] ?? "";
  const from = caret - word.length;
  const lead = before.slice(0, from);
  if (/[\d.]$/.test(lead) || /\[[^\]]*$/.test(lead)) return null;
  const grouping = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(\s*(?:[\w:]+\s*,\s*)*$/.test(lead);
  if (insideBraces(lead) || grouping) {
    return /[{,(]\s*$/.test(lead) ? { kind: "label", from, word } : null;
  }
  return word === "" ? null : { kind: "name", from, word };
}

/** Quotes may hold anything, also braces: they are taken out before braces are counted. */
const withoutStrings = (text: string): string => text.replace(/"(?:[^"\\]|\\.)*("|$)|'(?:[^'\\]|\\.)*('|$)/g, "''");

function insideBraces(text: string): boolean {
  const plain = withoutStrings(text);
  return plain.lastIndexOf("{") > plain.lastIndexOf("}");
}

function inString(text: string): boolean {
  return /"[^"]*$|'[^']*$/.test(text.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, ""));
}

/** The best `limit` candidates: those that begin with the word, then those that contain it; each in the given order. */
export function rank(candidates: readonly string[], word: string, limit: number): string[] {
  const lower = word.toLowerCase();
  const begin: string[] = [];
  const contain: string[] = [];
  for (const candidate of candidates) {
    const text = candidate.toLowerCase();
    if (text.startsWith(lower)) begin.push(candidate);
    else if (text.includes(lower)) contain.push(candidate);
  }
  const ranked = [...begin, ...contain].slice(0, limit);
  return ranked.length === 1 && ranked[0] === word ? [] : ranked;
}
