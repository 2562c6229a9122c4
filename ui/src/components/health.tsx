// Signs for how something is: a target, a rule, an alert.
import { Icon } from "./controls";

const GOOD = "M4 8.400l2.700 2.700L12 5.500";

/** Tones are those of the style sheet. */
const SIGNS: Readonly<Record<string, { tone: string; path: string }>> = {
  up: { tone: "up", path: GOOD },
  down: { tone: "down", path: "M4.500 4.500l7 7M11.500 4.500l-7 7" },
  inactive: { tone: "up", path: GOOD },
  pending: { tone: "pending", path: "M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11ZM8 5v3.300l2 1.200" },
  firing: { tone: "down", path: "M8 3.500v5.500M8 12v.1" },
};

/** The sign of a state with words, which are its name unless others are given. */
export function Health({ state, text = state }: { state: string; text?: string }) {
  const { tone, path } = SIGNS[state] ?? { tone: "unknown", path: "M5 8h6" };
  return (
    <span class={`health health-${tone}`}>
      <Icon path={path} />
      {text}
    </span>
  );
}
