//! Reads a selector's data in every way the contract offers, and checks that all agree.

use crate::{
    cell::{self, Cell},
    histogram::Histogram,
    labels::LabelSet,
    matcher::Matcher,
    storage::{
        Batch, Context, Grouping, Hints, Layout, Prepared, Selector, Store, Tile, TimeRange,
        group_key_of,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// A sample in comparable form: floats by their bits.
#[derive(Clone, Debug, PartialEq)]
pub enum Sampled {
    /// A float's bits.
    Float(u64),
    /// A staleness marker.
    Stale,
    /// A native histogram.
    Histogram(Arc<Histogram>),
}

/// All samples by series and time, with the counter's start time (0 if unknown).
pub type Dump = BTreeMap<LabelSet, Vec<(i64, Sampled, i64)>>;

/// Reads the data that `matchers` select within `range`; series without a sample in it are left out.
///
/// # Panics
/// Panics when the store violates the reading contract.
#[must_use]
pub fn dump(store: &dyn Store, matchers: &[Matcher], range: TimeRange) -> Dump {
    let ctx = Context::unlimited();
    let hints = Hints {
        start_times: true,
        ..Hints::default()
    };
    let selector = Selector {
        hints,
        ..Selector::new(matchers.to_vec(), range)
    };
    let prepared = store
        .prepare(range, std::slice::from_ref(&selector), &ctx)
        .expect("prepared selectors");
    let all = dump_prepared(&*prepared, range);
    let view = store.view(range).expect("a view");
    let order = || -> Vec<LabelSet> {
        let prepared = view.prepare(std::slice::from_ref(&selector), &ctx);
        let batches = prepared.expect("prepared selectors").batches(0, &ctx);
        let batches = batches.expect("batches").into_iter();
        batches
            .flat_map(|batch| (0..batch.len()).map(move |at| batch.labels(at)))
            .collect()
    };
    assert_eq!(
        order(),
        order(),
        "the order of series is the same for the same view"
    );
    all
}

/// Reads the data of the only selector that was prepared, within `range`.
pub(super) fn dump_prepared(prepared: &dyn Prepared, range: TimeRange) -> Dump {
    let ctx = Context::unlimited();
    let batches = prepared.batches(0, &ctx).expect("batches");
    let series: usize = batches.iter().map(|batch| batch.len()).sum();
    assert!(
        prepared.estimate().series >= series as u64,
        "the estimate is an upper bound"
    );
    let mut all = Dump::new();
    for batch in &batches {
        check_identities(&**batch);
        let tile = read_both_ways(&**batch, range, &ctx);
        check_last(&**batch, &tile, range, &ctx);
        for at in 0..batch.len() {
            let samples = samples_of(&tile, at);
            if !samples.is_empty() {
                let earlier = all.insert(batch.labels(at), samples);
                assert!(earlier.is_none(), "{} occurs twice", batch.labels(at));
            }
        }
    }
    all
}

fn check_identities(batch: &dyn Batch) {
    let groupings = [
        Grouping {
            without: false,
            names: vec!["instance".into(), "job".into()],
        },
        Grouping {
            without: true,
            names: vec!["instance".into()],
        },
    ];
    for at in 0..batch.len() {
        let labels = batch.labels(at);
        assert_eq!(batch.identity(at), labels.hash(), "identity of {labels}");
        for label in &labels {
            assert_eq!(
                batch.label(at, label.name()).as_deref(),
                Some(label.value()),
                "{labels}"
            );
        }
        assert_eq!(batch.label(at, "no_such_label"), None);
        for names in [&["__name__", "job"][..], &["instance"], &["no_such_label"]] {
            let only = batch.labels_only(at, names);
            assert_eq!(only, labels.only(names), "{names:?} of {labels}");
        }
        for grouping in &groupings {
            assert_eq!(
                batch.group_key(at, grouping),
                group_key_of([&labels], grouping),
                "group of {labels}"
            );
        }
    }
}

/// Reads series-major and time-major, forwards and in reverse order of series, and compares.
fn read_both_ways(batch: &dyn Batch, range: TimeRange, ctx: &Context) -> Tile {
    let count = u32::try_from(batch.len()).expect("a small batch");
    let forwards: Vec<u32> = (0..count).collect();
    let backwards: Vec<u32> = (0..count).rev().collect();
    let (mut by_series, mut by_time) = (Tile::default(), Tile::default());
    batch
        .read(&forwards, range, Layout::SeriesMajor, &mut by_series, ctx)
        .expect("cells");
    batch
        .read(&backwards, range, Layout::TimeMajor, &mut by_time, ctx)
        .expect("cells");
    assert!(
        by_series.times_ms.is_sorted_by(|a, b| a < b),
        "times ascend strictly"
    );
    assert!(
        by_series.times_ms.len() <= batch.rows(range),
        "rows() is an upper bound"
    );
    assert_eq!(by_series.times_ms, by_time.times_ms);
    assert_eq!(
        (by_series.layout, by_time.layout),
        (Layout::SeriesMajor, Layout::TimeMajor)
    );
    for tile in [&by_series, &by_time] {
        assert_eq!(tile.series, batch.len());
        assert_eq!(tile.cells.len(), tile.times_ms.len() * tile.series);
        if tile.facts.all_floats {
            assert!(
                tile.cells.iter().all(|cell| cell::is_float(*cell)),
                "facts are true"
            );
        }
        if tile.facts.no_histograms {
            assert!(
                !tile
                    .cells
                    .iter()
                    .any(|cell| matches!(Cell::decode(*cell), Cell::Histogram(_))),
                "facts are true"
            );
        }
    }
    for at in 0..batch.len() {
        let reversed = samples_of(&by_time, batch.len() - 1 - at);
        assert_eq!(
            samples_of(&by_series, at),
            reversed,
            "layouts agree on {}",
            batch.labels(at)
        );
    }
    for time_ms in &by_series.times_ms {
        assert!(range.contains(*time_ms) && batch.time_range().contains(*time_ms));
    }
    by_series
}

fn check_last(batch: &dyn Batch, tile: &Tile, range: TimeRange, ctx: &Context) {
    let all: Vec<u32> = (0..u32::try_from(batch.len()).expect("a small batch")).collect();
    let mut cuts = vec![range.max_ms];
    cuts.extend(tile.times_ms.iter().step_by(7).copied());
    for max_ms in cuts {
        let mut found = Vec::new();
        batch
            .last(&all, TimeRange::new(range.min_ms, max_ms), &mut found, ctx)
            .expect("last cells");
        assert_eq!(found.len(), all.len());
        for (at, found) in found.iter().enumerate() {
            let samples = samples_of(tile, at);
            let expected = samples.iter().rfind(|(time_ms, ..)| *time_ms <= max_ms);
            let shown = found.as_ref().map(|last| {
                let sampled = match (&last.histogram, Cell::decode(last.cell)) {
                    (Some(histogram), _) => Sampled::Histogram(Arc::clone(histogram)),
                    (None, Cell::Stale) => Sampled::Stale,
                    (None, _) => Sampled::Float(last.cell.to_bits()),
                };
                (last.time_ms, sampled, last.start_time_ms)
            });
            assert_eq!(
                shown.as_ref(),
                expected,
                "last of {} up to {max_ms}",
                batch.labels(at)
            );
        }
    }
}

fn samples_of(tile: &Tile, series: usize) -> Vec<(i64, Sampled, i64)> {
    let mut samples = Vec::new();
    for (row, time_ms) in tile.times_ms.iter().enumerate() {
        let at = tile.at(row, series);
        let sampled = match Cell::decode(tile.cells[at]) {
            Cell::Absent => continue,
            Cell::Stale => Sampled::Stale,
            Cell::Histogram(index) => {
                Sampled::Histogram(Arc::clone(&tile.histograms[index as usize]))
            }
            Cell::Float(value) => Sampled::Float(value.to_bits()),
        };
        samples.push((
            *time_ms,
            sampled,
            tile.start_times_ms.get(at).copied().unwrap_or_default(),
        ));
    }
    samples
}
