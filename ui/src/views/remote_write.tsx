// Remote write: how sending to each remote end does, and what waits for it.
import { remoteWrite, serverNow, type RemoteEnd } from "../api";
import { Meter, Notice } from "../components/controls";
import { Loaded } from "../components/loaded";
import { Page } from "../components/page";
import { Table, type Column } from "../components/table";
import { usePoll } from "../lib/poll";
import { fillOf, stateOf, type RemoteState } from "../lib/remote_write";
import { formatAgo, formatDuration } from "../lib/time";
import { formatCount, formatSpan, formatValue } from "../lib/units";

const STATE_WORDS: Readonly<Record<RemoteState, string>> = { waiting: "nothing sent yet", sending: "sending", behind: "behind", failing: "failing" };

export default function RemoteWriteView() {
  const polled = usePoll("remote write", async (signal) => (await remoteWrite(signal)).data);
  const none = <>No remote ends. Name them under <code>remote_write</code> in the configuration.</>;
  return (
    <Page title="Remote write" head={polled.data !== null && polled.data.length > 0 && <Summary ends={polled.data} />}>
      <Loaded polled={polled} what="its remote ends" none={none}>
        {(ends) => <Ends ends={ends} />}
      </Loaded>
    </Page>
  );
}

function Summary({ ends }: { ends: readonly RemoteEnd[] }) {
  const failing = ends.filter((end) => stateOf(end) === "failing").length;
  const pending = ends.reduce((sum, end) => sum + end.pendingSamples, 0);
  return (
    <p class="summary">
      {failing > 0 && (
        <>
          <strong class="failed">{formatCount(failing)}</strong> failing,{" "}
        </>
      )}
      <strong>{formatCount(pending)}</strong> samples waiting
    </p>
  );
}

function Ends({ ends }: { ends: readonly RemoteEnd[] }) {
  return (
    <>
      {ends.map((end) => end.lastError !== null && end.failingSince !== null && (
        <Notice key={end.name} tone="error" title={`${end.name} takes nothing for ${since(end.failingSince)}`}>
          <p>{end.lastError}</p>
        </Notice>
      ))}
      <Table class="remote-ends" columns={COLUMNS} rows={ends} keyOf={({ name }) => name} scrolls />
    </>
  );
}

const STATE_CLASSES: Readonly<Partial<Record<RemoteState, string>>> = { failing: "health-down", waiting: "muted", behind: "muted" };
const lost = (count: number): string | undefined => (count > 0 ? "health-down" : undefined);

const COLUMNS: readonly Column<RemoteEnd>[] = [
  {
    title: "Remote end",
    about: (end) => end.message,
    cell: (end) => (
      <>
        {end.name}
        <span class="muted remote-url">{end.url}</span>
      </>
    ),
  },
  { title: "State", class: (end) => STATE_CLASSES[stateOf(end)], cell: (end) => STATE_WORDS[stateOf(end)] },
  { title: "Behind", num: true, cell: (end) => lag(end.behindSeconds) },
  { title: "Waiting", num: true, cell: (end) => formatCount(end.pendingSamples) },
  { title: "Queue", num: true, cell: (end) => formatValue(end.queueBytes, "bytes") },
  {
    title: "Filled",
    about: (end) => `of ${formatValue(end.queueLimitBytes, "bytes")}, in ${formatCount(end.queueFiles)} files`,
    cell: (end) => <Meter share={fillOf(end)} />,
  },
  { title: "Shards", num: true, about: (end) => `at most ${formatCount(end.maxShards)}`, cell: (end) => formatCount(end.shards) },
  { title: "Sent", num: true, cell: (end) => formatCount(end.sentSamples) },
  { title: "Refused", num: true, class: (end) => lost(end.refusedSamples), cell: (end) => formatCount(end.refusedSamples) },
  { title: "Dropped", num: true, class: (end) => lost(end.droppedSamples), cell: (end) => formatCount(end.droppedSamples) },
  {
    title: "Last error",
    cell: ({ lastError, lastErrorTime }) =>
      lastError !== null && (
        <>
          {lastErrorTime !== null && <span class="muted">{formatAgo(Date.parse(lastErrorTime) / 1000, serverNow())}: </span>}
          {lastError}
        </>
      ),
  },
];

function lag(seconds: number): string {
  return seconds >= 60 ? formatSpan(seconds) : formatDuration(Math.max(0, Math.round(seconds)));
}

function since(time: string): string {
  return lag(serverNow() - Date.parse(time) / 1000);
}
