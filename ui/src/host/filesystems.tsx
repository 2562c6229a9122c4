// A host's filesystems, fullest first.
import { vector } from "../api";
import { PLOT_HEIGHT, PanelEmpty, PanelFrame } from "../components/panel";
import { queryLink } from "../query/state";
import { usePoll } from "../lib/poll";
import { formatValue } from "../lib/units";
import { filesystems, type Filesystem } from "./derive";
import { filesystemQuery, hostKey, type Host } from "./queries";

const REFRESH_MS = 15_000;
const ALMOST_FULL = 0.9;

export function Filesystems({ host }: { host: Host }) {
  const polled = usePoll(
    `fs ${hostKey(host)}`,
    async (signal) => filesystems(await vector(filesystemQuery(host), signal)),
    REFRESH_MS,
  );
  const mounts = polled.data ?? [];
  const fullest = mounts[0];
  return (
    <PanelFrame
      title="Filesystems"
      headline={fullest === undefined ? undefined : formatValue(fullest.usedRatio, "ratio")}
      note={fullest === undefined ? undefined : `of ${fullest.mountpoint} used`}
      link={queryLink(filesystemQuery(host))}
    >
      {mounts.length === 0 ? (
        <PanelEmpty>{polled.loading ? "Loading…" : "No filesystems: node_filesystem_size_bytes has no samples."}</PanelEmpty>
      ) : (
        <ul class="mounts" style={{ maxHeight: `${PLOT_HEIGHT + 22}px` }} tabIndex={0} aria-label="Filesystems, fullest first">
          {mounts.map((mount) => (
            <Mount key={`${mount.device} ${mount.mountpoint}`} mount={mount} />
          ))}
        </ul>
      )}
    </PanelFrame>
  );
}

function Mount({ mount }: { mount: Filesystem }) {
  const noInodes = (mount.inodesUsedRatio ?? 0) >= ALMOST_FULL;
  const full = (mount.usedRatio >= ALMOST_FULL || noInodes) && !mount.readOnly;
  const percent = Math.min(100, mount.usedRatio * 100);
  return (
    <li class={full ? "mount mount-full" : "mount"}>
      <span class="mount-name">{mount.mountpoint}</span>
      <span class="mount-kind">
        {mount.device.replace(/^\/dev\//, "")} {mount.fstype}
        {mount.readOnly ? ", read-only" : ""}
        {mount.inodesUsedRatio === null ? "" : `, inodes ${formatValue(mount.inodesUsedRatio, "ratio")}`}
      </span>
      <span class="mount-size">
        {full && <b>{noInodes ? "inodes almost used up: " : "almost full: "}</b>}
        {formatValue(mount.usedBytes, "bytes")} of {formatValue(mount.sizeBytes, "bytes")}, <b>{formatValue(mount.usedRatio, "ratio")}</b>
      </span>
      <span class="meter" aria-hidden="true">
        <span style={{ width: `${percent}%` }} />
      </span>
    </li>
  );
}
