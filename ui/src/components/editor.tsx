// The query box: grows with its text, completes names, underlines where the server found an error.
// Invariant: Enter runs the query unless a suggestion was chosen with the arrow keys.
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { labelNames, labelValues, metadata, type Metadata } from "../api";
import { FUNCTIONS, contextAt, rank, type Context } from "../lib/complete";
import type { ErrorSpot } from "../lib/parse_error";

const SUGGESTIONS = 10;
const NAMES_MAX_AGE_MS = 60_000;

let names: { at: number; all: Promise<readonly string[]>; labels: Promise<readonly string[]> } | null = null;
let help: Promise<Readonly<Record<string, readonly Metadata[]>>> | null = null;

function known(): NonNullable<typeof names> {
  if (names === null || Date.now() - names.at > NAMES_MAX_AGE_MS) {
    const list = (promise: Promise<{ data: readonly string[] }>): Promise<readonly string[]> =>
      promise.then(({ data }) => data).catch(() => []);
    names = { at: Date.now(), all: list(labelValues("__name__")), labels: list(labelNames()) };
  }
  return names;
}

/** Type and help text of each metric, asked once; empty when the server has none. */
export function knownMetadata(): Promise<Readonly<Record<string, readonly Metadata[]>>> {
  help ??= metadata()
    .then(({ data }) => data)
    .catch(() => {
      help = null;
      return {};
    });
  return help;
}

async function candidatesFor(context: Context): Promise<readonly string[]> {
  switch (context.kind) {
    case "name":
      return [...(await known().all), ...FUNCTIONS];
    case "label":
      return known().labels;
    case "value":
      return labelValues(context.label)
        .then(({ data }) => data)
        .catch(() => []);
  }
}

export interface EditorProps {
  value: string;
  spot: ErrorSpot | null;
  onInput: (value: string) => void;
  onRun: () => void;
}

interface Menu {
  context: Context;
  items: readonly { text: string; detail: string }[];
  chosen: number;
}

export function QueryEditor({ value, spot, onInput, onRun }: EditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const [menu, setMenu] = useState<Menu | null>(null);
  const asked = useRef(0);
  const id = useId();

  useLayoutEffect(() => {
    const element = area.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [value]);

  useEffect(() => {
    // On a phone the keyboard would cover the page.
    if (matchMedia("(min-width: 700px)").matches) area.current?.focus();
  }, []);

  const suggest = async (text: string, caret: number): Promise<void> => {
    const turn = ++asked.current;
    const context = contextAt(text, caret);
    if (context === null) return setMenu(null);
    const [candidates, meta] = await Promise.all([candidatesFor(context), knownMetadata()]);
    if (turn !== asked.current) return;
    const items = rank(candidates, context.word, SUGGESTIONS).map((item) => {
      const about = context.kind === "name" ? meta[item]?.[0] : undefined;
      const builtin = context.kind === "name" && (FUNCTIONS as readonly string[]).includes(item);
      return { text: item, detail: about === undefined ? (builtin ? "function" : "") : `${about.type} · ${about.help}` };
    });
    setMenu(items.length === 0 ? null : { context, items, chosen: -1 });
  };

  const accept = (item: string): void => {
    const element = area.current;
    if (menu === null || element === null) return;
    const { from, word } = menu.context;
    const text = value.slice(0, from) + item + value.slice(from + word.length);
    asked.current++;
    setMenu(null);
    onInput(text);
    requestAnimationFrame(() => {
      element.focus();
      element.setSelectionRange(from + item.length, from + item.length);
    });
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    const chosen = menu?.items[menu.chosen];
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      asked.current++;
      if (chosen !== undefined) return accept(chosen.text);
      setMenu(null);
      onRun();
    } else if (menu !== null && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const count = menu.items.length;
      const step = event.key === "ArrowDown" ? 1 : -1;
      setMenu({ ...menu, chosen: menu.chosen < 0 && step < 0 ? count - 1 : (menu.chosen + step + count) % count });
    } else if (menu !== null && event.key === "Tab" && !event.shiftKey) {
      event.preventDefault();
      accept((chosen ?? (menu.items[0] as Menu["items"][number])).text);
    } else if (event.key === "Escape") {
      asked.current++;
      setMenu(null);
    }
  };

  return (
    <div class="editor">
      <pre class="editor-shadow" aria-hidden="true">
        {spot === null ? value : (
          <>
            {value.slice(0, spot.start)}
            <mark class="squiggle">{value.slice(spot.start, spot.end) || " "}</mark>
            {value.slice(spot.end)}
          </>
        )}
        {"\n"}
      </pre>
      <textarea
        ref={area}
        class="editor-text"
        rows={1}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        aria-label="PromQL expression; Enter runs it, Shift and Enter starts a new line"
        aria-autocomplete="list"
        aria-controls={menu === null ? undefined : `${id}-menu`}
        aria-activedescendant={menu !== null && menu.chosen >= 0 ? `${id}-${menu.chosen}` : undefined}
        aria-invalid={spot !== null}
        placeholder="PromQL expression"
        value={value}
        onInput={(event) => {
          const { value: text, selectionStart } = event.currentTarget;
          onInput(text);
          void suggest(text, selectionStart);
        }}
        onKeyDown={onKeyDown}
        onBlur={() => {
          asked.current++;
          setMenu(null);
        }}
      />
      {menu !== null && (
        <ul class="suggestions" id={`${id}-menu`} role="listbox" aria-label="Suggestions">
          {menu.items.map((item, i) => (
            <li
              key={item.text}
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === menu.chosen}
              // Before blur closes the list.
              onMouseDown={(event) => {
                event.preventDefault();
                accept(item.text);
              }}
            >
              <span class="suggestion-text">{item.text}</span>
              <span class="suggestion-detail">{item.detail}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
