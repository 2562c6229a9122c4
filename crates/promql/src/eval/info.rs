//! `info`: adds labels of info metrics to series with the same job and instance.
//!
//! **Invariant:** of several info series with one identity the most recently sampled one counts; two sampled at the
//! same time are an error. Info series themselves pass through unchanged.

use super::{
    Block, Eval, Meter, Outcome, ROW_BYTES, Sample, Series, Value,
    operation::braces,
    rows::Rows,
    select::{SampleSearch, Wanted},
};
use crate::{
    ast::Extension,
    error::QueryError,
    plan::{Call, Node, NodeKind, Select, Source, Steps, Subquery},
};
use narthex_model::{
    LabelSet, METRIC_NAME, MatchOp, Matcher, cell,
    storage::{Hints, Selector, TimeRange},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Labels that link a series to its info series.
const IDENTIFYING: [&str; 2] = ["instance", "job"];

/// Work of reading a series' labels, in samples read.
const INFO_WORK: usize = 64;

/// The request in the second argument.
struct Request {
    names: Vec<Matcher>,
    labels: BTreeMap<String, Vec<Matcher>>,
}

impl Eval<'_> {
    pub(super) fn info(&self, call: &Call, base: &Node, steps: Steps) -> Outcome<Block> {
        let (at_ms, offset_ms) = reference(base).unwrap_or((None, 0));
        let block = self.collect(base, steps)?;
        let wish = Request::new(call.args.get(1));
        let mut meter = Meter::new(&self.memory);
        let labels = self.labels_of(&block, &mut meter)?;
        let is_info: Vec<bool> = labels
            .iter()
            .map(|l| wish.names.iter().all(|m| m.matches(l.metric_name())))
            .collect();
        let infos = self.info_series(&wish, &labels, &is_info, at_ms, offset_ms, steps)?;
        self.enrich(&block, &labels, &is_info, &infos, &wish, steps)
    }

    /// Reads the info series that may belong to any base series; the cells hold their sample times.
    fn info_series(
        &self,
        wish: &Request,
        labels: &[LabelSet],
        is_info: &[bool],
        at_ms: Option<i64>,
        offset_ms: i64,
        steps: Steps,
    ) -> Outcome<Block> {
        let mut matchers = Vec::new();
        for name in IDENTIFYING {
            let bases = labels.iter().zip(is_info).filter(|(_, is_info)| !**is_info);
            let values: BTreeSet<&str> = bases.filter_map(|(l, _)| l.get(name)).collect();
            if !values.is_empty() {
                let bytes: usize = values.iter().map(|value| 2 * value.len() + 1).sum();
                let _pattern = self.memory.acquire(0, 3 * bytes as u64)?;
                let pattern: Vec<String> = values.iter().map(|v| regex::escape(v)).collect();
                let pattern = pattern.join("|");
                matchers.push(Matcher::within(MatchOp::Regex, name, &pattern, self.ctx)?);
            }
        }
        let mut infos = Block::new(steps.count);
        if matchers.is_empty() {
            return Ok(infos);
        }
        matchers.extend(wish.labels.values().flatten().cloned());
        matchers.extend(wish.names.iter().cloned());
        let select = Select {
            selector: 0,
            at_ms,
            offset_ms,
            extension: Extension::None,
            one_name: false,
            stats_only: false,
            matchers: Vec::new(),
        };
        let oldest = select
            .reference_ms(steps.start_ms)
            .saturating_sub(self.rules.lookback_ms - 1);
        let range = TimeRange::new(oldest, select.reference_ms(steps.last_ms()));
        let hints = Hints {
            function: "info".into(),
            ..Hints::default()
        };
        let view = self.view.as_ref();
        let view = view.expect("a plan with `info` finds selectors");
        let prepared = view.prepare(
            &[Selector {
                matchers,
                range,
                hints,
            }],
            self.ctx,
        )?;
        let batches = prepared.batches(0, self.ctx)?;
        let look = SampleSearch {
            wanted: Wanted::TimeMs,
            lookback_ms: self.rules.lookback_ms,
        };
        self.select_blocks(&select, &batches, steps, look, &mut |block| {
            if !block.histograms.is_empty() {
                let is_histogram = |row: &usize| {
                    block
                        .row(*row)
                        .iter()
                        .any(|x| !cell::is_float(*x) && !cell::is_absent(*x))
                };
                let labels = (0..block.len())
                    .find(is_histogram)
                    .map(|row| block.series[row].labels());
                let text = braces(&labels.unwrap_or_default());
                return Err(QueryError::Execution(format!(
                    "this should be an info metric, with float samples: {text}"
                )));
            }
            infos.append(block);
            Ok(())
        })?;
        Ok(infos)
    }

    /// Returns the labels of all rows, leasing their memory with `meter`.
    fn labels_of(&self, block: &Block, meter: &mut Meter) -> Outcome<Vec<LabelSet>> {
        let mut pace = self.ctx.stop.pace();
        let labels = |series: &Series| {
            pace.spend(INFO_WORK)?;
            let labels = series.labels();
            // Once in the result, once as the lookup key.
            meter.add(ROW_BYTES + 2 * labels.heap_bytes())?;
            Ok(labels)
        };
        block.series.iter().map(labels).collect()
    }

    fn enrich(
        &self,
        base: &Block,
        labels: &[LabelSet],
        is_info: &[bool],
        infos: &Block,
        wish: &Request,
        steps: Steps,
    ) -> Outcome<Block> {
        let mut meter = Meter::new(&self.memory);
        let info_labels = self.labels_of(infos, &mut meter)?;
        let mut pace = self.ctx.stop.pace();
        // By identity, then by metric name.
        let mut by_identity: HashMap<LabelSet, BTreeMap<&str, Vec<usize>>> = HashMap::new();
        for (row, l) in info_labels.iter().enumerate() {
            pace.spend(INFO_WORK)?;
            let names = by_identity.entry(l.only(&IDENTIFYING)).or_default();
            names.entry(l.metric_name()).or_default().push(row);
        }
        let mut rows = Rows::new(steps.count, &self.memory);
        for step in 0..steps.count {
            self.ctx.stop.check()?;
            refuse_ties(&by_identity, infos, &info_labels, step)?;
            pace.spend(infos.len() * INFO_WORK)?;
            for row in 0..base.len() {
                pace.spend(INFO_WORK)?;
                let value = match base.sample(row, step) {
                    Sample::Absent => continue,
                    Sample::Float(x) => Value::Float(x),
                    Sample::Histogram(h) => Value::Histogram(Arc::clone(h)),
                };
                let mut series = base.series[row].clone();
                if !is_info[row] {
                    let found = by_identity.get(&labels[row].only(&IDENTIFYING));
                    let found = found.into_iter().flat_map(|names| names.values());
                    let infos_here = found.filter_map(|rows| newest(infos, rows, step));
                    let infos_here: Vec<&LabelSet> =
                        infos_here.map(|info| &info_labels[info]).collect();
                    let Some(extra) = wish.extra(&labels[row], &infos_here)? else {
                        continue;
                    };
                    series = Series::new(labels[row].union(&extra));
                    series.drop_name = base.series[row].drop_name;
                }
                let to = rows.row(&series)?;
                rows.store(to, step, value)?;
            }
        }
        Ok(rows.finish())
    }
}

fn sampled_ms(infos: &Block, row: usize, step: usize) -> Option<f64> {
    let x = infos.row(row)[step];
    cell::is_float(x).then_some(x)
}

/// Returns the most recently sampled row.
fn newest(infos: &Block, rows: &[usize], step: usize) -> Option<usize> {
    let times = rows
        .iter()
        .filter_map(|row| Some((sampled_ms(infos, *row, step)?, *row)));
    times
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, row)| row)
}

/// Fails when two info series of one identity and name were sampled last at the same time.
fn refuse_ties(
    by_identity: &HashMap<LabelSet, BTreeMap<&str, Vec<usize>>>,
    infos: &Block,
    labels: &[LabelSet],
    step: usize,
) -> Outcome<()> {
    for rows in by_identity
        .values()
        .flat_map(BTreeMap::values)
        .filter(|rows| rows.len() > 1)
    {
        let mut best: Option<(f64, usize)> = None;
        for row in rows {
            let Some(time) = sampled_ms(infos, *row, step) else {
                continue;
            };
            if let Some((best_time, other)) = best {
                if best_time == time {
                    let (a, b) = (braces(&labels[other]), braces(&labels[*row]));
                    let text = format!(
                        "found duplicate series for info metric: existing {a} @ {time}, new {b} @ {time}"
                    );
                    return Err(QueryError::Execution(text));
                }
                if best_time > time {
                    continue;
                }
            }
            best = Some((time, *row));
        }
    }
    Ok(())
}

impl Request {
    fn new(selector: Option<&Node>) -> Self {
        let mut labels: BTreeMap<String, Vec<Matcher>> = BTreeMap::new();
        let mut names = Vec::new();
        if let Some(NodeKind::Select(select)) = selector.map(|node| &node.kind) {
            for matcher in &select.matchers {
                if &*matcher.name == METRIC_NAME {
                    names.push(matcher.clone());
                } else {
                    labels
                        .entry(matcher.name.to_string())
                        .or_default()
                        .push(matcher.clone());
                }
            }
        }
        let positive = |m: &Matcher| matches!(m.op, MatchOp::Equal | MatchOp::Regex);
        if names.is_empty() {
            names.push(Matcher::equal(METRIC_NAME, "target_info"));
        } else if !names.iter().any(positive) {
            // Negative matchers alone would also select everything other than info metrics.
            names.extend(Matcher::new(MatchOp::Regex, METRIC_NAME, ".+_info"));
        }
        Self { names, labels }
    }

    /// Returns the labels to add, or `None` to leave out the series.
    fn extra(&self, base: &LabelSet, infos: &[&LabelSet]) -> Outcome<Option<LabelSet>> {
        let mut extra = narthex_model::LabelSetBuilder::default();
        for label in infos.iter().flat_map(|info| info.iter()) {
            let name = label.name();
            if name == METRIC_NAME || (!self.labels.is_empty() && !self.labels.contains_key(name)) {
                continue;
            }
            if extra.get(name).is_some_and(|value| value != label.value()) {
                return Err(QueryError::Execution(format!("conflicting label: {name}")));
            }
            if base.get(name).is_none() {
                extra.set_label(label.clone());
            }
        }
        let needs_info = self.labels.values().flatten().any(|m| !m.matches_empty());
        if infos.is_empty() && needs_info {
            Ok(None)
        } else {
            Ok(Some(extra.finish()))
        }
    }
}

/// Returns the pinned time and offset of the first selector below a node, including those of enclosing subqueries.
fn reference(node: &Node) -> Option<(Option<i64>, i64)> {
    let of_select = |s: &Select| Some((s.at_ms, s.offset_ms));
    let of_subquery = |s: &Subquery| {
        let (at_ms, offset_ms) = reference(&s.inner)?;
        Some(if at_ms.is_some() {
            (at_ms, offset_ms)
        } else {
            (s.at_ms, offset_ms + s.offset_ms)
        })
    };
    match &node.kind {
        NodeKind::Select(s) => of_select(s),
        NodeKind::Window(w) => of_select(&w.select),
        NodeKind::Subquery(s) => of_subquery(s),
        NodeKind::Over(over) => match &over.source {
            Source::Window(w) => of_select(&w.select),
            Source::Subquery(s) => of_subquery(s),
        },
        NodeKind::Call(call) => call.args.iter().find_map(reference),
        NodeKind::Aggregate(a) => {
            reference(&a.input).or_else(|| a.param.as_ref().and_then(reference))
        }
        NodeKind::Binary(b) => reference(&b.lhs).or_else(|| reference(&b.rhs)),
        NodeKind::Negate(inner) | NodeKind::StepInvariant(inner) => reference(inner),
        NodeKind::Number(_) | NodeKind::Text(_) => None,
    }
}
