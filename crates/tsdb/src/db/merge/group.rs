//! How the strips of several blocks with the same common labels become strips of one block.
//!
//! **Invariant:** every series is in exactly one of the resulting strips, unless it has more rows than a strip may have.

use crate::block::StripCursor;
use narthex_model::LabelSet;
use std::collections::{HashMap, VecDeque};

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

/// With more kinds of series than this, as scattered ones have, each kind gets strips of its own.
const MOST_JOINED: usize = 64;

/// Series that are in exactly the same inputs.
struct Kind {
    inputs: Vec<usize>,
    /// By place among all series, ascending.
    series: Vec<(usize, Series)>,
}

/// Divides the series of `inputs`, in the order of precedence, among strips of at most `most_rows` rows; where a
/// series has more than that, its inputs stay apart.
pub(super) fn divide(inputs: &[StripCursor], most_rows: usize) -> Vec<Target> {
    let mut kinds = kinds_of(inputs);
    let joining = kinds.len() <= MOST_JOINED;
    // The largest first, which others may join; of equals the one that came first.
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.series.len()));
    let mut targets = Vec::new();
    let mut left = VecDeque::from(kinds);
    while let Some(mut leader) = left.pop_front() {
        let times_ms = union_of(inputs, &leader.inputs);
        if times_ms.len() > most_rows {
            targets.extend(apart(inputs, leader));
            continue;
        }
        if joining {
            let joins = |kind: &Kind| {
                let rows = kind
                    .inputs
                    .iter()
                    .map(|input| inputs[*input].times_ms.len());
                kind.inputs
                    .iter()
                    .all(|input| leader.inputs.contains(input))
                    && rows.sum::<usize>() * LEAST_SHARE >= times_ms.len()
            };
            let (own, rest): (VecDeque<Kind>, VecDeque<Kind>) = left.into_iter().partition(joins);
            left = rest;
            leader
                .series
                .extend(own.into_iter().flat_map(|kind| kind.series));
            leader.series.sort_by_key(|(place, _)| *place);
        }
        let series = leader.series.into_iter().map(|(_, series)| series);
        targets.push(target(inputs, &leader.inputs, times_ms, series.collect()));
    }
    targets
}

/// Sorts series by the inputs they are in, in the order of first appearance.
fn kinds_of(inputs: &[StripCursor]) -> Vec<Kind> {
    let mut places: HashMap<Vec<usize>, usize> = HashMap::new();
    let mut kinds: Vec<Kind> = Vec::new();
    for (place, series) in collect(inputs).into_iter().enumerate() {
        let mut of_series: Vec<usize> = series.sources.iter().map(|source| source.0).collect();
        of_series.dedup();
        let at = *places.entry(of_series).or_insert_with_key(|of_series| {
            kinds.push(Kind {
                inputs: of_series.clone(),
                series: Vec::new(),
            });
            kinds.len() - 1
        });
        kinds[at].series.push((place, series));
    }
    kinds
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
fn apart(inputs: &[StripCursor], kind: Kind) -> Vec<Target> {
    let Kind {
        inputs: chosen,
        series,
    } = kind;
    let own = |input: &usize| {
        let of_input = series.iter().map(|(_, series)| Series {
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
