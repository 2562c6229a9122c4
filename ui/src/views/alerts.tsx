// All alerts, rule by rule: what fires, since when, and where it is sent.
import type { ComponentChildren } from "preact";
import { alertmanagers, parseNumber, queryRange, rules, serverNow, type Alert, type Labels } from "../api";
import { Choice, Notice } from "../components/controls";
import { Health } from "../components/health";
import { LabelChips } from "../components/labels";
import { Loaded } from "../components/loaded";
import { Filter, Fold, More, Page } from "../components/page";
import { Expression } from "../components/rules";
import { Table, type Column } from "../components/table";
import { collapsed } from "../lib/collapsed";
import { commonLabels, without } from "../lib/labels";
import { usePoll } from "../lib/poll";
import { adjust, route } from "../lib/router";
import { STATES, countStates, filterAlerts, linked, rulesOfAlerts, type AlertRow, type RuleOfAlerts, type ShownState } from "../lib/rules";
import { useStore } from "../lib/store";
import { SPAN_S, STEP_S, alertKey, histories, historyQuery, type Past, type Stretch } from "../lib/timeline";
import { formatAgo, formatDateTime, formatDuration } from "../lib/time";
import { formatCount, formatValue } from "../lib/units";

const PAGE = 50;
const MANAGERS_MS = 15_000;
const HISTORY_MS = 60_000;
/** Most alerts shown that are over. */
const PAST = 10;
const STATE_NAMES: Readonly<Record<ShownState, string>> = { firing: "Firing", pending: "Pending", inactive: "Inactive" };

export default function AlertsView() {
  const polled = usePoll("alerts", async (signal) => rulesOfAlerts((await rules(signal, "alert")).data.groups));
  const none = <>No alerting rules. Name files with rules under <code>rule_files</code> in the configuration.</>;
  return (
    <Page title="Alerts" head={polled.data !== null && <Summary found={polled.data} />}>
      <Loaded polled={polled} what="the alerts" none={none}>
        {(found) => <Alerts found={found} />}
      </Loaded>
    </Page>
  );
}

function Summary({ found }: { found: readonly RuleOfAlerts[] }) {
  const { firing, pending } = countStates(found);
  const { data } = usePoll("alertmanagers", alertmanagers, MANAGERS_MS);
  const managers = data?.data.activeAlertmanagers?.length ?? null;
  return (
    <p class="summary">
      <strong class={firing > 0 ? "failed" : undefined}>{formatCount(firing)}</strong> firing, <strong>{formatCount(pending)}</strong> pending
      {managers !== null && managers > 0 && ` · sent to ${formatCount(managers)} ${managers === 1 ? "Alertmanager" : "Alertmanagers"}`}
      {managers === 0 && firing > 0 && <span class="dropped"> · sent nowhere: the configuration names no Alertmanager, or none was found</span>}
    </p>
  );
}

function Alerts({ found }: { found: readonly RuleOfAlerts[] }) {
  const { params } = useStore(route);
  const state = STATES.find((one) => one === params["state"]) ?? null;
  const limit = Number(params["limit"] ?? PAGE) || PAGE;
  const counts = countStates(found);
  const kept = filterAlerts(found, state, params["search"] ?? "");
  const active = kept.filter(({ rows }) => rows.length > 0);
  const inactive = kept.filter(({ rows }) => rows.length === 0);
  return (
    <>
      <div class="toolbar">
        <Filter label="Filter alerts" placeholder="Filter by name, label, annotation or expression" />
        <Choice
          label="State"
          options={[["all", "All"] as const, ...STATES.map((one) => [one, `${STATE_NAMES[one]} ${formatCount(counts[one])}`] as const)]}
          value={state ?? "all"}
          onChange={(value) => adjust({ state: value === "all" ? undefined : value, limit: undefined })}
        />
      </div>
      {kept.length === 0 && <p class="awaiting">No alert matches the filter.</p>}
      {active.slice(0, limit).map((one) => (
        <RuleSection key={one.key} of={one} limit={limit} />
      ))}
      <More shown={limit} all={active.length} />
      {inactive.length > 0 && <Inactive rules={inactive} limit={limit} />}
    </>
  );
}

/** Labels that every alert of a rule has, and that its heading tells. */
const ALERTNAME = { alertname: "" };

function RuleSection({ of: { key, rule, group, rows }, limit }: { of: RuleOfAlerts; limit: number }) {
  const closed = useStore(collapsed);
  // Folded here is not folded on another page.
  const name = `alert ${key}`;
  const shared = without(commonLabels(rows.map(({ alert }) => alert.labels)), ALERTNAME);
  const told = { ...shared, ...ALERTNAME };
  const count = (wanted: string): number => rows.filter(({ alert }) => alert.state === wanted).length;
  const counts = (["firing", "pending"] as const).filter((one) => count(one) > 0);
  const head = (
    <>
      {counts.map((one) => (
        <Health key={one} state={one} text={`${formatCount(count(one))} ${one}`} />
      ))}
      <span class="pool-cost muted">
        {rule.duration > 0 && `for ${formatDuration(rule.duration)} · `}
        {(rule.keepFiringFor ?? 0) > 0 && `kept ${formatDuration(rule.keepFiringFor ?? 0)} · `}
        {group.name}
      </span>
    </>
  );
  return (
    <Fold name={name} title={rule.name} head={head}>
      <div class="rule-about">
        <Expression rule={rule} />
        {Object.keys(shared).length > 0 && (
          <p>
            <span class="muted">all:</span> <LabelChips labels={shared} />
          </p>
        )}
      </div>
      {!closed.has(name) && <AlertTable rule={rule.name} rows={rows} limit={limit} told={told} />}
      <More shown={limit} all={rows.length} />
    </Fold>
  );
}

interface History {
  /** Unix seconds. */
  end: number;
  of: Map<string, Past>;
}

/** An alert, or one of the last day that is over. */
interface Line {
  key: string;
  labels: Labels;
  row: AlertRow | null;
  /** Null until it is known. */
  day: Day | null;
}

const LINES: readonly Column<Line>[] = [
  {
    title: "Alert",
    untitled: true,
    class: "alert-texts",
    cell: ({ labels, row }) => (
      <>
        {(row === null || Object.keys(labels).length > 0) && <LabelChips labels={labels} />}
        {row !== null && <Annotations texts={row.alert.annotations} />}
      </>
    ),
  },
  { title: "State", cell: ({ row }) => (row === null ? <span class="muted">over</span> : <State alert={row.alert} />) },
  { title: "Last day", cell: ({ day }) => (day === null ? <span class="muted">–</span> : <Timeline day={day} />) },
  {
    title: "Since",
    num: true,
    cell: ({ row }) =>
      row === null ? <span class="muted">–</span> : <span title={formatDateTime(row.since)}>{formatAgo(row.since, serverNow())}</span>,
  },
  { title: "Value", num: true, cell: ({ row }) => (row === null ? <span class="muted">–</span> : <Value text={row.alert.value} />) },
];

function AlertTable({ rule, rows, limit, told }: { rule: string; rows: readonly AlertRow[]; limit: number; told: Labels }) {
  const history = usePoll(
    `history ${rule}`,
    async (signal): Promise<History> => {
      // Whole steps: the same question again has the same answer.
      const end = Math.floor(serverNow() / STEP_S) * STEP_S;
      const { data } = await queryRange(historyQuery(rule), end - SPAN_S, end, STEP_S, signal);
      return { end, of: histories(data.resultType === "matrix" ? data.result : []) };
    },
    HISTORY_MS,
  ).data;
  const day = (stretches: readonly Stretch[]): Day | null => history && { end: history.end, stretches };
  const alerts = rows.slice(0, limit).map((row): Line => {
    const { labels } = row.alert;
    return { key: row.key, labels: without(labels, told), row, day: day(history?.of.get(alertKey(labels))?.stretches ?? []) };
  });
  const active = new Set(rows.map(({ alert }) => alertKey(alert.labels)));
  const over = [...(history?.of ?? [])].filter(([key]) => !active.has(key)).slice(0, PAST);
  const ended = over.map(([key, past]): Line => ({ key, labels: without(past.labels, told), row: null, day: day(past.stretches) }));
  return <Table class="cards alerts" columns={LINES} rows={[...alerts, ...ended]} keyOf={({ key }) => key} />;
}

interface Day {
  /** Unix seconds. */
  end: number;
  stretches: readonly Stretch[];
}

/** A day as a bar: when the alert was pending, and when it fired. */
function Timeline({ day: { end, stretches } }: { day: Day }) {
  const start = end - SPAN_S;
  const place = (time: number): number => (100 * Math.min(Math.max(time - start, 0), SPAN_S)) / SPAN_S;
  const fired = stretches.filter(({ state }) => state === "firing").reduce((sum, { from, to }) => sum + to - from, 0);
  const said = stretches.length === 0 ? "Nothing stored in the last day" : `Fired for ${formatDuration(fired)} of the last day`;
  return (
    <svg class="timeline" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label={said}>
      <title>{said}</title>
      {stretches.map(({ state, from, to }) => (
        <rect key={from} class={`timeline-${state}`} x={place(from)} y={0} width={Math.max(place(to) - place(from), 0.5)} height={10} />
      ))}
    </svg>
  );
}

function State({ alert }: { alert: Alert }) {
  const gone = alert.keepFiringSince === undefined ? null : Date.parse(alert.keepFiringSince) / 1000;
  return (
    <>
      <Health state={alert.state} />
      {gone !== null && (
        <span class="muted" title={`Its element is gone since ${formatDateTime(gone)}`}>
          {" "}
          kept
        </span>
      )}
    </>
  );
}

function Value({ text }: { text: string }) {
  const value = parseNumber(text);
  return <span title={text}>{Number.isNaN(value) && text !== "NaN" ? text : formatValue(value)}</span>;
}

/** `summary` and `description` speak for themselves; others have their names. */
function Annotations({ texts }: { texts: Labels }) {
  const plain = ["summary", "description"].filter((name) => (texts[name] ?? "") !== "");
  const others = Object.keys(texts).filter((name) => !plain.includes(name) && texts[name] !== "").sort();
  const text = (value: string): ComponentChildren =>
    linked(value).map((piece) =>
      piece.isLink ? (
        <a href={piece.text} target="_blank" rel="noreferrer">
          {piece.text}
        </a>
      ) : (
        piece.text
      ),
    );
  return (
    <>
      {plain.map((name) => (
        <p key={name} class={`alert-${name}`}>
          {text(texts[name] ?? "")}
        </p>
      ))}
      {others.map((name) => (
        <p key={name} class="alert-description">
          <span class="muted">{name}:</span> {text(texts[name] ?? "")}
        </p>
      ))}
    </>
  );
}

const INACTIVE: readonly Column<RuleOfAlerts>[] = [
  {
    title: "Rule",
    untitled: true,
    class: "rule-name",
    cell: ({ rule }) => (
      <>
        <strong>{rule.name}</strong>
        <Expression rule={rule} />
      </>
    ),
  },
  { title: "For", num: true, cell: ({ rule }) => (rule.duration > 0 ? formatDuration(rule.duration) : <span class="muted">at once</span>) },
  { title: "Group", about: ({ group }) => group.file, cell: ({ group }) => group.name },
];

/** Rules without alerts, one a line. */
function Inactive({ rules: found, limit }: { rules: readonly RuleOfAlerts[]; limit: number }) {
  const failing = found.filter(({ rule }) => rule.health === "err").length;
  return (
    <section class="section" aria-label="Inactive rules">
      <div class="view-head">
        <h2>Inactive</h2>
        <p class="summary">
          <strong>{formatCount(found.length)}</strong> {found.length === 1 ? "rule" : "rules"}
          {failing > 0 && <span class="failed">, {formatCount(failing)} failing</span>}
        </p>
      </div>
      {failing > 0 && <Notice tone="warn" title="A failing rule raises no alert" />}
      <Table class="cards rule-list" columns={INACTIVE} rows={found.slice(0, limit)} keyOf={({ key }) => key} />
      <More shown={limit} all={found.length} />
    </section>
  );
}
