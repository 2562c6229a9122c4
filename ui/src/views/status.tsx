// The running server: what it is, since when, and how it does.
import { buildInfo, runtimeInfo, serverNow } from "../api";
import { InfoTable } from "../components/info_table";
import { Loaded } from "../components/loaded";
import { Notice } from "../components/controls";
import { infoRows, uptime } from "../lib/info";
import { usePoll } from "../lib/poll";
import { formatAddress } from "../lib/address";

const REFRESH_MS = 15_000;

export default function StatusView() {
  const runtime = usePoll("runtimeinfo", runtimeInfo, REFRESH_MS);
  const build = usePoll("buildinfo", buildInfo, 0);
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
    </div>
  );
}
