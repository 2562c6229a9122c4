// The configuration in use.
import { useMemo, useState } from "preact/hooks";
import { config, runtimeInfo } from "../api";
import { Button, Notice } from "../components/controls";
import { Loaded } from "../components/loaded";
import { Page } from "../components/page";
import { usePoll } from "../lib/poll";
import { infoRows } from "../lib/info";
import { formatCount } from "../lib/units";
import { partsOf } from "../lib/yaml";

/** Above this, telling parts apart costs more than it helps. */
const COLORED_LINES = 5_000;

export default function ConfigView() {
  const polled = usePoll("config", config, 0);
  const runtime = usePoll("runtimeinfo", runtimeInfo, 0);
  const loaded = infoRows(runtime.data?.data ?? {}).find(({ key }) => key === "lastConfigTime");
  return (
    <Page title="Configuration" head={loaded !== undefined && <p class="summary">loaded {loaded.value}</p>}>
      {runtime.data?.data["reloadConfigSuccess"] === false && (
        <Notice tone="warn" title="The last reload failed">
          <p>This is the configuration from before, which is still in use.</p>
        </Notice>
      )}
      <Loaded polled={polled} what="its configuration">
        {({ data }) => <Yaml text={data.yaml} />}
      </Loaded>
    </Page>
  );
}

function Yaml({ text }: { text: string }) {
  const lines = useMemo(() => text.replace(/\n+$/, "").split("\n"), [text]);
  if (text.trim() === "") {
    return <p class="awaiting tall no-config">No configuration file: the server runs with its defaults.</p>;
  }
  return (
    <>
      <div class="toolbar">
        <p class="muted">{formatCount(lines.length)} lines</p>
        <CopyButton text={text} />
      </div>
      <pre class="yaml" tabIndex={0} aria-label="Configuration in YAML">
        {lines.length > COLORED_LINES
          ? text
          : lines.map((line, i) => (
              <span class="yaml-line" key={i}>
                {partsOf(line).map(({ kind, text: part }, j) => (
                  <span key={j} class={`yaml-${kind}`}>
                    {part}
                  </span>
                ))}
                {"\n"}
              </span>
            ))}
      </pre>
    </>
  );
}

/** Browsers keep the clipboard from pages that came over plain HTTP, except from this machine. */
function CopyButton({ text }: { text: string }) {
  const [said, setSaid] = useState("Copy");
  if (!window.isSecureContext) return null;
  return (
    <Button
      aria-live="polite"
      onClick={() =>
        void navigator.clipboard.writeText(text).then(
          () => setSaid("Copied"),
          () => setSaid("Not allowed"),
        )
      }
    >
      {said}
    </Button>
  );
}
