// Ask anything: one panel or several, all of them in the page's address.
import { useMemo, useRef } from "preact/hooks";
import { Button } from "../components/controls";
import { go, route } from "../lib/router";
import { useStore } from "../lib/store";
import { queries } from "../query/history";
import { QueryPanel } from "../query/panel";
import { EMPTY_PANEL, queryLink, readPanels, writePanels, type PanelState, type Tab } from "../query/state";

export default function QueryView() {
  const { params } = useStore(route);
  const panels = useMemo(() => readPanels(params), [params]);
  // The address numbers panels by place; an identity keeps what is typed in one of them when another goes.
  const ids = useRef<number[]>([]);
  const nextId = useRef(0);
  while (ids.current.length < panels.length) ids.current.push(nextId.current++);
  ids.current.length = panels.length;
  const alone = panels.length === 1;

  const show = (next: readonly PanelState[]): void => go("/query", writePanels(next));
  const change = (at: number, part: Partial<PanelState>): void => show(panels.map((panel, i) => (i === at ? { ...panel, ...part } : panel)));
  const remove = (at: number): void => {
    ids.current.splice(at, 1);
    show(panels.filter((_, i) => i !== at));
  };
  const add = (): void => {
    const { tab, range, end } = panels.at(-1) ?? EMPTY_PANEL;
    show([...panels, { ...EMPTY_PANEL, tab, range, end }]);
  };

  return (
    <div class="view">
      <h1 class="sr-only">Query</h1>
      {panels.map((state, i) => (
        <QueryPanel
          key={ids.current[i]}
          state={state}
          number={i + 1}
          focusFirst={i === panels.length - 1 && (alone || state.expr === "")}
          onChange={(part) => change(i, part)}
          onRemove={alone ? undefined : () => remove(i)}
        />
      ))}
      {alone && panels[0]?.expr === "" && <Examples />}
      <p class="add-query">
        <Button onClick={add}>Add query</Button>
      </p>
    </div>
  );
}

const RECENT = 8;
const EXAMPLES: readonly (readonly [string, Tab, string])[] = [
  ["up", "table", "which targets answer"],
  ["sum by (job) (scrape_samples_scraped)", "table", "series per job"],
  ["scrape_duration_seconds", "graph", "how long scrapes take"],
  ['1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[1m]))', "graph", "busy share of each host’s cores"],
  ["node_memory_MemAvailable_bytes", "graph", "memory left"],
];

/** Links, so that they can also be opened beside this page. */
function Examples() {
  const recent = useStore(queries).slice(0, RECENT);
  return (
    <div class="examples">
      {recent.length > 0 && (
        <section>
          <h2>Recent</h2>
          <ul>
            {recent.map((expr) => (
              <li key={expr}>
                <a class="expr-link" href={queryLink(expr)}>
                  {expr}
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h2>To begin with</h2>
        <ul>
          {EXAMPLES.map(([expr, tab, what]) => (
            <li key={expr}>
              <a class="expr-link" href={queryLink(expr, { tab })}>
                {expr}
              </a>
              <span class="muted"> {what}</span>
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}
