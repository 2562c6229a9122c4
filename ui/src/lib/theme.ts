// Light, dark, or what the system says. Invariant: `data-theme` on <html> is set only for an explicit choice.
import { createStore } from "./store";

export type Theme = "auto" | "light" | "dark";

const KEY = "narthex.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "auto";
  } catch {
    return "auto";
  }
}

export const theme = createStore<Theme>(stored());

/** The scheme in effect; canvases redraw when it changes. */
export const scheme = createStore<"light" | "dark">("light");

function apply(): void {
  const chosen = theme.get();
  if (chosen === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
  scheme.set(chosen === "auto" ? (system.matches ? "dark" : "light") : chosen);
}

export function startTheme(): void {
  theme.watch(() => {
    try {
      localStorage.setItem(KEY, theme.get());
    } catch {
      // Private windows may refuse storage: the choice then lasts as long as the page.
    }
    apply();
  });
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
