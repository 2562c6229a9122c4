// What other processes keep in shared memory: their segments, and a switch for each metric.
import { useState } from "preact/hooks";
import { segments, serverNow, switchSegments, type Segment } from "../api";
import { Notice } from "../components/controls";
import { Loaded } from "../components/loaded";
import { usePoll } from "../lib/poll";
import { appsOf, type App, type AppMetric } from "../lib/segments";
import { formatCount, formatSpan, formatValue } from "../lib/units";

export default function SegmentsView() {
  const [turn, setTurn] = useState(0);
  const polled = usePoll(`segments ${turn}`, segments);
  return (
    <div class="view">
      <div class="view-head">
        <h1>Segments</h1>
        {polled.data?.data.dir != null && <p class="summary">{polled.data.data.dir}</p>}
      </div>
      <Loaded polled={polled} what="the segments">
        {({ data }) =>
          data.segments.length === 0 ? (
            <p class="awaiting tall no-segments">
              {data.dir === null ? (
                <>
                  No directory of segments is configured. With <code>segments:</code> in the configuration, processes that publish their
                  metrics in shared memory appear here.
                </>
              ) : (
                "No process has a segment here."
              )}
            </p>
          ) : (
            <>
              {appsOf(data.segments).map((app) => (
                <AppSection key={app.name} app={app} maySwitch={data.maySwitch} onSwitched={() => setTurn((before) => before + 1)} />
              ))}
              {!data.maySwitch && (
                <p class="muted">
                  Metrics can be switched here where the server runs with --web.enable-lifecycle, and everywhere with{" "}
                  <code>narthex segment switch</code>.
                </p>
              )}
            </>
          )
        }
      </Loaded>
    </div>
  );
}

interface AppProps {
  app: App;
  maySwitch: boolean;
  onSwitched: () => void;
}

function AppSection({ app, maySwitch, onSwitched }: AppProps) {
  const [error, setError] = useState<string | null>(null);
  const change = (metric: AppMetric): void => {
    switchSegments(app.name, metric.name, metric.off > 0).then(
      () => {
        setError(null);
        onSwitched();
      },
      (reason: unknown) => setError(reason instanceof Error ? reason.message : String(reason)),
    );
  };
  return (
    <section class="segment-app">
      <h2>
        {app.name === "" ? "Unreadable" : app.name}{" "}
        <span class="muted">
          {formatCount(app.alive)} of {formatCount(app.segments.length)} alive
        </span>
      </h2>
      <div class="scrolling">
        <table class="table segments">
          <thead>
            <tr>
              <th>Worker</th>
              <th>State</th>
              <th class="num">Process</th>
              <th class="num">Age</th>
              <th class="num">Series</th>
              <th class="num">Refused</th>
              <th class="num">Size</th>
            </tr>
          </thead>
          <tbody>
            {app.segments.map((segment) => (
              <SegmentRow key={segment.file} segment={segment} />
            ))}
          </tbody>
        </table>
      </div>
      {error !== null && <Notice tone="error" title={`Not switched: ${error}`} />}
      {app.metrics.length > 0 && (
        <div class="scrolling">
          <table class="table segment-metrics">
            <thead>
              <tr>
                <th>Metric</th>
                <th>Type</th>
                <th class="num">Series</th>
                <th>Switch</th>
              </tr>
            </thead>
            <tbody>
              {app.metrics.map((metric) => (
                <tr key={metric.name}>
                  <td>{metric.name}</td>
                  <td>{metric.type}</td>
                  <td class="num">{formatCount(metric.series)}</td>
                  <td>
                    <button
                      type="button"
                      class="button"
                      role="switch"
                      aria-checked={metric.off === 0}
                      aria-label={`Count ${metric.name}`}
                      disabled={!maySwitch}
                      onClick={() => change(metric)}
                    >
                      {metric.off === 0 ? "on" : metric.off === metric.segments ? "off" : `off in ${formatCount(metric.off)}`}
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function SegmentRow({ segment }: { segment: Segment }) {
  const { createdMs } = segment;
  const number = (value: number | undefined): string => (value === undefined ? "" : formatCount(value));
  return (
    <tr>
      <td title={segment.file}>{segment.worker === undefined || segment.worker === "" ? segment.file : segment.worker}</td>
      <td class={segment.state === "broken" ? "health-down" : segment.state === "dead" ? "muted" : undefined}>
        {segment.state}
        {segment.reason !== null && <span class="target-error">{segment.reason}</span>}
      </td>
      <td class="num">{segment.pid ?? ""}</td>
      <td class="num">{createdMs === undefined ? "" : formatSpan(Math.max(0, serverNow() - createdMs / 1000))}</td>
      <td class="num">{number(segment.series)}</td>
      <td class="num">{number(segment.refusedSeries)}</td>
      <td class="num">{segment.bytes === undefined ? "" : formatValue(segment.bytes, "bytes")}</td>
    </tr>
  );
}
