// What the server knows by name: metrics, labels, their values, and what metrics mean. Each list is asked once and kept for
// some minutes; one that can't be had is empty, because completion and help are a bonus.
import { labelNames, labelValues, metadata, type Metadata } from "../api";

const MAX_AGE_MS = 5 * 60_000;
/** A list for each selector somebody typed: the oldest go first. */
const MAX_LISTS = 200;

const lists = new Map<string, { at: number; promise: Promise<readonly string[]> }>();

function remembered(key: string, ask: () => Promise<{ data: readonly string[] }>): Promise<readonly string[]> {
  const found = lists.get(key);
  if (found !== undefined && Date.now() - found.at < MAX_AGE_MS) return found.promise;
  const promise = ask().then(
    ({ data }) => data,
    () => {
      lists.delete(key);
      return [];
    },
  );
  lists.delete(key);
  lists.set(key, { at: Date.now(), promise });
  const oldest = lists.keys().next();
  if (lists.size > MAX_LISTS && oldest.done !== true) lists.delete(oldest.value);
  return promise;
}

/** Names of labels, of all series or of those that `selector` matches. */
export const knownLabels = (selector?: string): Promise<readonly string[]> =>
  remembered(`names ${selector ?? ""}`, () => labelNames(undefined, selector));

/** Values of a label, of all series or of those that `selector` matches. */
export const knownValues = (label: string, selector?: string): Promise<readonly string[]> =>
  remembered(`values ${label} ${selector ?? ""}`, () => labelValues(label, undefined, selector));

export const knownMetrics = (): Promise<readonly string[]> => knownValues("__name__");

export type KnownMetadata = Readonly<Record<string, readonly Metadata[]>>;

let help: Promise<KnownMetadata> | null = null;

/** Type and help text of each metric. */
export function knownMetadata(): Promise<KnownMetadata> {
  help ??= metadata().then(
    ({ data }) => data,
    () => {
      help = null;
      return {};
    },
  );
  return help;
}

/** What a metric is; a histogram's `_bucket` is described by its family. */
export function metadataOf(all: KnownMetadata, name: string): Metadata | null {
  return all[name]?.[0] ?? all[name.replace(/_(?:bucket|count|sum|total)$/, "")]?.[0] ?? null;
}
