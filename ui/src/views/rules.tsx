// All rules, group by group: whether they work, and what they cost.
import { useState } from "preact/hooks";
import { parseNumber, rules, serverNow, vector, type AlertingRule, type InstantSeries, type Rule, type RuleGroup } from "../api";
import { Choice } from "../components/controls";
import { LabelChips } from "../components/labels";
import { Health } from "../components/health";
import { Loaded } from "../components/loaded";
import { Filter, Fold, More, Page } from "../components/page";
import { Expression } from "../components/rules";
import { Table, barColumn, type Column } from "../components/table";
import { usePoll } from "../lib/poll";
import { adjust, route } from "../lib/router";
import { evaluatedAt, filterRules, groupKey, isUnread, type RuleHealth } from "../lib/rules";
import { useStore } from "../lib/store";
import { formatAgo, formatDateTime, formatDuration } from "../lib/time";
import { formatCount, formatValue } from "../lib/units";

const PAGE = 50;
const SAMPLES_MS = 15_000;
/** What a group stored last; there while the server scrapes itself. */
const SAMPLES = "prometheus_rule_group_last_evaluation_samples";
const HEALTHS = ["ok", "err", "unknown", "unread"] as const;
type Shown = (typeof HEALTHS)[number];
const HEALTH_NAMES: Readonly<Record<Shown, string>> = { ok: "Working", err: "Failing", unknown: "Not evaluated", unread: "Read by nobody" };

export default function RulesView() {
  const polled = usePoll("rules", async (signal) => (await rules(signal)).data.groups);
  const none = <>No rules. Name files with rules under <code>rule_files</code> in the configuration.</>;
  return (
    <Page title="Rules" head={polled.data !== null && <Summary groups={polled.data} />}>
      <Loaded polled={polled} what="the rules" none={none}>
        {(groups) => <Groups groups={groups} />}
      </Loaded>
    </Page>
  );
}

const rulesIn = (groups: readonly RuleGroup[]): Rule[] => groups.flatMap((group) => group.rules);

function Summary({ groups }: { groups: readonly RuleGroup[] }) {
  const all = rulesIn(groups);
  const failing = all.filter(({ health }) => health === "err").length;
  return (
    <p class="summary">
      <strong>{formatCount(all.length)}</strong> rules in <strong>{formatCount(groups.length)}</strong> {groups.length === 1 ? "group" : "groups"}
      {failing > 0 && (
        <>
          , <strong class="failed">{formatCount(failing)}</strong> failing
        </>
      )}
    </p>
  );
}

function Groups({ groups }: { groups: readonly RuleGroup[] }) {
  const { params } = useStore(route);
  const samples = usePoll("rule samples", (signal) => vector(SAMPLES, signal), SAMPLES_MS).data ?? [];
  const health = HEALTHS.find((one) => one === params["health"]) ?? null;
  const limit = Number(params["limit"] ?? PAGE) || PAGE;
  const all = rulesIn(groups);
  const kept = filterRules(groups, health, params["search"] ?? "");
  const slowest = all.reduce((most, rule) => Math.max(most, rule.evaluationTime), 0);
  const count = (wanted: Shown): number => all.filter((rule) => (wanted === "unread" ? isUnread(rule) : rule.health === wanted)).length;
  return (
    <>
      <div class="toolbar">
        <Filter label="Filter rules" placeholder="Filter by name, expression, label, error or group" />
        <Choice
          label="Health"
          options={[["all", "All"] as const, ...HEALTHS.map((one) => [one, `${HEALTH_NAMES[one]} ${formatCount(count(one))}`] as const)]}
          value={health ?? "all"}
          onChange={(value) => adjust({ health: value === "all" ? undefined : value, limit: undefined })}
        />
      </div>
      {kept.length === 0 && <p class="awaiting">No rule matches the filter.</p>}
      {kept.slice(0, limit).map((group) => (
        <GroupSection key={groupKey(group)} group={group} slowest={slowest} samples={samplesOf(group, samples)} />
      ))}
      <More shown={limit} all={kept.length} what=" groups" />
    </>
  );
}

function samplesOf(group: RuleGroup, samples: readonly InstantSeries[]): number | null {
  const own = samples.find(({ metric }) => metric["rule_group"] === groupKey(group));
  return own?.value === undefined ? null : parseNumber(own.value[1]);
}

function GroupSection({ group, slowest, samples }: { group: RuleGroup; slowest: number; samples: number | null }) {
  const [limit, setLimit] = useState(PAGE);
  const failing = group.rules.filter(({ health }) => health === "err").length;
  const last = evaluatedAt(group.lastEvaluation);
  const facts = [
    `every ${formatDuration(group.interval)}`,
    last === null ? "not evaluated yet" : `last ${formatAgo(last, serverNow())}`,
    ...(last === null ? [] : [`took ${formatValue(group.evaluationTime, "seconds")}`]),
    ...(samples === null ? [] : [`${formatCount(samples)} samples`]),
    ...((group.limit ?? 0) > 0 ? [`at most ${formatCount(group.limit ?? 0)} each`] : []),
  ];
  const head = (
    <>
      <span class="pool-health muted">{group.file}</span>
      {failing > 0 && <span class="pool-health failed">{formatCount(failing)} failing</span>}
      <span class="pool-cost muted">{facts.join(" · ")}</span>
    </>
  );
  const columns: readonly Column<Rule>[] = [
    ...COLUMNS,
    barColumn("Duration", (rule) => (evaluatedAt(rule.lastEvaluation) === null ? null : rule.evaluationTime), inSeconds, slowest),
  ];
  return (
    // Folded here is not folded on another page.
    <Fold name={`rules ${groupKey(group)}`} title={group.name} head={head}>
      <Table class="cards rule-list" columns={columns} rows={group.rules.slice(0, limit)} keyOf={({ name }, at) => `${at} ${name}`} />
      <More shown={limit} all={group.rules.length} show={setLimit} />
    </Fold>
  );
}

const inSeconds = (value: number): string => formatValue(value, "seconds");
const HEALTH_OF: Readonly<Record<RuleHealth, string>> = { ok: "up", err: "down", unknown: "unknown" };
const HEALTH_TEXT: Readonly<Record<RuleHealth, string>> = { ok: "ok", err: "failing", unknown: "not yet" };

/** Without the duration, which is compared with those of all rules. */
const COLUMNS: readonly Column<Rule>[] = [
  { title: "Rule", untitled: true, class: "rule-name", cell: (rule) => <RuleName rule={rule} /> },
  { title: "Health", cell: ({ health }) => <Health state={HEALTH_OF[health]} text={HEALTH_TEXT[health]} /> },
  { title: "Last", num: true, cell: ({ lastEvaluation }) => <Last time={evaluatedAt(lastEvaluation)} /> },
  {
    title: "Read, stored",
    hint: "Samples that the last evaluation read, and series that it stored",
    num: true,
    cell: (rule) =>
      rule.samplesRead === undefined || evaluatedAt(rule.lastEvaluation) === null ? (
        <span class="muted">–</span>
      ) : (
        `${formatCount(rule.samplesRead)}, ${formatCount(rule.series ?? 0)}`
      ),
  },
];

function Last({ time }: { time: number | null }) {
  if (time === null) return <span class="muted">never</span>;
  return <span title={formatDateTime(time)}>{formatAgo(time, serverNow())}</span>;
}

/** The state of an alerting rule, and of how many alerts it is. */
function alertsText({ state, alerts }: AlertingRule): string {
  return alerts == null ? state : `${formatCount(alerts.filter((alert) => alert.state === state).length)} ${state}`;
}

function RuleName({ rule }: { rule: Rule }) {
  return (
    <>
      <span class="rule-head">
        <span class="muted">{rule.type === "alerting" ? "alert" : "record"}</span> <strong>{rule.name}</strong>
        {rule.type === "alerting" && rule.state !== "inactive" && rule.state !== "unknown" && (
          <Health state={rule.state} text={alertsText(rule)} />
        )}
        {Object.keys(rule.labels ?? {}).length > 0 && <LabelChips labels={rule.labels ?? {}} />}
        {isUnread(rule) && (
          <span class="muted" title="No rule and no query selected this metric since the server started">
            read by nobody
          </span>
        )}
      </span>
      <Expression rule={rule} />
    </>
  );
}
