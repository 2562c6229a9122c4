// Remote write: how sending to each remote end does, and what waits for it.
import { remoteWrite, serverNow, type RemoteEnd } from "../api";
import { Meter, Notice } from "../components/controls";
import { Loaded } from "../components/loaded";
import { usePoll } from "../lib/poll";
import { fillOf, stateOf, type RemoteState } from "../lib/remote_write";
import { formatAgo, formatDuration } from "../lib/time";
import { formatCount, formatSpan, formatValue } from "../lib/units";

const STATE_WORDS: Readonly<Record<RemoteState, string>> = { waiting: "nothing sent yet", sending: "sending", behind: "behind", failing: "failing" };

export default function RemoteWriteView() {
  const polled = usePoll("remote write", remoteWrite);
  return (
    <div class="view">
      <div class="view-head">
        <h1>Remote write</h1>
        {polled.data !== null && polled.data.data.length > 0 && <Summary ends={polled.data.data} />}
      </div>
      <Loaded polled={polled} what="its remote ends">
        {({ data }) =>
          data.length === 0 ? (
            <p class="awaiting tall">
              No remote ends. Name them under <code>remote_write</code> in the configuration.
            </p>
          ) : (
            <Ends ends={data} />
          )
        }
      </Loaded>
    </div>
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
      <div class="scrolling">
        <table class="table remote-ends">
          <thead>
            <tr>
              <th>Remote end</th>
              <th>State</th>
              <th class="num">Behind</th>
              <th class="num">Waiting</th>
              <th class="num">Queue</th>
              <th>Filled</th>
              <th class="num">Shards</th>
              <th class="num">Sent</th>
              <th class="num">Refused</th>
              <th class="num">Dropped</th>
              <th>Last error</th>
            </tr>
          </thead>
          <tbody>
            {ends.map((end) => (
              <End key={end.name} end={end} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function End({ end }: { end: RemoteEnd }) {
  const state = stateOf(end);
  return (
    <tr>
      <td title={end.message}>
        {end.name}
        <span class="muted remote-url">{end.url}</span>
      </td>
      <td class={state === "failing" ? "health-down" : state === "sending" ? undefined : "muted"}>{STATE_WORDS[state]}</td>
      <td class="num">{lag(end.behindSeconds)}</td>
      <td class="num">{formatCount(end.pendingSamples)}</td>
      <td class="num">{formatValue(end.queueBytes, "bytes")}</td>
      <td title={`of ${formatValue(end.queueLimitBytes, "bytes")}, in ${formatCount(end.queueFiles)} files`}>
        <Meter share={fillOf(end)} />
      </td>
      <td class="num" title={`at most ${formatCount(end.maxShards)}`}>
        {formatCount(end.shards)}
      </td>
      <td class="num">{formatCount(end.sentSamples)}</td>
      <td class={end.refusedSamples > 0 ? "num health-down" : "num"}>{formatCount(end.refusedSamples)}</td>
      <td class={end.droppedSamples > 0 ? "num health-down" : "num"}>{formatCount(end.droppedSamples)}</td>
      <td>
        {end.lastError !== null && (
          <>
            {end.lastErrorTime !== null && <span class="muted">{formatAgo(Date.parse(end.lastErrorTime) / 1000, serverNow())}: </span>}
            {end.lastError}
          </>
        )}
      </td>
    </tr>
  );
}

function lag(seconds: number): string {
  return seconds >= 60 ? formatSpan(seconds) : formatDuration(Math.max(0, Math.round(seconds)));
}

function since(time: string): string {
  return lag(serverNow() - Date.parse(time) / 1000);
}
