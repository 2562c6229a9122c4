// What the pages have in common: their frame, a filter, sections that fold, and lists that are shown in part.
import type { ComponentChildren } from "preact";
import { adjust, route } from "../lib/router";
import { collapsed, setCollapsed } from "../lib/collapsed";
import { useStore } from "../lib/store";
import { formatCount } from "../lib/units";
import { Button } from "./controls";

/** A page with its heading and what stands beside that. */
export function Page({ title, head, children }: { title: string; head?: ComponentChildren; children: ComponentChildren }) {
  return (
    <div class="view">
      <div class="view-head">
        <h1>{title}</h1>
        {head}
      </div>
      {children}
    </div>
  );
}

/** A field for words to look for. */
export function Search({ label, onText, ...rest }: {
  label: string;
  placeholder: string;
  value: string;
  onText: (text: string) => void;
  autofocus?: boolean;
  onKeyDown?: (event: KeyboardEvent) => void;
}) {
  return <input type="search" class="input grow" aria-label={label} onInput={(event) => onText(event.currentTarget.value)} {...rest} />;
}

/** A field for the words that the address has as `search`; who changes them begins again at the top of the list. */
export function Filter({ label, placeholder }: { label: string; placeholder: string }) {
  const { params } = useStore(route);
  const onText = (search: string): void => adjust({ search, limit: undefined });
  return <Search label={label} placeholder={placeholder} value={params["search"] ?? ""} onText={onText} />;
}

/** Offers more of a list whose first `shown` are shown; in the address unless `show` is told how many. */
export function More({ shown, all, what = "", show }: { shown: number; all: number; what?: string; show?: (count: number) => void }) {
  if (all <= shown) return null;
  const inAddress = (count: number): void => adjust({ limit: String(count) });
  return (
    <p class="more">
      <Button onClick={() => (show ?? inAddress)(shown * 4)}>
        Show {formatCount(Math.min(shown * 3, all - shown))} more of {formatCount(all)}
        {what}
      </Button>
    </p>
  );
}

/** A section that folds up and is known by `name`; `head` stands beside its title. */
export function Fold(props: { name: string; title: string; head: ComponentChildren; children: ComponentChildren }) {
  const closed = useStore(collapsed);
  return (
    <details class="pool" open={!closed.has(props.name)} onToggle={(event) => setCollapsed([props.name], !event.currentTarget.open)}>
      <summary>
        <h2>{props.title}</h2>
        {props.head}
      </summary>
      {props.children}
    </details>
  );
}
