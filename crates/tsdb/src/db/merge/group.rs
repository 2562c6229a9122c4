//! How the strips of several blocks with the same common labels become strips of one block.
//!
//! **Invariant:** every series is in exactly one of the resulting strips.

use crate::block::StripCursor;
use narthex_model::LabelSet;
use std::collections::HashMap;

/// A series that is in one of every so many rows of a strip joins it; a rarer one gets a strip of its own.
const LEAST_SHARE: usize = 4;

/// One strip to be written.
#[derive(Debug)]
pub(super) struct Target {
    /// The time of each row.
    pub(super) times_ms: Vec<i64>,
    /// The inputs that have anything of it, by number, and the target's row of each of their rows.
    pub(super) inputs: Vec<(usize, Vec<u32>)>,
    pub(super) series: Vec<Series>,
}

/// One series and where it comes from: inputs with the column, in the order of precedence.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) set: LabelSet,
    pub(super) sources: Vec<(usize, u32)>,
}

/// Divides the series of `inputs`, in the order of precedence, among strips of at most `most_rows` rows; where a
/// series has more than that, its inputs stay apart.
pub(super) fn divide(inputs: &[StripCursor], most_rows: usize) -> Vec<Target> {
    let mut left = collect(inputs);
    let mut targets = Vec::new();
    while let Some(leader) = leader_of(&left) {
        let times_ms = union_of(inputs, &leader);
        if times_ms.len() > most_rows {
            let (own, rest) = left
                .into_iter()
                .partition(|series| signature(series) == leader);
            left = rest;
            targets.extend(apart(inputs, own));
            continue;
        }
        let joins = |series: &Series| {
            let within = series
                .sources
                .iter()
                .all(|source| leader.contains(&source.0));
            let rows = series
                .sources
                .iter()
                .map(|source| inputs[source.0].times_ms.len());
            within && rows.sum::<usize>() * LEAST_SHARE >= times_ms.len()
        };
        let (own, rest) = left.into_iter().partition(joins);
        left = rest;
        targets.push(target(inputs, &leader, times_ms, own));
    }
    targets
}

fn collect(inputs: &[StripCursor]) -> Vec<Series> {
    let mut places: HashMap<LabelSet, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut all: Vec<Series> = Vec::new();
    for (input, cursor) in inputs.iter().enumerate() {
        for (column, set) in (0u32..).zip(&cursor.sets) {
            let at = *places.entry(set.clone()).or_insert(all.len());
            match all.get_mut(at) {
                Some(series) => series.sources.push((input, column)),
                None => all.push(Series {
                    set: set.clone(),
                    sources: vec![(input, column)],
                }),
            }
        }
    }
    all
}

/// Returns the inputs of a series, each once.
fn signature(series: &Series) -> Vec<usize> {
    let mut inputs: Vec<usize> = series.sources.iter().map(|source| source.0).collect();
    inputs.dedup();
    inputs
}

/// Returns the inputs that the most series have in common exactly; of equals, those of the first series.
fn leader_of(left: &[Series]) -> Option<Vec<usize>> {
    let mut counts: HashMap<Vec<usize>, (usize, usize)> = HashMap::new();
    for (at, series) in left.iter().enumerate() {
        counts.entry(signature(series)).or_insert((0, at)).0 += 1;
    }
    let best = counts
        .into_iter()
        .max_by_key(|(_, (count, first))| (*count, std::cmp::Reverse(*first)));
    best.map(|(inputs, _)| inputs)
}

fn union_of(inputs: &[StripCursor], chosen: &[usize]) -> Vec<i64> {
    let times = chosen
        .iter()
        .flat_map(|input| inputs[*input].times_ms.iter().copied());
    let mut times_ms: Vec<i64> = times.collect();
    times_ms.sort_unstable();
    times_ms.dedup();
    times_ms
}

fn target(
    inputs: &[StripCursor],
    chosen: &[usize],
    times_ms: Vec<i64>,
    series: Vec<Series>,
) -> Target {
    let rows_of = |input: &usize| {
        let mut row = 0;
        let rows = inputs[*input].times_ms.iter().map(|time_ms| {
            row += times_ms[row..].partition_point(|other| other < time_ms);
            row as u32
        });
        (*input, rows.collect())
    };
    Target {
        inputs: chosen.iter().map(rows_of).collect(),
        times_ms,
        series,
    }
}

/// Returns a strip for each input of series that have too many rows together.
fn apart(inputs: &[StripCursor], series: Vec<Series>) -> Vec<Target> {
    let Some(chosen) = series.first().map(signature) else {
        return Vec::new();
    };
    let own = |input: &usize| {
        let of_input = series.iter().map(|series| Series {
            set: series.set.clone(),
            sources: series
                .sources
                .iter()
                .copied()
                .filter(|source| source.0 == *input)
                .collect(),
        });
        let times_ms = inputs[*input].times_ms.clone();
        target(inputs, &[*input], times_ms, of_input.collect())
    };
    chosen.iter().map(own).collect()
}
