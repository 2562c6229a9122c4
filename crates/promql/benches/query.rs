//! Query times over a synthetic store, so that only the engine is measured.
//!
//! `cargo bench -p narthex-promql --bench query`: 850 targets of 360 counters, sampled every 15 s. Reading a tile is
//! a copy. Each figure is the best of five, in nanoseconds per series and step.

#![allow(missing_docs, clippy::print_stdout)]

use narthex_model::{
    LabelHash, LabelSet, METRIC_NAME,
    metadata::Family,
    storage::{
        Batch, Cardinality, Context, Estimate, Grouping, Layout, Listing, Prepared, Selector,
        SeriesQuery, StorageError, Store, Tile, TimeRange, View, group_key_of,
    },
};
use narthex_promql::{Engine, EngineOptions};
use std::{borrow::Cow, sync::Arc, time::Instant};

const TARGETS: usize = 850;
const SERIES: usize = 360;
const INTERVAL_MS: i64 = 15_000;
const STEPS: i64 = 30;
const ROWS: i64 = 60;

/// One target's series.
struct Target {
    labels: Arc<Vec<LabelSet>>,
    /// The group keys of `by (mode)` and `by ()`, which an indexed store has precomputed.
    modes: Arc<Vec<LabelHash>>,
    cells: Arc<Vec<f64>>,
}

#[derive(Clone)]
struct Synthetic(Vec<Arc<Target>>);

fn rows(range: TimeRange) -> std::ops::Range<usize> {
    let row = |ms: i64| usize::try_from(ms.div_euclid(INTERVAL_MS).clamp(0, ROWS)).unwrap_or(0);
    row(range.min_ms + INTERVAL_MS - 1)..row(range.max_ms.saturating_add(INTERVAL_MS))
}

impl Batch for Target {
    fn len(&self) -> usize {
        SERIES
    }

    fn labels(&self, series: usize) -> LabelSet {
        self.labels[series].clone()
    }

    fn label(&self, series: usize, name: &str) -> Option<Cow<'_, str>> {
        self.labels[series].get(name).map(Cow::Borrowed)
    }

    fn group_key(&self, series: usize, grouping: &Grouping) -> LabelHash {
        if !grouping.without && grouping.names.len() == 1 && &*grouping.names[0] == "mode" {
            self.modes[series]
        } else {
            group_key_of([&self.labels[series]], grouping)
        }
    }

    fn time_range(&self) -> TimeRange {
        TimeRange::new(0, (ROWS - 1) * INTERVAL_MS)
    }

    fn rows(&self, range: TimeRange) -> usize {
        rows(range).len()
    }

    fn read(
        &self,
        series: &[u32],
        range: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        _ctx: &Context,
    ) -> Result<(), StorageError> {
        tile.clear(layout);
        let rows = rows(range);
        tile.times_ms.extend(
            rows.clone()
                .map(|row| i64::try_from(row).unwrap_or(0) * INTERVAL_MS),
        );
        tile.series = series.len();
        match layout {
            Layout::SeriesMajor => {
                for series in series {
                    let begin = *series as usize * usize::try_from(ROWS).unwrap_or(0);
                    let cells = &self.cells[begin + rows.start..begin + rows.end];
                    tile.cells.extend_from_slice(cells);
                }
            }
            Layout::TimeMajor => {
                for row in rows {
                    let cell = |s: &u32| self.cells[*s as usize * ROWS as usize + row];
                    tile.cells.extend(series.iter().map(cell));
                }
            }
        }
        tile.facts.all_floats = true;
        tile.facts.no_histograms = true;
        Ok(())
    }
}

impl Prepared for Synthetic {
    fn estimate(&self) -> Estimate {
        Estimate::default()
    }

    fn batches(
        &self,
        _selector: usize,
        _ctx: &Context,
    ) -> Result<Vec<Arc<dyn Batch>>, StorageError> {
        Ok(self
            .0
            .iter()
            .map(|target| Arc::clone(target) as Arc<dyn Batch>)
            .collect())
    }
}

impl View for Synthetic {
    fn prepare(
        &self,
        _selectors: &[Selector],
        _ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        Ok(Box::new(self.clone()))
    }

    fn label_names(&self, _: &SeriesQuery, _: &Context) -> Result<Listing<String>, StorageError> {
        Ok(Listing::default())
    }

    fn label_values(
        &self,
        _: &str,
        _: &SeriesQuery,
        _: &Context,
    ) -> Result<Listing<String>, StorageError> {
        Ok(Listing::default())
    }

    fn series(&self, _: &SeriesQuery, _: &Context) -> Result<Listing<LabelSet>, StorageError> {
        Ok(Listing::default())
    }

    fn cardinality(&self, _: usize, _: &Context) -> Result<Cardinality, StorageError> {
        Ok(Cardinality::default())
    }

    fn metadata(&self, _: Option<&str>, _: &Context) -> Result<Vec<Family>, StorageError> {
        Ok(Vec::new())
    }
}

impl Store for Synthetic {
    fn view(&self, _range: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        Ok(Arc::new(self.clone()))
    }

    fn time_range(&self) -> Option<TimeRange> {
        Some(self.0[0].time_range())
    }
}

/// Counters that each grow at a different rate; with `resets`, every tenth one restarts in the middle.
fn synthetic(resets: bool) -> Synthetic {
    let target = |target: usize| {
        let labels = |series: usize| {
            LabelSet::new([
                (METRIC_NAME, "requests_total"),
                ("instance", &format!("host-{target:04}:9100")),
                ("job", "node"),
                ("cpu", &format!("{}", series / 8)),
                ("mode", &format!("m{}", series % 8)),
            ])
        };
        let labels: Vec<LabelSet> = (0..SERIES).map(labels).collect();
        let by_mode = Grouping {
            without: false,
            names: vec!["mode".into()],
        };
        let cells = (0..SERIES).flat_map(|series| {
            (0..ROWS).map(move |row| {
                let restarted = resets && series % 10 == 3 && row > 30;
                let since = if restarted { row - 30 } else { row + 100 };
                (since * i64::try_from(series + 1).unwrap_or(0)) as f64
            })
        });
        Arc::new(Target {
            modes: Arc::new(labels.iter().map(|l| group_key_of([l], &by_mode)).collect()),
            labels: Arc::new(labels),
            cells: Arc::new(cells.collect()),
        })
    };
    Synthetic((0..TARGETS).map(target).collect())
}

fn measure(name: &str, store: &Synthetic, query: &str) {
    let engine = Engine::new(EngineOptions {
        max_samples: 1 << 40,
        ..EngineOptions::default()
    });
    let start_ms = 300_000;
    let end_ms = start_ms + (STEPS - 1) * INTERVAL_MS;
    let context = Context::unlimited();
    let mut best = f64::INFINITY;
    let mut peak = 0;
    for _ in 0..5 {
        let begin = Instant::now();
        let result = engine.range(store, query, start_ms, end_ms, INTERVAL_MS, &context);
        best = best.min(begin.elapsed().as_secs_f64());
        peak = result.expect("the query is valid").stats.peak_samples;
    }
    let points = (TARGETS * SERIES) as f64 * STEPS as f64;
    println!(
        "{name:32} {:7.2} ns a series and step, {:7.1} ms, peak {peak} samples: {query}",
        best * 1e9 / points,
        best * 1e3
    );
}

fn main() {
    let store = synthetic(false);
    let resets = synthetic(true);
    measure(
        "rate, few groups",
        &store,
        "sum by (mode) (rate(requests_total[1m]))",
    );
    measure(
        "rate, one in ten with resets",
        &resets,
        "sum by (mode) (rate(requests_total[1m]))",
    );
    measure("rate, one group", &store, "sum(rate(requests_total[1m]))");
    measure(
        "rate, 38250 groups",
        &store,
        "sum by (instance, cpu) (rate(requests_total[1m]))",
    );
    measure("average", &store, "avg by (mode) (requests_total)");
    measure("maximum", &store, "max by (mode) (requests_total)");
    measure(
        "maximum over time",
        &store,
        "sum by (mode) (max_over_time(requests_total[1m]))",
    );
    measure("best five", &store, "topk(5, rate(requests_total[1m]))");
    measure(
        "vector and scalar",
        &store,
        "count(rate(requests_total[1m]) * 100 > 5)",
    );
    measure(
        "two vectors",
        &store,
        "sum(rate(requests_total[1m]) / requests_total)",
    );
}
