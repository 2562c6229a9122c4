//! Grouping of several blocks' strips with the same common labels into strips of one block.
//!
//! **Invariant:** every series is in exactly one of the resulting strips, unless it has more rows than a strip may have.

use crate::block::StripCursor;
use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::Arc,
};

/// A series with at least one in this many rows of a strip joins it; a rarer one gets a strip of its own.
const LEAST_SHARE: usize = 4;

/// One strip to be written.
#[derive(Debug)]
pub(super) struct Target {
    /// Time of each row.
    pub(super) times_ms: Vec<i64>,
    /// Inputs that contribute to it, by number, and the target's row for each of their rows.
    pub(super) inputs: Vec<(usize, Vec<u32>)>,
    pub(super) series: Vec<Series>,
    /// Source columns of all series.
    columns: Arc<[Column]>,
}

/// One series and its sources.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// Its local set, by number.
    pub(super) set: u32,
    /// Inputs with the column, in order of precedence, as indexes in the list of columns.
    columns: Range<u32>,
}

/// A column of an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    place: u32,
    pub(super) input: u32,
    pub(super) column: u32,
}

/// With more groups of series than this, as ungrouped series have, each group gets strips of its own.
const MOST_JOINED: usize = 64;

/// Series that are in exactly the same inputs.
struct SeriesGroup {
    inputs: Vec<usize>,
    /// By index among all series, ascending.
    series: Vec<(u32, Series)>,
}

impl Target {
    /// Returns the source columns of a series, in order of precedence.
    pub(super) fn columns_of(&self, series: &Series) -> &[Column] {
        &self.columns[series.columns.start as usize..series.columns.end as usize]
    }
}

/// Divides the series of `inputs`, in order of precedence, among strips of at most `most_rows` rows; where a series
/// has more, its inputs stay separate.
pub(super) fn divide(inputs: &[StripCursor], most_rows: usize) -> Vec<Target> {
    let (columns, all) = collect(inputs);
    let mut groups = groups_of(&columns, all);
    let joining = groups.len() <= MOST_JOINED;
    // The largest first, which others may join; among equals the first to appear.
    groups.sort_by_key(|group| std::cmp::Reverse(group.series.len()));
    let mut targets = Vec::new();
    let mut left = VecDeque::from(groups);
    while let Some(mut leader) = left.pop_front() {
        let times_ms = union_of(inputs, &leader.inputs);
        if times_ms.len() > most_rows {
            targets.extend(ungrouped(inputs, &columns, leader));
            continue;
        }
        if joining {
            let joins = |group: &SeriesGroup| {
                let rows = group
                    .inputs
                    .iter()
                    .map(|input| inputs[*input].times_ms.len());
                group
                    .inputs
                    .iter()
                    .all(|input| leader.inputs.contains(input))
                    && rows.sum::<usize>() * LEAST_SHARE >= times_ms.len()
            };
            let (own, rest): (VecDeque<SeriesGroup>, VecDeque<SeriesGroup>) =
                left.into_iter().partition(joins);
            left = rest;
            leader
                .series
                .extend(own.into_iter().flat_map(|group| group.series));
            leader.series.sort_by_key(|(place, _)| *place);
        }
        let series = leader.series.into_iter().map(|(_, series)| series);
        let chosen = (&*leader.inputs, &columns);
        targets.push(target(inputs, chosen, times_ms, series.collect()));
    }
    targets
}

/// Groups series by the inputs that have them, in order of first appearance.
fn groups_of(columns: &[Column], all: Vec<Series>) -> Vec<SeriesGroup> {
    let mut places: HashMap<Vec<usize>, usize> = HashMap::new();
    let mut groups: Vec<SeriesGroup> = Vec::new();
    let mut inputs: Vec<usize> = Vec::new();
    for (place, series) in (0u32..).zip(all) {
        let own = &columns[series.columns.start as usize..series.columns.end as usize];
        inputs.clear();
        inputs.extend(own.iter().map(|column| column.input as usize));
        inputs.dedup();
        let at = match places.get(&inputs) {
            Some(at) => *at,
            None => {
                groups.push(SeriesGroup {
                    inputs: inputs.clone(),
                    series: Vec::new(),
                });
                places.insert(inputs.clone(), groups.len() - 1);
                groups.len() - 1
            }
        };
        groups[at].series.push((place, series));
    }
    groups
}

/// Lists all columns by series, and the series in order of first appearance.
fn collect(inputs: &[StripCursor]) -> (Arc<[Column]>, Vec<Series>) {
    let mut places: HashMap<u32, u32, foldhash::fast::RandomState> = HashMap::default();
    let mut sets: Vec<u32> = Vec::new();
    let mut columns: Vec<Column> = Vec::new();
    for (input, cursor) in (0u32..).zip(inputs) {
        for (column, set) in (0u32..).zip(&cursor.sets) {
            let place = *places.entry(*set).or_insert_with(|| {
                sets.push(*set);
                number(sets.len() - 1)
            });
            columns.push(Column {
                place,
                input,
                column,
            });
        }
    }
    // Stable: a series' inputs stay in order of precedence.
    columns.sort_by_key(|column| column.place);
    let mut series = Vec::with_capacity(sets.len());
    for own in columns.chunk_by(|a, b| a.place == b.place) {
        let start = series.last().map_or(0, |last: &Series| last.columns.end);
        series.push(Series {
            set: sets[series.len()],
            columns: start..start + number(own.len()),
        });
    }
    (columns.into(), series)
}

fn number(len: usize) -> u32 {
    u32::try_from(len).expect("fewer than 2^32 columns")
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
    (chosen, columns): (&[usize], &Arc<[Column]>),
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
        columns: Arc::clone(columns),
    }
}

/// Returns one strip per input, for series with too many rows in total.
fn ungrouped(inputs: &[StripCursor], columns: &Arc<[Column]>, group: SeriesGroup) -> Vec<Target> {
    let SeriesGroup {
        inputs: chosen,
        series,
    } = group;
    let own = |input: &usize| {
        let of_input = series.iter().map(|(_, series)| {
            let mut own = series.clone();
            let is_before = |at: &u32| (columns[*at as usize].input as usize) < *input;
            own.columns.start += number(series.columns.clone().filter(is_before).count());
            let is_of = |at: &u32| columns[*at as usize].input as usize == *input;
            own.columns.end =
                own.columns.start + number(series.columns.clone().filter(is_of).count());
            own
        });
        let times_ms = inputs[*input].times_ms.to_vec();
        target(inputs, (&[*input], columns), times_ms, of_input.collect())
    };
    chosen.iter().map(own).collect()
}
