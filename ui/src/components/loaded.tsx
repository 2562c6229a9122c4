// Data when it is there; otherwise what is awaited, or why it can't be had.
import type { ComponentChildren } from "preact";
import { ApiError } from "../api";
import type { Polled } from "../lib/poll";
import { Notice } from "./controls";

/** `none` is said of a list without rows. */
export function Loaded<T>(props: { polled: Polled<T>; what: string; none?: ComponentChildren; children: (data: T) => ComponentChildren }) {
  const { data, error } = props.polled;
  if (props.none !== undefined && Array.isArray(data) && data.length === 0) return <p class="awaiting tall">{props.none}</p>;
  if (data !== null) return <>{props.children(data)}</>;
  if (error === null) return <p class="awaiting tall">Asking for {props.what}…</p>;
  if (error instanceof ApiError && error.fault === "missing") {
    return (
      <Notice tone="info" title={`This server does not tell ${props.what}`}>
        <p>It has no endpoint for that. Everything else on this page works without it.</p>
      </Notice>
    );
  }
  return <Notice tone="error" title={`No ${props.what}: ${error instanceof Error ? error.message : String(error)}`} />;
}
