// Light, dark, or what the system says. Invariant: `data-theme` on <html> is set only for an explicit choice.
import { createKept, createStore } from "./store";

export type Theme = "auto" | "light" | "dark";

const system = window.matchMedia("(prefers-color-scheme: dark)");

export const theme = createKept<Theme>("narthex.theme", (text) => (text === "light" || text === "dark" ? text : "auto"), String);

/** The scheme in effect; canvases redraw when it changes. */
export const scheme = createStore<"light" | "dark">("light");

function apply(): void {
  const chosen = theme.get();
  if (chosen === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
  scheme.set(chosen === "auto" ? (system.matches ? "dark" : "light") : chosen);
}

export function startTheme(): void {
  theme.watch(apply);
  system.addEventListener("change", apply);
  apply();
}

const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);

/** A custom property's colour under the scheme in effect, `rgb(12, 107, 88)`; the property itself names those of both. */
export function cssColor(name: string): string {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
