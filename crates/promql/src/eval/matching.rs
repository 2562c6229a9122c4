//! Binary operators between vectors: finding partners.
//!
//! **Invariant:** partners have equal hashes of the labels to match; on the "one" side a match group has at most one
//! series at a step; results with equal labels at one step are an error.

use super::{
    Block, Eval, META_LABELS, Outcome, Sample, Series, Value,
    binary::{Combined, combine},
    rows::Rows,
};
use crate::{
    ast::{BinaryOp, Cardinality, VectorMatching},
    error::QueryError,
    fmt::quote,
    plan::{Binary, Steps},
    span::Span,
};
use narthex_model::{LabelHash, LabelSet, METRIC_NAME, cell, storage::Grouping};
use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

/// One operation between two vectors.
pub(super) struct Operation<'a> {
    eval: &'a Eval<'a>,
    op: BinaryOp,
    matching: &'a VectorMatching,
    return_bool: bool,
    span: Span,
}

/// The match group of each row, numbered over both sides.
struct Groups {
    lhs: Vec<usize>,
    rhs: Vec<usize>,
    count: usize,
}

impl<'a> Operation<'a> {
    pub(super) fn new(eval: &'a Eval<'a>, b: &'a Binary, span: Span) -> Self {
        Self {
            eval,
            op: b.op,
            matching: &b.matching,
            return_bool: b.return_bool,
            span,
        }
    }

    pub(super) fn run(&self, lhs: &Block, rhs: &Block, steps: Steps) -> Outcome<Block> {
        let groups = self.groups(lhs, rhs);
        if self.op.is_set() {
            return set_operation(self.op, lhs, rhs, &groups, steps.count);
        }
        // The right side is the "one" side from here on.
        if self.matching.cardinality == Cardinality::OneToMany {
            let swapped = Groups {
                lhs: groups.rhs,
                rhs: groups.lhs,
                count: groups.count,
            };
            return self.arithmetic(rhs, lhs, &swapped, steps);
        }
        self.arithmetic(lhs, rhs, &groups, steps)
    }

    fn groups(&self, lhs: &Block, rhs: &Block) -> Groups {
        let mut names: Vec<Box<str>> = self
            .matching
            .labels
            .iter()
            .map(|name| name.as_str().into())
            .collect();
        if !self.matching.on {
            names.push(METRIC_NAME.into());
        }
        names.sort_unstable();
        names.dedup();
        let grouping = Grouping {
            without: !self.matching.on,
            names,
        };
        let mut numbers: HashMap<LabelHash, usize> =
            HashMap::with_capacity(lhs.len().max(rhs.len()));
        let mut number = |series: &Series| {
            let next = numbers.len();
            *numbers.entry(series.group_key(&grouping)).or_insert(next)
        };
        let left: Vec<usize> = lhs.series.iter().map(&mut number).collect();
        let right: Vec<usize> = rhs.series.iter().map(&mut number).collect();
        let count = numbers.len();
        Groups {
            lhs: left,
            rhs: right,
            count,
        }
    }

    fn arithmetic(
        &self,
        many: &Block,
        one: &Block,
        groups: &Groups,
        steps: Steps,
    ) -> Outcome<Block> {
        let mut rows = Rows::new(steps.count);
        let mut labels = ResultLabels::default();
        let matched_labels = |series: &Series| self.match_labels(&series.labels());
        let one_to_one = self.matching.cardinality == Cardinality::OneToOne;
        let swapped = self.matching.cardinality == Cardinality::OneToMany;
        // Prometheus fills by position after the sides have been swapped, so `group_right` does not turn these round.
        let (fill_many, fill_one) = (self.matching.fill_left, self.matching.fill_right);
        let mut of_group: Vec<Option<usize>> = vec![None; groups.count];
        let mut matched: Vec<bool> = vec![false; groups.count];
        let mut results: HashSet<(usize, LabelHash)> = HashSet::new();
        for step in 0..steps.count {
            self.eval.ctx.stop.check()?;
            of_group.fill(None);
            matched.fill(false);
            results.clear();
            let mut last_note = None;
            for (row, group) in groups.rhs.iter().enumerate() {
                if matches!(one.sample(row, step), Sample::Absent) {
                    continue;
                }
                if let Some(other) = of_group[*group] {
                    return Err(self.duplicate(&one.series[row], &one.series[other], swapped));
                }
                of_group[*group] = Some(row);
            }
            let mut pair = |m: Option<usize>, o: Option<usize>, group: usize| -> Outcome<()> {
                let fill = |value: Option<f64>| Sample::Float(value.unwrap_or_default());
                let many_sample = m.map_or(fill(fill_many), |row| many.sample(row, step));
                let one_sample = o.map_or(fill(fill_one), |row| one.sample(row, step));
                let (l, r) = if swapped {
                    (one_sample, many_sample)
                } else {
                    (many_sample, one_sample)
                };
                let Combined {
                    value,
                    keep,
                    info,
                    warning,
                } = combine(self.op, l, r, self.span);
                if warning.is_some() || (value.is_none() && info.is_some()) {
                    last_note = warning.or(info);
                    return Ok(());
                }
                if info.is_some() {
                    last_note = info;
                }
                let series = labels.of((m, o), || {
                    let many_labels = m.map(|row| many.series[row].labels());
                    let one_labels = o.map(|row| one.series[row].labels());
                    let filled_many = many_labels.unwrap_or_else(|| {
                        o.map(|row| matched_labels(&one.series[row]))
                            .unwrap_or_default()
                    });
                    let filled_one = one_labels.unwrap_or_else(|| {
                        m.map(|row| matched_labels(&many.series[row]))
                            .unwrap_or_default()
                    });
                    self.result(&filled_many, &filled_one)
                });
                if one_to_one {
                    if std::mem::replace(&mut matched[group], true) {
                        return Err(execution(
                            "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
                        ));
                    }
                } else {
                    matched[group] = true;
                    if !results.insert((group, series.labels().hash())) {
                        return Err(execution(
                            "multiple matches for labels: grouping labels must ensure unique matches",
                        ));
                    }
                }
                let value = if self.return_bool {
                    Some(Value::Float(f64::from(keep)))
                } else {
                    value.filter(|_| keep)
                };
                match value {
                    Some(value) => {
                        let row = rows.row(&series);
                        rows.put(row, step, value)
                    }
                    None => Ok(()),
                }
            };
            for (row, group) in groups.lhs.iter().enumerate() {
                if matches!(many.sample(row, step), Sample::Absent) {
                    continue;
                }
                let partner = of_group[*group];
                if partner.is_some() || fill_one.is_some() {
                    pair(Some(row), partner, *group)?;
                }
            }
            if fill_many.is_some() {
                for (row, group) in groups.rhs.iter().enumerate() {
                    let present = !matches!(one.sample(row, step), Sample::Absent);
                    // Which groups have been matched is known by now; a fill matches its own.
                    let unmatched = present
                        && !groups_matched(&groups.lhs, many, step, *group, &of_group, fill_one);
                    if unmatched {
                        pair(None, Some(row), *group)?;
                    }
                }
            }
            if let Some(note) = last_note {
                self.eval.notes().add_at(note, steps.time_ms(step));
            }
        }
        Ok(rows.finish())
    }

    fn match_labels(&self, labels: &LabelSet) -> LabelSet {
        let mut names: Vec<&str> = self.matching.labels.iter().map(String::as_str).collect();
        if self.matching.on {
            return labels.only(&names);
        }
        names.push(METRIC_NAME);
        labels.without(&names)
    }

    /// Returns the labels of the result of a pair.
    fn result(&self, many: &LabelSet, one: &LabelSet) -> Series {
        let drops_now = self.return_bool && !self.eval.rules.delayed_name_removal;
        let mut labels = many.clone();
        if drops_now || self.op.changes_meaning() {
            labels = labels.without(&META_LABELS);
        }
        if self.matching.cardinality == Cardinality::OneToOne {
            let names: Vec<&str> = self.matching.labels.iter().map(String::as_str).collect();
            labels = if self.matching.on {
                labels.only(&names)
            } else {
                labels.without(&names)
            };
        }
        for name in &self.matching.include {
            labels = labels.with(name, one.get(name).unwrap_or_default());
        }
        let mut series = Series::new(labels);
        series.drop_name = self.return_bool;
        series
    }

    fn duplicate(&self, a: &Series, b: &Series, swapped: bool) -> QueryError {
        let group = braces(&self.match_labels(&a.labels()));
        let side = if swapped { "left" } else { "right" };
        let mut names = [braces(&a.labels()), braces(&b.labels())];
        names.sort();
        let [first, second] = names;
        execution(&format!(
            "found duplicate series for the match group {group} on the {side} hand-side of the operation: [{first}, {second}];many-to-many matching not allowed: matching labels must be unique on one side"
        ))
    }
}

/// Reports whether a row of the "many" side matches the group at this step.
fn groups_matched(
    many_groups: &[usize],
    many: &Block,
    step: usize,
    group: usize,
    of_group: &[Option<usize>],
    fill_one: Option<f64>,
) -> bool {
    (of_group[group].is_some() || fill_one.is_some())
        && many_groups
            .iter()
            .enumerate()
            .any(|(row, g)| *g == group && !matches!(many.sample(row, step), Sample::Absent))
}

/// The result labels of pairs of rows; a missing partner is `None`.
#[derive(Default)]
struct ResultLabels(HashMap<(Option<usize>, Option<usize>), Series>);

impl ResultLabels {
    fn of(
        &mut self,
        pair: (Option<usize>, Option<usize>),
        build: impl FnOnce() -> Series,
    ) -> Series {
        self.0.entry(pair).or_insert_with(build).clone()
    }
}

fn execution(text: &str) -> QueryError {
    QueryError::Execution(text.to_owned())
}

/// Writes labels like Prometheus' `Labels.String`: the metric name is a label like all others.
pub(super) fn braces(labels: &LabelSet) -> String {
    let mut text = String::from("{");
    for (at, label) in labels.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        if narthex_model::labels::is_legacy_name(label.name()) {
            let _ = write!(text, "{separator}{}={}", label.name(), quote(label.value()));
        } else {
            let _ = write!(
                text,
                "{separator}{}={}",
                quote(label.name()),
                quote(label.value())
            );
        }
    }
    text.push('}');
    text
}

fn set_operation(
    op: BinaryOp,
    lhs: &Block,
    rhs: &Block,
    groups: &Groups,
    steps: usize,
) -> Outcome<Block> {
    let present = |block: &Block, of: &[usize]| {
        let mut present = vec![false; groups.count * steps];
        for (row, group) in of.iter().enumerate() {
            for (step, x) in block.row(row).iter().enumerate() {
                present[group * steps + step] |= !cell::is_absent(*x);
            }
        }
        present
    };
    let mut rows = Rows::new(steps);
    let mut copy = |block: &Block, of: &[usize], keep: &dyn Fn(usize) -> bool| -> Outcome<()> {
        for (row, group) in of.iter().enumerate() {
            let mut to = None;
            for step in 0..steps {
                let value = match block.sample(row, step) {
                    Sample::Absent => continue,
                    Sample::Float(x) => Value::Float(x),
                    Sample::Histogram(h) => Value::Histogram(Arc::clone(h)),
                };
                if keep(group * steps + step) {
                    let to = *to.get_or_insert_with(|| rows.row(&block.series[row]));
                    rows.put(to, step, value)?;
                }
            }
        }
        Ok(())
    };
    match op {
        BinaryOp::And => {
            let right = present(rhs, &groups.rhs);
            copy(lhs, &groups.lhs, &|at| right[at])?;
        }
        BinaryOp::Unless => {
            let right = present(rhs, &groups.rhs);
            copy(lhs, &groups.lhs, &|at| !right[at])?;
        }
        _ => {
            let left = present(lhs, &groups.lhs);
            copy(lhs, &groups.lhs, &|_| true)?;
            copy(rhs, &groups.rhs, &|at| !left[at])?;
        }
    }
    Ok(rows.finish())
}
