// The running server: what it is, since when, and how it does.
import { ApiError, buildInfo, memoryStatus, runtimeInfo, serverNow, type MemoryStatus } from "../api";
import { InfoTable } from "../components/info_table";
import { Loaded } from "../components/loaded";
import { Meter, Notice } from "../components/controls";
import { infoRows, uptime } from "../lib/info";
import { usePoll } from "../lib/poll";
import { formatAddress } from "../lib/address";
import { formatCount, formatValue } from "../lib/units";

const REFRESH_MS = 15_000;

export default function StatusView() {
  const runtime = usePoll("runtimeinfo", runtimeInfo, REFRESH_MS);
  const build = usePoll("buildinfo", buildInfo, 0);
  const memory = usePoll(
    "memory",
    (signal) =>
      memoryStatus(signal).then(
        ({ data }) => data,
        (error: unknown) => {
          // Other servers do not tell it.
          if (error instanceof ApiError && error.fault === "missing") return null;
          throw error;
        },
      ),
    REFRESH_MS,
  );
  const up = uptime(runtime.data?.data["startTime"], serverNow());
  return (
    <div class="view">
      <div class="view-head">
        <h1>Status</h1>
        {up !== "" && (
          <p class="summary">
            up for <strong>{up}</strong>
          </p>
        )}
      </div>
      <div class="info-grid">
        <div>
          <Loaded polled={runtime} what="what runs">
            {({ data }) => (
              <InfoTable title="Runtime" rows={infoRows(data)}>
                {data["reloadConfigSuccess"] === false && (
                  <Notice tone="warn" title="The last reload of the configuration failed">
                    <p>
                      The one before is still in use: <a href={formatAddress("/config")}>configuration</a>.
                    </p>
                  </Notice>
                )}
              </InfoTable>
            )}
          </Loaded>
        </div>
        <div>
          {/* Below the other on a phone: it waits until its place is known. */}
          {!runtime.loading && (
            <Loaded polled={build} what="its version">
              {({ data }) => <InfoTable title="Build" rows={infoRows({ ...data })} />}
            </Loaded>
          )}
        </div>
      </div>
      {memory.data !== null && <Memory memory={memory.data} />}
    </div>
  );
}

function Memory({ memory }: { memory: MemoryStatus }) {
  const bytes = (value: number) => formatValue(value, "bytes");
  const used = [...memory.shares].sort((a, b) => b.usedBytes - a.usedBytes);
  return (
    <section class="section info" aria-label="Memory">
      <h2>Memory</h2>
      {memory.pressure !== "none" && (
        <Notice tone="warn" title={`Memory is short: ${memory.pressure}`}>
          <p>What is refused comes in again once there is room.</p>
        </Notice>
      )}
      <p class="summary">
        <strong>{bytes(memory.usedBytes)}</strong> of {bytes(memory.limitBytes)} used
      </p>
      <div class="scroll-x">
        <table class="table top-table memory-table">
          <thead>
            <tr>
              <th>Share</th>
              <th class="num">Used</th>
              <th class="num most">Most</th>
              <th class="num">Limit</th>
              <th class="num">Refused</th>
            </tr>
          </thead>
          <tbody>
            {used.map((share) => (
              <tr key={share.name}>
                <td>{share.name}</td>
                <td class="num cost">
                  {bytes(share.usedBytes)}
                  <Meter share={memory.limitBytes > 0 ? share.usedBytes / memory.limitBytes : 0} />
                </td>
                <td class="num most">{bytes(share.peakBytes)}</td>
                <td class="num">{share.limitBytes === null ? "–" : bytes(share.limitBytes)}</td>
                <td class="num">{formatCount(share.refusedTotal)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
