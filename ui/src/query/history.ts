// The queries this browser asked before, newest first.
import { createKept } from "../lib/store";

const LENGTH = 100;

function read(text: string | null): readonly string[] {
  try {
    const value: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(value) ? value.filter((one) => typeof one === "string").slice(0, LENGTH) : [];
  } catch {
    return [];
  }
}

export const queries = createKept("narthex.queries", read, JSON.stringify);

export const remember = (expr: string): void => queries.set([expr, ...queries.get().filter((one) => one !== expr)].slice(0, LENGTH));
export const forgetAll = (): void => queries.set([]);
