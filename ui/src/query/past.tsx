// The queries asked before, to ask them again.
import { Button } from "../components/controls";
import { Dialog } from "../components/dialog";
import { Search } from "../components/page";
import { useStore } from "../lib/store";
import { useState } from "preact/hooks";
import { forgetAll, queries } from "./history";

export function PastQueries({ onPick, onClose }: { onPick: (expr: string) => void; onClose: () => void }) {
  const all = useStore(queries);
  const [text, setText] = useState("");
  const found = all.filter((one) => one.toLowerCase().includes(text.toLowerCase()));
  return (
    <Dialog title="History" onClose={onClose}>
      <div class="toolbar">
        <Search label="Search past queries" placeholder="Search past queries" autofocus value={text} onText={setText} />
        <Button disabled={all.length === 0} onClick={forgetAll}>Clear history</Button>
      </div>
      {found.length === 0 && <p class="awaiting">{all.length === 0 ? "No queries yet in this browser." : "No past query has that."}</p>}
      <ul class="past-list">
        {found.map((expr) => (
          <li key={expr}>
            <button type="button" class="past-row" onClick={() => onPick(expr)}>
              {expr}
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
