//! A rule and its state.
//!
//! **Invariant:** what an evaluation changes in steps is owned by the group that evaluates; what is shown is replaced in
//! one step under a lock of its own.

use super::{
    alerting::{self, ALERT_NAME, AlertTexts, Expansion, Known},
    alerts::{self, Alerts, Holds, Sending},
    output::Output,
    query::{Elements, Tools, ms},
    recording::{self, Inputs},
};
use crate::file::{Rule, RuleKind, Texts};
use narthex_model::{
    LabelSet,
    storage::{Context, Outcome, Stop, StopReason},
    sync::Whole as _,
};
use narthex_net::percent::escape_form;
use narthex_promql::{InstantQuery, ast::Expr};
use serde::Serialize;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Health of a rule.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Health {
    #[default]
    Unknown,
    Ok,
    Err,
}

/// What is shown of a rule's last evaluation.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleStatus {
    pub(crate) health: Health,
    pub(crate) last_error: Option<String>,
    pub(crate) duration: Duration,
    /// When it began; `None` before the first.
    pub(crate) last_ms: Option<i64>,
    pub(crate) work: Work,
}

/// What an evaluation read and made; nothing if it failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Samples read from the store.
    pub(crate) samples_read: u64,
    /// Samples stored, which is one for each series.
    pub(crate) series: usize,
}

/// A rule that is evaluated.
pub(crate) struct LiveRule {
    pub(crate) name: String,
    /// The expression as it is printed.
    pub(crate) query: String,
    /// Labels of the group and the rule, unexpanded.
    pub(crate) labels: Texts,
    pub(crate) kind: RuleKind,
    /// The expression's text, to which positions refer.
    text: Arc<str>,
    expr: Arc<Expr>,
    alert_texts: Option<AlertTexts>,
    /// What cancels its evaluation.
    running: Mutex<Option<Stop>>,
    status: Mutex<RuleStatus>,
    alerts: Mutex<Arc<Alerts>>,
}

/// What a rule keeps between evaluations, owned by its group.
pub(crate) struct RuleWork {
    pub(crate) output: Output,
    /// The evaluation whose result is to be stored.
    pub(crate) waiting: Option<Waiting>,
    /// The expression as it is evaluated, from the first evaluation on.
    query: Option<InstantQuery>,
    inputs: Inputs,
    known: Known,
    /// Whether alerts are stored: not before their state from before a restart has been looked up.
    pub(crate) is_restored: bool,
}

/// An evaluation that has ended but for storing its result.
pub(crate) struct Waiting {
    pub(crate) begin_ms: i64,
    pub(crate) duration: Duration,
    pub(crate) made: Result<Made, Failure>,
    /// Whether it failed because the server stops.
    pub(crate) was_stopped: bool,
}

impl Waiting {
    /// Reports whether the output has a round to be stored.
    pub(crate) fn has_round(&self) -> bool {
        self.made.as_ref().is_ok_and(|made| made.has_round)
    }
}

/// What an evaluation made.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    pub(crate) work: Work,
    /// Whether the output has a round to be stored.
    pub(crate) has_round: bool,
}

/// Circumstances of an evaluation.
pub(crate) struct Moment<'a> {
    pub(crate) tools: &'a Tools,
    /// The rule's file and group.
    pub(crate) file: &'a str,
    pub(crate) group: &'a str,
    pub(crate) ctx: &'a Context,
    pub(crate) time_ms: i64,
    pub(crate) offset_ms: i64,
    pub(crate) interval_ms: i64,
    pub(crate) limit: Option<u64>,
}

/// Reason that an evaluation failed.
#[derive(Clone)]
pub(crate) enum Failure {
    /// There is no result: nothing was stored or sent.
    Evaluation(String),
    /// Some of the result was refused.
    Refused(&'static str),
    /// Nothing of the result could be stored.
    Storage(String),
}

impl LiveRule {
    pub(crate) fn new(rule: &Rule, group_labels: &Texts) -> Self {
        let mut labels = group_labels.clone();
        labels.extend(rule.labels.clone());
        let alert_texts = match &rule.kind {
            RuleKind::Recording => None,
            RuleKind::Alerting { annotations, .. } => {
                Some(AlertTexts::new(&rule.name, &labels, annotations))
            }
        };
        Self {
            name: rule.name.clone(),
            query: rule.expr.to_string(),
            labels,
            kind: rule.kind.clone(),
            text: rule.text.as_str().into(),
            expr: Arc::new(rule.expr.clone()),
            alert_texts,
            running: Mutex::default(),
            status: Mutex::default(),
            alerts: Mutex::default(),
        }
    }

    /// Returns the state of a rule without a past.
    pub(crate) fn work(&self, is_restored: bool) -> RuleWork {
        RuleWork {
            output: self.output(),
            waiting: None,
            query: None,
            inputs: Inputs::default(),
            known: Known::new(),
            is_restored,
        }
    }

    fn output(&self) -> Output {
        Output::new(match self.kind {
            RuleKind::Recording => recording::common(&self.labels),
            RuleKind::Alerting { .. } => LabelSet::new([(ALERT_NAME, &*self.name)]),
        })
    }

    /// Returns what a rule with the same state has in common, whatever else changed.
    pub(crate) fn identity(&self) -> (&str, &Texts) {
        (&self.name, &self.labels)
    }

    /// Reports whether nothing changed.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.identity() == other.identity() && self.query == other.query && self.kind == other.kind
    }

    pub(crate) fn is_alerting(&self) -> bool {
        self.alert_texts.is_some()
    }

    pub(crate) fn expr(&self) -> &Expr {
        &self.expr
    }

    /// Reports whether a template may query.
    pub(super) fn asks_in_templates(&self) -> bool {
        let texts = self.alert_texts.as_ref();
        texts.is_some_and(AlertTexts::may_query)
    }

    /// Sets what cancels the evaluation, `None` at its end.
    pub(super) fn set_running(&self, stop: Option<Stop>) {
        *self.running.lock().whole() = stop;
    }

    /// Cancels the evaluation, if there is one.
    pub(super) fn cancel(&self) {
        if let Some(stop) = &*self.running.lock().whole() {
            stop.stop(StopReason::ShuttingDown);
        }
    }

    pub(crate) fn holds(&self) -> Holds {
        match self.kind {
            RuleKind::Recording => Holds::default(),
            RuleKind::Alerting {
                for_ms,
                keep_firing_for_ms,
                ..
            } => Holds {
                for_ms,
                keep_firing_for_ms,
            },
        }
    }

    pub(crate) fn fixed_annotations(&self) -> Arc<Texts> {
        let texts = self.alert_texts.as_ref();
        texts.map_or_else(Arc::default, |texts| Arc::clone(&texts.fixed_annotations))
    }

    pub(crate) fn status(&self) -> RuleStatus {
        self.status.lock().whole().clone()
    }

    pub(crate) fn last_duration(&self) -> Duration {
        self.status.lock().whole().duration
    }

    pub(crate) fn set_status(&self, status: RuleStatus) {
        *self.status.lock().whole() = status;
    }

    pub(crate) fn alerts(&self) -> Arc<Alerts> {
        Arc::clone(&self.alerts.lock().whole())
    }

    pub(crate) fn set_alerts(&self, alerts: Arc<Alerts>) {
        *self.alerts.lock().whole() = alerts;
    }

    /// Evaluates the rule, sends alerts that are due, and finishes the round of its output, which is to be stored.
    ///
    /// Returns what it took and made.
    ///
    /// # Errors
    /// Fails with what is to be shown.
    pub(crate) fn evaluate(
        &self,
        work: &mut RuleWork,
        moment: &Moment<'_>,
    ) -> Result<Made, Failure> {
        let Moment { tools, ctx, .. } = moment;
        let settings = &*tools.settings;
        let stored_ms = moment.time_ms - moment.offset_ms;
        let query = work.query.get_or_insert_with(|| {
            let (expr, text) = (Arc::clone(&self.expr), Arc::clone(&self.text));
            let engine = settings.options.engine.of_group(moment.file, moment.group);
            engine.prepare(expr, text)
        });
        let elements = Elements::new(query.evaluate(&*tools.store, stored_ms, ctx));
        let elements = elements.map_err(Failure::Evaluation)?;
        let samples_read = elements.samples_read;
        work.output.begin();
        match &self.alert_texts {
            None => recording::fill(
                &mut work.output,
                &mut work.inputs,
                (&self.name, &self.labels),
                elements,
                moment.limit,
                &settings.options.state,
            ),
            Some(texts) => {
                let server = settings.server();
                let expansion = Expansion {
                    alert: &self.name,
                    texts,
                    tools,
                    server: &server,
                    time_ms: moment.time_ms,
                    ctx,
                };
                let found = expansion.found(&elements.samples, &mut work.known);
                found.and_then(|found| {
                    let alerts = self.step(found, moment, &server.external_url)?;
                    if work.is_restored {
                        alerting::fill(&mut work.output, &alerts, &settings.options.state)?;
                    }
                    Ok(())
                })
            }
        }
        .map_err(Failure::Evaluation)?;
        let series = work.output.len();
        let has_round = work.output.finish(&*tools.sink, stored_ms);
        let has_round = has_round.map_err(|error| Failure::Storage(error.to_string()))?;
        let work = Work {
            samples_read,
            series,
        };
        Ok(Made { work, has_round })
    }

    /// Applies what was found to the alerts and sends those that are due.
    fn step(
        &self,
        found: std::collections::HashMap<LabelSet, alerts::Found>,
        moment: &Moment<'_>,
        external_url: &str,
    ) -> Result<Arc<Alerts>, String> {
        let before = self.alerts();
        if found.is_empty() && before.is_empty() {
            return Ok(before);
        }
        let mut next = Alerts::clone(&before);
        let count = alerts::step(&mut next, found, moment.time_ms, self.holds());
        if let Some(limit) = moment.limit
            && count as u64 > limit
        {
            self.set_alerts(Arc::default());
            return Err(format!("exceeded limit of {limit} with {count} alerts"));
        }
        let settings = &moment.tools.settings;
        let due = alerts::due(
            &mut next,
            &Sending {
                now_ms: moment.time_ms,
                resend_delay_ms: ms(settings.options.resend_delay),
                interval_ms: moment.interval_ms,
                generator_url: &|| self.generator_url(external_url),
            },
        );
        let next = Arc::new(next);
        self.set_alerts(Arc::clone(&next));
        if let Some(sink) = settings.options.alerts.as_ref().filter(|_| !due.is_empty()) {
            sink.send(due);
        }
        Ok(next)
    }

    fn generator_url(&self, external_url: &str) -> Arc<str> {
        let query = escape_form(&self.query);
        format!("{external_url}/graph?g0.expr={query}&g0.tab=1").into()
    }

    /// Discards what a panic may have left half-done; series it had end by their age.
    pub(crate) fn renew(&self, work: &mut RuleWork) {
        *work = self.work(work.is_restored);
    }
}

/// Returns the reason that samples of a round were refused; `ended` series may be refused for good reasons.
pub(crate) fn refused(outcome: Outcome, ended: u64) -> Option<&'static str> {
    if outcome.out_of_order > ended {
        Some("out of order sample")
    } else if outcome.too_old > ended {
        Some("too old sample")
    } else if outcome.duplicate > ended {
        Some("duplicate sample for timestamp")
    } else if outcome.too_new > ended {
        Some("sample too far in the future")
    } else if outcome.over_limit > 0 {
        Some("no memory for new series")
    } else {
        None
    }
}

impl Failure {
    /// Reports whether it counts as a failed evaluation.
    pub(crate) fn counts(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Evaluation(reason) | Self::Storage(reason) => f.write_str(reason),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}
