// A dialog over the page: the browser's own, so that focus, Escape and what lies behind are its business.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Button } from "./controls";

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => element.current?.showModal(), []);
  return (
    <dialog
      ref={element}
      class="dialog"
      aria-labelledby={id}
      onClose={props.onClose}
      // A click on the dialog itself, not on what it contains, is one on the backdrop.
      onClick={(event) => event.target === event.currentTarget && element.current?.close()}
    >
      <div class="dialog-box">
        <header class="dialog-head">
          <h2 id={id}>{props.title}</h2>
          <Button look="icon-button quiet" icon="M4 4l8 8M12 4l-8 8" aria-label="Close" onClick={() => element.current?.close()} />
        </header>
        {props.children}
      </div>
    </dialog>
  );
}
