// The running server: what it is, since when, and how it does.
import { buildInfo, ifTold, memoryStatus, runtimeInfo, serverNow, type MemoryShare, type MemoryStatus } from "../api";
import { InfoTable } from "../components/info_table";
import { Loaded } from "../components/loaded";
import { Page } from "../components/page";
import { Table, barColumn, type Column } from "../components/table";
import { Notice } from "../components/controls";
import { infoRows, uptime } from "../lib/info";
import { usePoll } from "../lib/poll";
import { formatAddress } from "../lib/address";
import { formatCount, formatValue } from "../lib/units";

const REFRESH_MS = 15_000;

export default function StatusView() {
  const runtime = usePoll("runtimeinfo", runtimeInfo, REFRESH_MS);
  const build = usePoll("buildinfo", buildInfo, 0);
  const memory = usePoll("memory", (signal) => ifTold(memoryStatus(signal)), REFRESH_MS);
  const up = uptime(runtime.data?.data["startTime"], serverNow());
  const head = up !== "" && (
    <p class="summary">
      up for <strong>{up}</strong>
    </p>
  );
  return (
    <Page title="Status" head={head}>
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
    </Page>
  );
}

const bytes = (value: number): string => formatValue(value, "bytes");

function Memory({ memory }: { memory: MemoryStatus }) {
  const used = [...memory.shares].sort((a, b) => b.usedBytes - a.usedBytes);
  const columns: readonly Column<MemoryShare>[] = [
    { title: "Share", cell: (share) => share.name },
    barColumn("Used", (share) => share.usedBytes, bytes, memory.limitBytes),
    { title: "Most", num: true, cell: (share) => bytes(share.peakBytes) },
    { title: "Limit", num: true, cell: (share) => (share.limitBytes === null ? "–" : bytes(share.limitBytes)) },
    { title: "Refused", num: true, cell: (share) => formatCount(share.refusedTotal) },
  ];
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
      <Table class="top-table memory-table" columns={columns} rows={used} keyOf={({ name }) => name} scrolls />
    </section>
  );
}
