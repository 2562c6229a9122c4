// How a remote end does, in words.
import type { RemoteEnd } from "../api";

export type RemoteState = "waiting" | "sending" | "behind" | "failing";

/** Seconds behind from which a remote end counts as behind: four scrapes of the default interval. */
const BEHIND_SECONDS = 60;

export function stateOf(end: RemoteEnd): RemoteState {
  if (end.failingSince !== null) return "failing";
  if (end.newestSent === null) return "waiting";
  return end.behindSeconds >= BEHIND_SECONDS ? "behind" : "sending";
}

/** The part of the queue's bound that is in use, between 0 and 1. */
export function fillOf({ queueBytes, queueLimitBytes }: RemoteEnd): number {
  return queueLimitBytes > 0 ? Math.min(1, queueBytes / queueLimitBytes) : 0;
}
