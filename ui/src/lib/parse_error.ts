// Finds the place a server's parse error points at: `1:5: parse error: ...`, line and column in bytes, both from 1.

export interface ErrorSpot {
  /** Range in the expression, UTF-16 indices; `end` may be one past its end for a missing something. */
  start: number;
  end: number;
  line: number;
  column: number;
  /** What is wrong, without the position. */
  message: string;
}

/** What a server said about a place in the expression. */
export interface Remark extends ErrorSpot {
  severity: "error" | "warning" | "info";
}

/** Those of a server's texts that name a place. */
export function remarks(expr: string, texts: readonly string[], severity: Remark["severity"]): Remark[] {
  return texts.flatMap((text) => {
    const spot = locate(expr, text);
    return spot === null ? [] : [{ ...spot, severity }];
  });
}

const POSITION = /(?:^|[\s:(])(\d+):(\d+): (.*)$/s;
/** Annotations name their place behind the text: `... (1:6)`. */
const SUFFIX = /^(.*) \((\d+):(\d+)\)$/s;

/** Index in `line` of a byte offset in its UTF-8 form. */
function indexOfByte(line: string, byte: number): number {
  let bytes = 0;
  let index = 0;
  for (const char of line) {
    if (bytes >= byte) break;
    bytes += new TextEncoder().encode(char).length;
    index += char.length;
  }
  return index;
}

/** Where the token at an index ends: the server names only where it starts. */
function tokenEnd(expr: string, start: number): number {
  const token = /^(?:[a-zA-Z_:][a-zA-Z0-9_:]*|[\d.][\w.]*|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|=~|!~|!=|==|<=|>=|\S)/u.exec(expr.slice(start));
  return start + (token?.[0].length ?? 1);
}

export function locate(expr: string, text: string): ErrorSpot | null {
  const suffix = SUFFIX.exec(text);
  const match = POSITION.exec(text);
  const line = Number(suffix?.[2] ?? match?.[1] ?? 0);
  const column = Number(suffix?.[3] ?? match?.[2] ?? 0);
  const lines = expr.split("\n");
  const at = lines[line - 1];
  if (at === undefined || column < 1) return null;
  const before = lines.slice(0, line - 1).reduce((n, one) => n + one.length + 1, 0);
  const start = Math.min(before + indexOfByte(at, column - 1), expr.length);
  const end = start >= expr.length ? expr.length + 1 : tokenEnd(expr, start);
  const message = (suffix?.[1] ?? match?.[3] ?? text).replace(/^parse error: /, "");
  return { start, end, line, column, message };
}
