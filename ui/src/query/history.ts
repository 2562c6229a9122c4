// The queries this browser asked before, newest first.
import { createStore } from "../lib/store";

const KEY = "narthex.queries";
const LENGTH = 100;

function stored(): readonly string[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(value) ? value.filter((one) => typeof one === "string").slice(0, LENGTH) : [];
  } catch {
    return [];
  }
}

export const queries = createStore<readonly string[]>(stored());

function keep(all: readonly string[]): void {
  queries.set(all);
  try {
    localStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    // Without storage the history lasts as long as the page; nothing else depends on it.
  }
}

export const remember = (expr: string): void => keep([expr, ...queries.get().filter((one) => one !== expr)].slice(0, LENGTH));
export const forgetAll = (): void => keep([]);
