// What other processes keep in shared memory: their segments, and a switch for each metric.
import { useState } from "preact/hooks";
import { segments, serverNow, switchSegments, type Segment } from "../api";
import { Button, Notice } from "../components/controls";
import { Loaded } from "../components/loaded";
import { Page } from "../components/page";
import { Table, type Column } from "../components/table";
import { usePoll } from "../lib/poll";
import { appsOf, type App, type AppMetric } from "../lib/segments";
import { formatCount, formatSpan, formatValue } from "../lib/units";

export default function SegmentsView() {
  const [turn, setTurn] = useState(0);
  const polled = usePoll(`segments ${turn}`, segments);
  return (
    <Page title="Segments" head={polled.data?.data.dir != null && <p class="summary">{polled.data.data.dir}</p>}>
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
    </Page>
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
  const metrics: readonly Column<AppMetric>[] = [
    { title: "Metric", cell: ({ name }) => name },
    { title: "Type", cell: ({ type }) => type },
    { title: "Series", num: true, cell: ({ series }) => formatCount(series) },
    {
      title: "Switch",
      cell: (metric) => (
        <Button
          role="switch"
          aria-checked={metric.off === 0}
          aria-label={`Count ${metric.name}`}
          disabled={!maySwitch}
          onClick={() => change(metric)}
        >
          {metric.off === 0 ? "on" : metric.off === metric.segments ? "off" : `off in ${formatCount(metric.off)}`}
        </Button>
      ),
    },
  ];
  return (
    <section class="segment-app">
      <h2>
        {app.name === "" ? "Unreadable" : app.name}{" "}
        <span class="muted">
          {formatCount(app.alive)} of {formatCount(app.segments.length)} alive
        </span>
      </h2>
      <Table class="segments" columns={SEGMENTS} rows={app.segments} keyOf={({ file }) => file} scrolls />
      {error !== null && <Notice tone="error" title={`Not switched: ${error}`} />}
      {app.metrics.length > 0 && <Table class="segment-metrics" columns={metrics} rows={app.metrics} keyOf={({ name }) => name} scrolls />}
    </section>
  );
}

const number = (value: number | undefined): string => (value === undefined ? "" : formatCount(value));
const STATE_CLASSES: Readonly<Partial<Record<Segment["state"], string>>> = { broken: "health-down", dead: "muted" };

const SEGMENTS: readonly Column<Segment>[] = [
  { title: "Worker", about: ({ file }) => file, cell: ({ worker, file }) => worker || file },
  {
    title: "State",
    class: ({ state }) => STATE_CLASSES[state],
    cell: ({ state, reason }) => (
      <>
        {state}
        {reason !== null && <span class="target-error">{reason}</span>}
      </>
    ),
  },
  { title: "Process", num: true, cell: ({ pid }) => pid ?? "" },
  {
    title: "Age",
    num: true,
    cell: ({ createdMs }) => (createdMs === undefined ? "" : formatSpan(Math.max(0, serverNow() - createdMs / 1000))),
  },
  { title: "Series", num: true, cell: ({ series }) => number(series) },
  { title: "Refused", num: true, cell: ({ refusedSeries }) => number(refusedSeries) },
  { title: "Size", num: true, cell: ({ bytes }) => (bytes === undefined ? "" : formatValue(bytes, "bytes")) },
];
