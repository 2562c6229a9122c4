// All rules, group by group: whether they work, and what they cost.
import { useState } from "preact/hooks";
import { parseNumber, rules, serverNow, vector, type InstantSeries, type Rule, type RuleGroup } from "../api";
import { Choice, Meter } from "../components/controls";
import { LabelChips } from "../components/labels";
import { Loaded } from "../components/loaded";
import { AlertState, Expression } from "../components/rules";
import { Health } from "../components/targets_table";
import { collapsed, setCollapsed } from "../lib/collapsed";
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
  return (
    <div class="view">
      <div class="view-head">
        <h1>Rules</h1>
        {polled.data !== null && <Summary groups={polled.data} />}
      </div>
      <Loaded polled={polled} what="the rules">
        {(groups) =>
          groups.length === 0 ? (
            <p class="awaiting tall">
              No rules. Name files with rules under <code>rule_files</code> in the configuration.
            </p>
          ) : (
            <Groups groups={groups} />
          )
        }
      </Loaded>
    </div>
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
  const search = params["search"] ?? "";
  const health = HEALTHS.find((one) => one === params["health"]) ?? null;
  const limit = Number(params["limit"] ?? PAGE) || PAGE;
  const all = rulesIn(groups);
  const kept = filterRules(groups, health, search);
  const slowest = all.reduce((most, rule) => Math.max(most, rule.evaluationTime), 0);
  const count = (wanted: Shown): number => all.filter((rule) => (wanted === "unread" ? isUnread(rule) : rule.health === wanted)).length;
  return (
    <>
      <div class="toolbar">
        <input
          type="search"
          class="input grow"
          placeholder="Filter by name, expression, label, error or group"
          aria-label="Filter rules"
          value={search}
          onInput={(event) => adjust({ search: event.currentTarget.value, limit: undefined })}
        />
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
      {kept.length > limit && (
        <p class="more">
          <button type="button" class="button" onClick={() => adjust({ limit: String(limit * 4) })}>
            Show {formatCount(Math.min(limit * 3, kept.length - limit))} more of {formatCount(kept.length)} groups
          </button>
        </p>
      )}
    </>
  );
}

function samplesOf(group: RuleGroup, samples: readonly InstantSeries[]): number | null {
  const own = samples.find(({ metric }) => metric["rule_group"] === groupKey(group));
  return own?.value === undefined ? null : parseNumber(own.value[1]);
}

function GroupSection({ group, slowest, samples }: { group: RuleGroup; slowest: number; samples: number | null }) {
  const closed = useStore(collapsed);
  const [limit, setLimit] = useState(PAGE);
  // Folded here is not folded on another page.
  const key = `rules ${groupKey(group)}`;
  const failing = group.rules.filter(({ health }) => health === "err").length;
  const last = evaluatedAt(group.lastEvaluation);
  const facts = [
    `every ${formatDuration(group.interval)}`,
    last === null ? "not evaluated yet" : `last ${formatAgo(last, serverNow())}`,
    ...(last === null ? [] : [`took ${formatValue(group.evaluationTime, "seconds")}`]),
    ...(samples === null ? [] : [`${formatCount(samples)} samples`]),
    ...((group.limit ?? 0) > 0 ? [`at most ${formatCount(group.limit ?? 0)} each`] : []),
  ];
  return (
    <details class="pool" open={!closed.has(key)} onToggle={(event) => setCollapsed([key], !event.currentTarget.open)}>
      <summary>
        <h2>{group.name}</h2>
        <span class="pool-health muted">{group.file}</span>
        {failing > 0 && <span class="pool-health failed">{formatCount(failing)} failing</span>}
        <span class="pool-cost muted">{facts.join(" · ")}</span>
      </summary>
      <table class="table rule-list">
        <thead>
          <tr>
            <th>Rule</th>
            <th>Health</th>
            <th class="num">Last</th>
            <th class="num" title="Samples that the last evaluation read, and series that it stored">Read, stored</th>
            <th class="num">Duration</th>
          </tr>
        </thead>
        <tbody>
          {group.rules.slice(0, limit).map((rule, i) => (
            <RuleLine key={`${i} ${rule.name}`} rule={rule} slowest={slowest} />
          ))}
        </tbody>
      </table>
      {group.rules.length > limit && (
        <p class="more">
          <button type="button" class="button" onClick={() => setLimit(limit * 4)}>
            Show {formatCount(Math.min(limit * 3, group.rules.length - limit))} more of {formatCount(group.rules.length)}
          </button>
        </p>
      )}
    </details>
  );
}

const HEALTH_OF: Readonly<Record<RuleHealth, string>> = { ok: "up", err: "down", unknown: "unknown" };
const HEALTH_TEXT: Readonly<Record<RuleHealth, string>> = { ok: "ok", err: "failing", unknown: "not yet" };

function RuleLine({ rule, slowest }: { rule: Rule; slowest: number }) {
  const last = evaluatedAt(rule.lastEvaluation);
  return (
    <tr>
      <td class="rule-name">
        <span class="rule-head">
          <span class="muted">{rule.type === "alerting" ? "alert" : "record"}</span> <strong>{rule.name}</strong>
          {rule.type === "alerting" && rule.state !== "inactive" && rule.state !== "unknown" && (
            <AlertState state={rule.state} {...(rule.alerts == null ? {} : { count: rule.alerts.filter(({ state }) => state === rule.state).length })} />
          )}
          {Object.keys(rule.labels ?? {}).length > 0 && <LabelChips labels={rule.labels ?? {}} />}
          {isUnread(rule) && (
            <span class="muted" title="No rule and no query selected this metric since the server started">
              read by nobody
            </span>
          )}
        </span>
        <Expression rule={rule} />
        {rule.health === "err" && <p class="rule-error">{rule.lastError}</p>}
      </td>
      <td data-title="Health">
        <Health health={HEALTH_OF[rule.health]} text={HEALTH_TEXT[rule.health]} />
      </td>
      <td class="num" data-title="Last">
        {last === null ? <span class="muted">never</span> : <span title={formatDateTime(last)}>{formatAgo(last, serverNow())}</span>}
      </td>
      <td class="num" data-title="Read, stored">
        {rule.samplesRead === undefined || last === null ? (
          <span class="muted">–</span>
        ) : (
          `${formatCount(rule.samplesRead)}, ${formatCount(rule.series ?? 0)}`
        )}
      </td>
      <td class="num cost" data-title="Duration">
        {last === null ? <span class="muted">–</span> : <span>{formatValue(rule.evaluationTime, "seconds")}</span>}
        <Meter share={slowest > 0 ? rule.evaluationTime / slowest : 0} />
      </td>
    </tr>
  );
}
