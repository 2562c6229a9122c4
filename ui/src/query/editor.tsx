// The query box. A plain field from the first moment; the real editor takes its place when it has arrived.
// Invariant: what was typed, and the focus, survive the change.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Remark } from "../lib/parse_error";
import type { EditorHandle } from "./codemirror";
import { queries } from "./history";

const LABEL = "PromQL expression; Enter runs it, Shift and Enter starts a new line";

export interface EditorProps {
  /** What is in the box, for the plain field. */
  value: string;
  /** Text that comes from elsewhere than the box; a new object each time. What is being typed never comes back this way:
   * it would arrive when more has been typed. */
  put: { readonly text: string };
  /** What the server said about this very text. */
  remarks: readonly Remark[];
  focusFirst: boolean;
  handle: { current: EditorHandle | null };
  onInput: (value: string) => void;
  onRun: (value: string) => void;
  onProblem: (message: string | null) => void;
}

export function QueryEditor(props: EditorProps) {
  const { value, remarks, handle } = props;
  const place = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const [ready, setReady] = useState(false);

  useEffect(() => {
    // On a phone the keyboard would cover the page.
    if (props.focusFirst && matchMedia("(min-width: 700px)").matches) field.current?.focus({ preventScroll: true });
    let gone = false;
    import("./codemirror").then(
      ({ mountEditor }) => {
        if (gone || place.current === null) return;
        const focused = document.activeElement === field.current;
        handle.current = mountEditor(place.current, {
          text: latest.current.value,
          label: LABEL,
          onInput: (text) => latest.current.onInput(text),
          onRun: (text) => latest.current.onRun(text),
          onProblem: (message) => latest.current.onProblem(message),
          history: () => queries.get(),
        });
        handle.current.setRemarks(latest.current.remarks);
        setReady(true);
        if (focused) handle.current.focus();
      },
      // Without the editor the plain field still asks.
      (error: unknown) => console.warn("The editor could not be loaded:", error),
    );
    return () => {
      gone = true;
      handle.current?.destroy();
      handle.current = null;
    };
  }, []);

  useEffect(() => handle.current?.setText(props.put.text), [props.put]);
  useEffect(() => handle.current?.setRemarks(remarks), [JSON.stringify(remarks)]);

  return (
    <div class="editor" ref={place}>
      {!ready && (
        <textarea
          ref={field}
          class="editor-plain"
          rows={Math.min(12, value.split("\n").length)}
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
          aria-label={LABEL}
          placeholder="PromQL expression"
          value={value}
          onInput={(event) => props.onInput(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey) return;
            event.preventDefault();
            props.onRun(event.currentTarget.value);
          }}
        />
      )}
    </div>
  );
}
