import { describe, expect, it } from "vitest";
import type { RemoteEnd } from "../api";
import { fillOf, stateOf } from "./remote_write";

const END: RemoteEnd = {
  name: "a",
  url: "http://a/",
  message: "m",
  shards: 1,
  maxShards: 50,
  pendingSamples: 0,
  sentSamples: 1,
  refusedSamples: 0,
  droppedSamples: 0,
  queueFiles: 1,
  queueBytes: 10,
  queueLimitBytes: 100,
  behindSeconds: 0,
  newestSent: "2026-01-01T00:00:00Z",
  failingSince: null,
  lastError: null,
  lastErrorTime: null,
};

describe("a remote end", () => {
  it("has a state", () => {
    expect(stateOf(END)).toBe("sending");
    expect(stateOf({ ...END, newestSent: null })).toBe("waiting");
    expect(stateOf({ ...END, behindSeconds: 60 })).toBe("behind");
    expect(stateOf({ ...END, behindSeconds: 60, failingSince: "2026-01-01T00:00:00Z" })).toBe("failing");
  });

  it("fills its queue up to the bound", () => {
    expect(fillOf(END)).toBe(0.1);
    expect(fillOf({ ...END, queueBytes: 200 })).toBe(1);
    expect(fillOf({ ...END, queueLimitBytes: 0 })).toBe(0);
  });
});
