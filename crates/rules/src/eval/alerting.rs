//! Alerting rules: the elements of a result become alerts, and alerts become `ALERTS` and `ALERTS_FOR_STATE`.
//!
//! **Invariant:** a template that cannot be expanded costs its own text, never the alert.

use super::{
    alerts::{AlertState, Alerts, Found},
    metrics,
    output::Output,
    query::{ServerTexts, Tools, texts_of},
};
use crate::{
    file::Texts,
    template::{Scope, Template},
};
use narthex_model::{
    LabelSet, METRIC_NAME,
    storage::{Budget, Context},
};
use narthex_promql::{SampleValue, VectorSample};
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
};

pub(crate) const ALERT_NAME: &str = "alertname";
pub(crate) const ALERTS: &str = "ALERTS";
pub(crate) const ALERTS_FOR_STATE: &str = "ALERTS_FOR_STATE";
pub(crate) const ALERT_STATE: &str = "alertstate";

/// A text that is expanded for each element, or is always the same.
pub(crate) enum AlertText {
    Fixed(String),
    Template(Box<Template>),
}

impl AlertText {
    fn new(alert: &str, text: &str) -> Self {
        if !text.contains("{{") {
            return Self::Fixed(text.to_owned());
        }
        match Template::parse(alert, text) {
            Ok(template) => Self::Template(Box::new(template)),
            // Files with such a template are refused when they are read.
            Err(error) => Self::Fixed(format!("<error expanding template: {error}>")),
        }
    }
}

/// Labels and annotations of a rule.
pub(crate) struct AlertTexts {
    labels: Vec<(String, AlertText)>,
    annotations: Vec<(String, AlertText)>,
    /// Whether elements with equal labels always make the same alert.
    has_fixed_labels: bool,
    /// Annotations without a template.
    pub(crate) fixed_annotations: Arc<Texts>,
}

impl AlertTexts {
    pub(crate) fn new(alert: &str, labels: &Texts, annotations: &Texts) -> Self {
        let read = |texts: &Texts| -> Vec<(String, AlertText)> {
            let pairs = texts.iter();
            pairs
                .map(|(name, text)| (name.clone(), AlertText::new(alert, text)))
                .collect()
        };
        let (labels, annotations) = (read(labels), read(annotations));
        let fixed = annotations.iter().filter_map(|(name, text)| match text {
            AlertText::Fixed(text) => Some((name.clone(), text.clone())),
            AlertText::Template(_) => None,
        });
        Self {
            has_fixed_labels: labels
                .iter()
                .all(|(_, text)| matches!(text, AlertText::Fixed(_))),
            fixed_annotations: Arc::new(fixed.collect()),
            labels,
            annotations,
        }
    }

    /// Reports whether a template may query.
    pub(crate) fn may_query(&self) -> bool {
        let texts = self.labels.iter().chain(&self.annotations);
        let mut texts = texts.map(|(_, text)| text);
        texts.any(|text| matches!(text, AlertText::Template(template) if template.may_query()))
    }

    fn has_fixed_annotations(&self) -> bool {
        self.fixed_annotations.len() == self.annotations.len()
    }
}

/// One evaluation of a rule's texts.
pub(crate) struct Expansion<'a> {
    pub(crate) alert: &'a str,
    pub(crate) texts: &'a AlertTexts,
    pub(crate) tools: &'a Tools,
    pub(crate) server: &'a ServerTexts,
    pub(crate) time_ms: i64,
    pub(crate) ctx: &'a Context,
}

/// Alerts of elements, by the elements' labels.
pub(crate) type Known = HashMap<LabelSet, LabelSet>;

impl Expansion<'_> {
    /// Makes alerts of elements; `known` are those of the evaluation before.
    ///
    /// # Errors
    /// Fails, in Prometheus' words, when two elements make the same alert.
    pub(crate) fn found(
        &self,
        elements: &[VectorSample],
        known: &mut Known,
    ) -> Result<HashMap<LabelSet, Found>, String> {
        let mut found = HashMap::with_capacity(elements.len());
        let mut seen = Known::new();
        for element in elements {
            let mut texts = None;
            let labels = match known.get(&element.labels) {
                Some(labels) if self.texts.has_fixed_labels => labels.clone(),
                _ => self.labels(element, &mut texts),
            };
            if self.texts.has_fixed_labels {
                seen.insert(element.labels.clone(), labels.clone());
            }
            let Entry::Vacant(place) = found.entry(labels) else {
                return Err(
                    "vector contains metrics with the same labelset after applying alert labels"
                        .to_owned(),
                );
            };
            place.insert(Found {
                annotations: self.annotations(element, &mut texts),
                value: match element.value {
                    SampleValue::Float(value) => value,
                    SampleValue::Histogram(_) => 0.0,
                },
            });
        }
        *known = seen;
        Ok(found)
    }

    fn labels(&self, element: &VectorSample, texts: &mut Option<Texts>) -> LabelSet {
        let mut builder = element.labels.to_builder();
        builder.remove(METRIC_NAME);
        for (name, text) in &self.texts.labels {
            builder.set(name, &self.expand(text, element, texts));
        }
        builder.set(ALERT_NAME, self.alert);
        builder.finish().intern()
    }

    fn annotations(&self, element: &VectorSample, texts: &mut Option<Texts>) -> Arc<Texts> {
        if self.texts.has_fixed_annotations() {
            return Arc::clone(&self.texts.fixed_annotations);
        }
        let pairs = self.texts.annotations.iter();
        let expanded = pairs.map(|(name, text)| (name.clone(), self.expand(text, element, texts)));
        Arc::new(expanded.collect())
    }

    fn expand(
        &self,
        text: &AlertText,
        element: &VectorSample,
        texts: &mut Option<Texts>,
    ) -> String {
        let template = match text {
            AlertText::Fixed(text) => return text.clone(),
            AlertText::Template(template) => template,
        };
        metrics::EXPANSIONS.inc();
        let labels: &BTreeMap<String, String> =
            texts.get_or_insert_with(|| texts_of(&element.labels));
        let query = |text: &str| self.tools.query(text, self.time_ms, self.ctx);
        let expanded = template.expand(&Scope {
            labels,
            value: &element.value,
            external_labels: &self.server.external_labels,
            external_url: &self.server.external_url,
            time_ms: self.time_ms,
            query: &query,
        });
        expanded.unwrap_or_else(|error| {
            metrics::EXPANSION_FAILURES.inc();
            tracing::warn!(alert = self.alert, %error, "Expanding alert template failed");
            format!("<error expanding template: {error}>")
        })
    }
}

/// Puts the series of pending and firing alerts into the round.
///
/// # Errors
/// Fails when there is no memory for another series.
pub(crate) fn fill(output: &mut Output, alerts: &Alerts, memory: &Budget) -> Result<(), String> {
    for (labels, alert) in alerts {
        if alert.state == AlertState::Inactive {
            continue;
        }
        let mut builder = labels.to_builder();
        builder
            .remove(ALERT_NAME)
            .set(METRIC_NAME, ALERTS_FOR_STATE);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let active_at = alert.active_at_ms.div_euclid(1000) as f64;
        let for_state = builder.clone().finish();
        builder
            .set(METRIC_NAME, ALERTS)
            .set(ALERT_STATE, alert.state.as_str());
        for (local, value) in [(builder.finish(), 1.0), (for_state, active_at)] {
            let column = output.column(&local, memory);
            let column = column.map_err(|over| over.to_string())?;
            output.add(column, SampleValue::Float(value));
        }
    }
    Ok(())
}
