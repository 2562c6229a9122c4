//! Checks what groups and rules mean.
//!
//! **Invariant:** every error is reported, in the words and order of Prometheus; among the labels of one rule the file's
//! order decides, where Prometheus has none.

use crate::{
    decode::{RawGroup, RawRule, Text},
    error::{Place, RuleError, RuleFault},
    file::{Group, Rule, RuleKind, Texts},
    options::ParseOptions,
    template::Template,
};
use narthex_model::{METRIC_NAME, NameScheme};
use narthex_promql::{ast::Expr, fmt::quote};
use std::collections::HashSet;

/// Checks groups and makes them what is used.
///
/// # Errors
/// Fails with all errors.
pub(crate) fn groups(
    groups: Vec<RawGroup>,
    options: ParseOptions,
) -> Result<Vec<Group>, Vec<RuleError>> {
    let (mut errors, mut valid) = (Vec::new(), Vec::with_capacity(groups.len()));
    let mut names = HashSet::new();
    for group in groups {
        let place = first_given(&[&group.name], group.place);
        let mut fail = |place, message| errors.push(RuleError::Value { place, message });
        if group.name.text.is_empty() {
            fail(place, "Groupname must not be empty".to_owned());
        }
        let name = &group.name.text;
        if !names.insert(name.clone()) {
            let message = format!("groupname: \"{name}\" is repeated in the same file");
            fail(place, message);
        }
        label_faults(&group.labels, options.scheme, &mut fail);
        valid.extend(checked(group, options, &mut errors));
    }
    if errors.is_empty() {
        Ok(valid)
    } else {
        Err(errors)
    }
}

/// Checks the rules of a group; returns it if all are valid.
fn checked(group: RawGroup, options: ParseOptions, errors: &mut Vec<RuleError>) -> Option<Group> {
    let before = errors.len();
    let mut rules = Vec::with_capacity(group.rules.len());
    for (at, rule) in group.rules.into_iter().enumerate() {
        let (expr, faults) = check_rule(&rule, options);
        let name = if rule.alert.text.is_empty() {
            &rule.record.text
        } else {
            &rule.alert.text
        };
        errors.extend(faults.into_iter().map(|fault| RuleError::Rule {
            place: fault.place,
            conflict: fault.conflict,
            group: group.name.text.clone(),
            number: at + 1,
            name: name.clone(),
            reason: fault.reason,
        }));
        rules.extend(expr.map(|expr| build(rule, expr)));
    }
    (errors.len() == before).then(|| Group {
        name: group.name.text,
        interval_ms: group.interval_ms.filter(|ms| *ms > 0),
        query_offset_ms: group.query_offset_ms,
        limit: u64::try_from(group.limit).ok().filter(|limit| *limit > 0),
        labels: texts(group.labels),
        rules,
    })
}

fn build(rule: RawRule, expr: Expr) -> Rule {
    let kind = if rule.alert.text.is_empty() {
        RuleKind::Recording
    } else {
        RuleKind::Alerting {
            for_ms: rule.for_ms.unwrap_or_default(),
            keep_firing_for_ms: rule.keep_firing_for_ms.unwrap_or_default(),
            annotations: texts(rule.annotations),
        }
    };
    let name = match kind {
        RuleKind::Recording => rule.record.text,
        RuleKind::Alerting { .. } => rule.alert.text,
    };
    Rule {
        place: rule.place,
        name,
        text: rule.expr.text,
        expr,
        labels: texts(rule.labels),
        kind,
    }
}

fn texts(pairs: Vec<(Text, Text)>) -> Texts {
    pairs
        .into_iter()
        .map(|(name, value)| (name.text, value.text))
        .collect()
}

struct Fault {
    place: Place,
    conflict: Option<Place>,
    reason: RuleFault,
}

impl Fault {
    fn at(place: Place, message: impl Into<String>) -> Self {
        Self {
            place,
            conflict: None,
            reason: RuleFault::Other(message.into()),
        }
    }
}

/// Returns the parsed expression and all errors of a rule.
fn check_rule(rule: &RawRule, options: ParseOptions) -> (Option<Expr>, Vec<Fault>) {
    let scheme = options.scheme;
    let mut faults = Vec::new();
    let (record, alert) = (&rule.record, &rule.alert);
    if !record.text.is_empty() && !alert.text.is_empty() {
        faults.push(Fault {
            conflict: Some(alert.place),
            ..Fault::at(record.place, "only one of 'record' and 'alert' must be set")
        });
    }
    if record.text.is_empty() && alert.text.is_empty() {
        faults.push(Fault::at(
            first_given(&[record, alert], rule.place),
            "one of 'record' or 'alert' must be set",
        ));
    }
    let expr = match &*rule.expr.text {
        "" => {
            let place = first_given(&[&rule.expr], rule.place);
            faults.push(Fault::at(place, "field 'expr' must be set in rule"));
            None
        }
        text => match narthex_promql::parse_with(text, options.language) {
            Ok(expr) => Some(expr),
            Err(error) => {
                faults.push(Fault {
                    place: rule.expr.place,
                    conflict: None,
                    reason: RuleFault::Expression(error),
                });
                None
            }
        },
    };
    if !record.text.is_empty() {
        check_recording(rule, scheme, &mut faults);
    }
    label_faults(&rule.labels, scheme, &mut |place, message| {
        faults.push(Fault::at(place, message));
    });
    for (name, _) in &rule.annotations {
        if !allows(name, scheme) {
            let message = format!("invalid annotation name: {}", name.text);
            faults.push(Fault::at(name.place, message));
        }
    }
    template_faults(rule, &mut faults);
    (expr, faults)
}

/// Reports templates of an alert that do not parse.
fn template_faults(rule: &RawRule, faults: &mut Vec<Fault>) {
    if rule.alert.text.is_empty() {
        // A recording rule's labels are no templates.
        return;
    }
    for (kind, pairs) in [("label", &rule.labels), ("annotation", &rule.annotations)] {
        for (name, text) in pairs {
            if let Err(error) = Template::parse(&rule.alert.text, &text.text) {
                let message = format!("{kind} {}: {error}", quote(&name.text));
                faults.push(Fault::at(text.place, message));
            }
        }
    }
}

/// Returns the place of the first text that is in the file, though empty.
fn first_given(texts: &[&Text], otherwise: Place) -> Place {
    let mut places = texts.iter().map(|text| text.place);
    places.find(|place| place.line > 0).unwrap_or(otherwise)
}

fn check_recording(rule: &RawRule, scheme: NameScheme, faults: &mut Vec<Fault>) {
    let record = &rule.record;
    for (given, key) in [
        (!rule.annotations.is_empty(), "annotations"),
        (rule.for_ms.is_some_and(|ms| ms != 0), "for"),
        (
            rule.keep_firing_for_ms.is_some_and(|ms| ms != 0),
            "keep_firing_for",
        ),
    ] {
        if given {
            let message = format!("invalid field '{key}' in recording rule");
            faults.push(Fault::at(record.place, message));
        }
    }
    if !record.valid || !scheme.allows_metric(&record.text) {
        let message = format!("invalid recording rule name: {}", record.text);
        faults.push(Fault::at(record.place, message));
    }
    if record.text.contains(['{', '}']) {
        let message = format!(
            "braces present in the recording rule name; should it be in expr?: {}",
            record.text
        );
        faults.push(Fault::at(record.place, message));
    }
}

/// Reports invalid names and values of labels.
fn label_faults(labels: &[(Text, Text)], scheme: NameScheme, fail: &mut impl FnMut(Place, String)) {
    for (name, value) in labels {
        if !allows(name, scheme) || name.text == METRIC_NAME {
            fail(name.place, format!("invalid label name: {}", name.text));
        }
        if !value.valid {
            fail(value.place, format!("invalid label value: {}", value.text));
        }
    }
}

fn allows(name: &Text, scheme: NameScheme) -> bool {
    name.valid && scheme.allows_label(&name.text)
}
