//! `info`: adds labels of info metrics to series with the same job and instance.
//!
//! **Invariant:** of several info series with one identity the most recently sampled one counts; two sampled at the
//! same time are an error. Info series themselves pass through unchanged.

use super::{
    Block, Eval, META_LABELS, Meter, Outcome, ROW_BYTES, Series,
    operation::braces,
    rows::Rows,
    select::{SampleSearch, Wanted},
};
use crate::{
    ast::Extension,
    error::QueryError,
    plan::{self, Call, Node, NodeKind, Reference, Select, Steps},
};
use narthex_model::{
    LabelSet, METRIC_NAME, MatchOp, Matcher, cell,
    storage::{Hints, Selector, TimeRange},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

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
        let reference = plan::shared_reference(base).unwrap_or_default();
        let block = self.collect(base, steps)?;
        let wish = Request::new(call.args.get(1));
        let mut meter = Meter::new(&self.memory);
        let labels = self.labels_of(&block, &mut meter)?;
        let is_info: Vec<bool> = labels
            .iter()
            .map(|l| wish.names.iter().all(|m| m.matches(l.metric_name())))
            .collect();
        let infos = self.info_series(&wish, &labels, &is_info, reference, steps)?;
        self.enrich(&block, &labels, &is_info, &infos, &wish, steps)
    }

    /// Reads the info series that may belong to any base series; the cells hold their sample times.
    fn info_series(
        &self,
        wish: &Request,
        labels: &[LabelSet],
        is_info: &[bool],
        reference: Reference,
        steps: Steps,
    ) -> Outcome<Block> {
        let mut infos = Block::new(steps.count);
        let select = Select {
            selector: 0,
            at_ms: reference.at_ms,
            offset_ms: reference.offset_ms,
            extension: Extension::None,
            one_name: false,
            stats_only: false,
            matchers: Vec::new(),
        };
        let selectors = self.info_selectors(wish, labels, is_info, &select, steps)?;
        if selectors.is_empty() {
            return Ok(infos);
        }
        let view = self.view.as_ref();
        let view = view.expect("a plan with `info` finds selectors");
        let prepared = view.prepare(&selectors, self.ctx)?;
        let look = SampleSearch {
            wanted: Wanted::TimeMs,
            lookback_ms: self.rules.lookback_ms,
        };
        for at in 0..selectors.len() {
            let batches = prepared.batches(at, self.ctx)?;
            self.select_blocks(&select, &batches, steps, look, &mut |block| {
                refuse_histograms(&block)?;
                infos.append(block);
                Ok(())
            })?;
        }
        Ok(infos)
    }

    /// Returns a selector for each set of identifying labels that base series have.
    fn info_selectors(
        &self,
        wish: &Request,
        labels: &[LabelSet],
        is_info: &[bool],
        select: &Select,
        steps: Steps,
    ) -> Outcome<Vec<Selector>> {
        // By which of the labels there are; what a series does not have must not be there.
        let mut values: BTreeMap<[bool; 2], [BTreeSet<&str>; 2]> = BTreeMap::new();
        for (labels, _) in labels.iter().zip(is_info).filter(|(_, is_info)| !**is_info) {
            let own = IDENTIFYING.map(|name| labels.get(name));
            if own.iter().all(Option::is_none) {
                continue;
            }
            let of_these = values.entry(own.map(|value| value.is_some())).or_default();
            for (values, value) in of_these.iter_mut().zip(own) {
                values.extend(value);
            }
        }
        let oldest = select
            .reference_ms(steps.start_ms)
            .saturating_sub(self.rules.lookback_ms - 1);
        let range = TimeRange::new(oldest, select.reference_ms(steps.last_ms()));
        let mut selectors = Vec::with_capacity(values.len());
        for values in values.into_values() {
            let mut matchers = Vec::new();
            for (name, values) in IDENTIFYING.iter().zip(values) {
                matchers.push(self.one_of(name, &values)?);
            }
            matchers.extend(wish.labels.values().flatten().cloned());
            matchers.extend(wish.names.iter().cloned());
            let hints = Hints {
                function: "info".into(),
                ..Hints::default()
            };
            selectors.push(Selector {
                matchers,
                range,
                hints,
            });
        }
        Ok(selectors)
    }

    /// Returns a matcher of some values, or of a label that is not there.
    fn one_of(&self, name: &str, values: &BTreeSet<&str>) -> Outcome<Matcher> {
        if values.is_empty() {
            return Ok(Matcher::equal(name, ""));
        }
        let bytes: usize = values.iter().map(|value| 2 * value.len() + 1).sum();
        let _pattern = self.memory.acquire(0, 3 * bytes as u64)?;
        let pattern: Vec<String> = values.iter().map(|value| regex::escape(value)).collect();
        let pattern = pattern.join("|");
        Ok(Matcher::within(
            MatchOp::Regex,
            name,
            &pattern,
            &self.ctx.clone().into(),
        )?)
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
                let Some(value) = base.sample(row, step).value() else {
                    continue;
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

/// Fails when an info series has a histogram.
fn refuse_histograms(block: &Block) -> Outcome<()> {
    if block.histograms.is_empty() {
        return Ok(());
    }
    let is_histogram = |row: &usize| {
        let mut cells = block.row(*row).iter();
        cells.any(|x| !cell::is_float(*x) && !cell::is_absent(*x))
    };
    let found = (0..block.len()).find(is_histogram);
    let labels = found.map(|row| block.series[row].labels());
    let text = braces(&labels.unwrap_or_default());
    Err(QueryError::Execution(format!(
        "this should be an info metric, with float samples: {text}"
    )))
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
            if META_LABELS.contains(&name)
                || (!self.labels.is_empty() && !self.labels.contains_key(name))
            {
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
