//! A group: rules evaluated in order, at the same times.
//!
//! Results are stored together once a rule needs to see what those before it made, at the latest behind the last rule:
//! readers see all of them or none. What has waited for a second is stored before the next rule, and before one that took
//! that long the last time.
//!
//! **Invariant:** one thread at a time evaluates a group; who holds its work knows that none of its rules is running, and
//! that nothing waits to be stored.

use super::{
    batches::{Batches, Commits},
    metrics::{self, GroupMetrics},
    output::Output,
    permits::Permits,
    query::Tools,
    restore,
    rule::{Failure, Health, LiveRule, Moment, RuleStatus, RuleWork, Waiting, Work, refused},
    schedule::Schedule,
};
use crate::file::{self, Texts};
use narthex_model::{
    LabelSet,
    storage::{BoundRound, Outcome, StopReason},
    sync::Whole as _,
};
use narthex_net::catch_panic;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Name under which panics are counted.
const TASK: &str = "rule";
/// Evaluations before the state from before a restart is looked up: targets may not have been scraped earlier, and
/// recording rules not been evaluated.
const EVALUATIONS_BEFORE_RESTORE: u8 = 2;
/// How long results wait for each other: one slow rule must not keep those of others from being seen.
const PATIENCE: Duration = Duration::from_secs(1);

/// Rules that are evaluated together.
pub(crate) struct Group {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) limit: Option<u64>,
    pub(crate) rules: Vec<LiveRule>,
    pub(crate) schedule: Schedule,
    query_offset_ms: Option<i64>,
    status: Mutex<GroupStatus>,
    work: Mutex<GroupWork>,
    batches: OnceLock<Batches>,
    commits: OnceLock<Commits>,
    metrics: OnceLock<GroupMetrics>,
    is_stopping: AtomicBool,
}

/// What is shown of a group's last evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupStatus {
    pub(crate) duration: Duration,
    /// When it began; `None` before the first.
    pub(crate) last_ms: Option<i64>,
}

/// What a group keeps between evaluations.
pub(crate) struct GroupWork {
    rules: Vec<RuleWork>,
    /// Results of rules that the group no longer has, to be ended by the next evaluation.
    gone: Vec<Output>,
    /// Evaluations until the state from before a restart is looked up; 0 if it was.
    until_restore: u8,
}

impl Group {
    /// Returns a group without a past; `restores` if its alerts may have been active before a restart.
    pub(crate) fn new(path: &str, group: &file::Group, interval_ms: i64, restores: bool) -> Self {
        let rules = group.rules.iter();
        let rules: Vec<LiveRule> = rules
            .map(|rule| LiveRule::new(rule, &group.labels))
            .collect();
        let interval_ms = group.interval_ms.unwrap_or(interval_ms);
        let work = GroupWork {
            rules: rules.iter().map(|rule| rule.work(!restores)).collect(),
            gone: Vec::new(),
            until_restore: if restores {
                EVALUATIONS_BEFORE_RESTORE
            } else {
                0
            },
        };
        Self {
            key: format!("{path};{}", group.name),
            schedule: Schedule::new(path, &group.name, interval_ms),
            file: path.to_owned(),
            name: group.name.clone(),
            limit: group.limit,
            rules,
            query_offset_ms: group.query_offset_ms,
            status: Mutex::default(),
            work: Mutex::new(work),
            batches: OnceLock::new(),
            commits: OnceLock::new(),
            metrics: OnceLock::new(),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// Reports whether nothing in the group changed.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.key == other.key
            && self.schedule == other.schedule
            && self.limit == other.limit
            && self.query_offset_ms == other.query_offset_ms
            && self.rules.len() == other.rules.len()
            && self
                .rules
                .iter()
                .zip(&other.rules)
                .all(|(a, b)| a.equals(b))
    }

    pub(crate) fn status(&self) -> GroupStatus {
        *self.status.lock().whole()
    }

    /// Lets no further rule begin.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Reports whether no further rule may begin.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Lets no further rule begin, and cancels the running ones.
    pub(crate) fn cancel(&self) {
        self.stop();
        self.rules.iter().for_each(LiveRule::cancel);
    }

    fn metrics(&self) -> &GroupMetrics {
        self.metrics.get_or_init(|| GroupMetrics::new(&self.key))
    }

    fn lock_work(&self) -> MutexGuard<'_, GroupWork> {
        // A panic in a rule is caught while its own state is the only one in change, and that is discarded.
        self.work.lock().whole()
    }

    /// Evaluates all rules as of `time_ms`; returns whether the group still runs.
    pub(crate) fn iterate(&self, tools: &Tools, time_ms: i64) -> bool {
        let mut work = self.lock_work();
        if self.is_stopping() {
            return false;
        }
        let of_group = self.metrics();
        of_group.iterations.inc();
        let (begin, begin_ms) = (Instant::now(), tools.settings.now_ms());
        let was_whole = self.evaluate(&mut work, tools, time_ms);
        let duration = begin.elapsed();
        metrics::GROUP_DURATION.observe_duration(duration);
        metrics::GROUP_DURATION_HISTOGRAM.observe_duration(duration);
        of_group.last_duration.set(duration.as_secs_f64());
        let of_rules: Duration = self.rules.iter().map(|rule| rule.status().duration).sum();
        of_group.last_rule_duration_sum.set(of_rules.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of our times fit")]
        of_group.last_evaluation.set(begin_ms as f64 / 1000.0);
        *self.status.lock().whole() = GroupStatus {
            duration,
            last_ms: Some(begin_ms),
        };
        if was_whole && work.until_restore > 0 {
            work.until_restore -= 1;
            if work.until_restore == 0 {
                self.restore(&mut work, tools);
            }
        }
        was_whole
    }

    /// Evaluates the rules; returns `false` if the group was stopped in between.
    fn evaluate(&self, work: &mut GroupWork, tools: &Tools, time_ms: i64) -> bool {
        let at = (time_ms, self.offset_ms(tools));
        let permits = &tools.settings.permits;
        let evaluated = if permits.exist() && self.rules.len() > 1 {
            self.evaluate_at_once(&mut work.rules, tools, at)
        } else {
            self.evaluate_in_order(&mut work.rules, tools, at)
        };
        let Some(samples) = evaluated else {
            return false;
        };
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        self.metrics().last_samples.set(samples as f64);
        let gone = std::mem::take(&mut work.gone);
        if !gone.is_empty() {
            let live: HashSet<LabelSet> = work.live().collect();
            self.end(gone, tools, time_ms, &live);
        }
        true
    }

    /// Evaluates one rule after the other; returns the number of samples, `None` if the group was stopped.
    fn evaluate_in_order(
        &self,
        works: &mut [RuleWork],
        tools: &Tools,
        at: (i64, i64),
    ) -> Option<usize> {
        let commits = self.commits.get_or_init(|| Commits::new(&self.rules));
        let (mut samples, mut since) = (0, Instant::now());
        for (place, rule) in self.rules.iter().enumerate() {
            if self.is_stopping() {
                self.commit(works, tools);
                return None;
            }
            let is_late = since.elapsed() + rule.last_duration() > PATIENCE;
            if is_late || commits.are_due_before(place) {
                samples += self.commit(works, tools);
                since = Instant::now();
            }
            if let Some(work) = works.get_mut(place) {
                self.evaluate_rule(rule, work, tools, at);
            }
        }
        Some(samples + self.commit(works, tools))
    }

    /// Evaluates rules that do not depend on each other at once; returns the number of samples, `None` if the group was
    /// stopped.
    fn evaluate_at_once(
        &self,
        works: &mut [RuleWork],
        tools: &Tools,
        at: (i64, i64),
    ) -> Option<usize> {
        let evaluate = |(rule, work): Task<'_>| {
            let is_running = !self.is_stopping();
            if is_running {
                self.evaluate_rule(rule, work, tools, at);
            }
            is_running
        };
        let batches = self.batches.get_or_init(|| Batches::new(&self.rules));
        let mut samples = 0;
        for batch in &batches.0 {
            let tasks = self.rules.iter().zip(&mut *works).enumerate();
            let tasks = tasks.filter(|(place, _)| batch.contains(place));
            let tasks = tasks.map(|(_, task)| task).collect();
            let was_whole = evaluate_batch(tasks, &tools.settings.permits, &evaluate);
            samples += self.commit(works, tools);
            if !was_whole {
                return None;
            }
        }
        Some(samples)
    }

    /// Evaluates a rule, whose result then waits to be stored.
    fn evaluate_rule(
        &self,
        rule: &LiveRule,
        work: &mut RuleWork,
        tools: &Tools,
        (time_ms, offset_ms): (i64, i64),
    ) {
        let (begin, begin_ms) = (Instant::now(), tools.settings.now_ms());
        let (ctx, stop) = tools.settings.context();
        rule.set_running(Some(stop.clone()));
        self.metrics().evaluations.inc();
        let moment = Moment {
            tools,
            file: &self.file,
            group: &self.name,
            ctx: &ctx,
            time_ms,
            offset_ms,
            interval_ms: self.schedule.interval_ms(),
            limit: self.limit,
        };
        let made = catch_panic(TASK, || rule.evaluate(work, &moment));
        let made = made.unwrap_or_else(|panicked| {
            rule.renew(work);
            Err(Failure::Evaluation(panicked.to_string()))
        });
        rule.set_running(None);
        work.waiting = Some(Waiting {
            begin_ms,
            duration: begin.elapsed(),
            made,
            was_stopped: stop.check() == Err(StopReason::ShuttingDown),
        });
    }

    /// Stores what waits, and shows how those rules did; returns the number of samples.
    fn commit(&self, works: &mut [RuleWork], tools: &Tools) -> usize {
        let begin = Instant::now();
        let has_round = |work: &RuleWork| work.waiting.as_ref().is_some_and(Waiting::has_round);
        let stored = works.iter_mut().filter(|work| has_round(work));
        let mut rounds: Vec<BoundRound<'_>> =
            stored.filter_map(|work| work.output.round()).collect();
        let stored = if rounds.is_empty() {
            Ok(Ok(Outcome::default()))
        } else {
            catch_panic(TASK, || tools.sink.append_together(&mut rounds))
        };
        let outcomes: Vec<Outcome> = rounds.iter().map(|round| round.outcome).collect();
        let mut outcomes = outcomes.into_iter();
        let failure = match stored {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(Failure::Storage(error.to_string())),
            Err(panicked) => {
                let works = works.iter_mut().filter(|work| has_round(work));
                works.for_each(|work| work.output.forget_binding());
                Some(Failure::Storage(panicked.to_string()))
            }
        };
        let count = works.iter().filter(|work| work.waiting.is_some()).count();
        let share = begin.elapsed() / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let mut samples = 0;
        for (rule, work) in self.rules.iter().zip(works) {
            let Some(mut waiting) = work.waiting.take() else {
                continue;
            };
            waiting.duration += share;
            if waiting.has_round() {
                let outcome = outcomes.next().unwrap_or_default();
                waiting.made = match &failure {
                    Some(failure) => Err(failure.clone()),
                    None => {
                        work.output.note_stored();
                        match refused(outcome, work.output.ended()) {
                            Some(reason) => Err(Failure::Refused(reason)),
                            None => waiting.made,
                        }
                    }
                };
            }
            samples += self.show(rule, waiting);
        }
        samples
    }

    /// Shows how a rule's evaluation went; returns the number of samples.
    fn show(&self, rule: &LiveRule, waiting: Waiting) -> usize {
        let duration = waiting.duration;
        metrics::RULE_DURATION.observe_duration(duration);
        metrics::RULE_DURATION_HISTOGRAM.observe_duration(duration);
        let mut status = RuleStatus {
            health: Health::Ok,
            last_error: None,
            duration,
            last_ms: Some(waiting.begin_ms),
            work: Work::default(),
        };
        match waiting.made {
            Ok(made) => status.work = made.work,
            Err(failure) => {
                if failure.counts() {
                    self.metrics().failures.inc();
                }
                let error = failure.to_string();
                if !waiting.was_stopped {
                    let (file, group, name) = (&self.file, &self.name, &rule.name);
                    tracing::warn!(file, group, name, error, "Evaluating rule failed");
                }
                status.health = Health::Err;
                status.last_error = Some(error);
            }
        }
        let samples = status.work.series;
        rule.set_status(status);
        samples
    }

    fn offset_ms(&self, tools: &Tools) -> i64 {
        let default = || tools.settings.default_offset_ms();
        self.query_offset_ms.unwrap_or_else(default)
    }

    /// Looks up the alerts from before a restart, and stores all alerts from here on.
    fn restore(&self, work: &mut GroupWork, tools: &Tools) {
        let (begin, now_ms) = (Instant::now(), tools.settings.now_ms());
        for (rule, work) in self.rules.iter().zip(&mut work.rules) {
            if rule.is_alerting()
                && let Err(error) = restore::restore(rule, tools, now_ms)
            {
                let alertname = &rule.name;
                tracing::error!(alertname, error, "Failed to restore 'for' state");
            }
            work.is_restored = true;
        }
        metrics::LAST_RESTORE_DURATION
            .with(&[&self.key])
            .set(begin.elapsed().as_secs_f64());
    }

    /// Takes over what `old`, a stopped group of the same name, knows; waits until its running rule has ended.
    pub(crate) fn continue_from(&self, old: &Self) {
        let mut from = old.lock_work();
        let mut work = self.lock_work();
        *self.status.lock().whole() = old.status();
        work.until_restore = from.until_restore;
        let is_restored = from.until_restore == 0;
        let mut left: HashMap<(&str, &Texts), VecDeque<(&LiveRule, RuleWork)>> = HashMap::new();
        for (rule, work) in old.rules.iter().zip(std::mem::take(&mut from.rules)) {
            left.entry(rule.identity())
                .or_default()
                .push_back((rule, work));
        }
        for (rule, work) in self.rules.iter().zip(&mut work.rules) {
            work.is_restored = is_restored;
            let same = left.get_mut(&rule.identity());
            let Some((before, past)) = same.and_then(VecDeque::pop_front) else {
                continue;
            };
            if rule.is_alerting() == before.is_alerting() {
                rule.set_alerts(before.alerts());
                work.output = past.output;
            } else {
                left.entry(rule.identity())
                    .or_default()
                    .push_back((before, past));
            }
        }
        work.gone = std::mem::take(&mut from.gone);
        let unmatched = left.into_values().flatten().map(|(_, past)| past.output);
        work.gone.extend(unmatched);
    }

    /// Takes the results of a stopped group; waits until its running rule has ended.
    pub(crate) fn take_outputs(&self) -> Vec<Output> {
        let mut work = self.lock_work();
        let mut outputs = std::mem::take(&mut work.gone);
        let rules = std::mem::take(&mut work.rules);
        outputs.extend(rules.into_iter().map(|work| work.output));
        outputs
    }

    /// Ends the series of former rules as of `time_ms`, except those in `live`.
    pub(crate) fn end(
        &self,
        outputs: Vec<Output>,
        tools: &Tools,
        time_ms: i64,
        live: &HashSet<LabelSet>,
    ) {
        let time_ms = time_ms - self.offset_ms(tools);
        for mut output in outputs {
            let ended = output.end(&*tools.sink, time_ms, &|labels| live.contains(labels));
            if let Err(error) = ended {
                tracing::warn!(%error, "Ending series of a former rule failed");
            }
        }
    }

    /// Returns the series of the last evaluation.
    pub(crate) fn live(&self) -> Vec<LabelSet> {
        self.lock_work().live().collect()
    }
}

impl GroupWork {
    fn live(&self) -> impl Iterator<Item = LabelSet> + '_ {
        self.rules.iter().flat_map(|work| work.output.live())
    }
}

/// A rule to be evaluated.
type Task<'a> = (&'a LiveRule, &'a mut RuleWork);

/// Evaluates a batch of a group's rules, at once if that is worth a thread and there are permits; returns `false` if any
/// was not evaluated.
fn evaluate_batch<'a>(
    mut tasks: Vec<Task<'a>>,
    permits: &Permits,
    evaluate: &(impl Fn(Task<'a>) -> bool + Sync),
) -> bool {
    let expected: Duration = tasks.iter().map(|(rule, _)| rule.status().duration).sum();
    let most = permits.wanted(tasks.len(), expected);
    if most == 0 {
        return tasks.into_iter().all(evaluate);
    }
    // The longest first: the last to end decides how long the batch takes.
    tasks.sort_by_key(|(rule, _)| rule.status().duration);
    let tasks = Mutex::new(tasks);
    let work = || {
        while let Some(task) = { tasks.lock().whole().pop() } {
            if !evaluate(task) {
                return false;
            }
        }
        true
    };
    thread::scope(|scope| {
        let helpers = std::iter::from_fn(|| permits.try_take()).take(most);
        for permit in helpers {
            let help = || {
                let _permit = permit;
                work()
            };
            let named = thread::Builder::new().name("narthex-rule".to_owned());
            if named.spawn_scoped(scope, help).is_err() {
                break;
            }
        }
        work();
    });
    // Whoever found the group stopped left something.
    tasks.into_inner().whole().is_empty()
}

/// Groups by file and name, in the order in which they are shown.
pub(crate) type Groups = std::collections::BTreeMap<(String, String), Arc<Group>>;
