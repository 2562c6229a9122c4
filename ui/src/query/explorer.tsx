// All metrics with type and help, to search and to put into a query.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Choice } from "../components/controls";
import { Dialog } from "../components/dialog";
import { Search } from "../components/page";
import { knownMetadata, knownMetrics, metadataOf, type KnownMetadata } from "../lib/names";
import { formatCount } from "../lib/units";
import { find, type MetricEntry } from "./metrics";

const SHOWN = 200;
const TYPES = ["all", "counter", "gauge", "histogram", "summary"] as const;
type TypeFilter = (typeof TYPES)[number];

export function MetricsExplorer({ onPick, onClose }: { onPick: (name: string) => void; onClose: () => void }) {
  const [known, setKnown] = useState<{ names: readonly string[]; meta: KnownMetadata } | null>(null);
  const [text, setText] = useState("");
  const [type, setType] = useState<TypeFilter>("all");
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    void Promise.all([knownMetrics(), knownMetadata()]).then(([names, meta]) => setKnown({ names, meta }));
  }, []);
  const entries = useMemo(
    () => (known?.names ?? []).map((name): MetricEntry => {
      const about = metadataOf(known?.meta ?? {}, name);
      return { name, type: about?.type ?? "", help: about?.help ?? "" };
    }),
    [known],
  );
  const found = useMemo(() => find(entries, text, type === "all" ? null : type), [entries, text, type]);

  const move = (event: KeyboardEvent): void => {
    const rows = [...(list.current?.querySelectorAll<HTMLButtonElement>("button") ?? [])];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || rows.length === 0) return;
    event.preventDefault();
    const at = rows.indexOf(document.activeElement as HTMLButtonElement);
    rows[Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
  };

  return (
    <Dialog title="Metrics" onClose={onClose}>
      <div class="explorer" onKeyDown={move}>
        <div class="toolbar">
          <Search
            label="Search metrics"
            placeholder="Search names and help texts"
            autofocus
            value={text}
            onText={setText}
            onKeyDown={(event) => {
              const first = found[0];
              if (event.key === "Enter" && first !== undefined) onPick(first.name);
            }}
          />
          <Choice label="Type" options={TYPES.map((one) => [one, one] as const)} value={type} onChange={setType} />
          <p class="muted count" aria-live="polite">
            {known === null ? "Asking for the names…" : `${formatCount(found.length)} of ${formatCount(entries.length)} metrics`}
          </p>
        </div>
        <ul class="metric-list" ref={list}>
          {found.slice(0, SHOWN).map((entry) => (
            <li key={entry.name}>
              <button type="button" class="metric-row" onClick={() => onPick(entry.name)}>
                <span class="metric-name">{entry.name}</span>
                <span class="muted">{entry.type === "unknown" ? "" : entry.type}</span>
                <span class="metric-about muted">{entry.help}</span>
              </button>
            </li>
          ))}
        </ul>
        {found.length > SHOWN && <p class="more muted">The first {SHOWN} are shown; search to see others.</p>}
      </div>
    </Dialog>
  );
}
