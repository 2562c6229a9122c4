//! Sizes and speeds, on demand: `cargo test --release -p narthex-tsdb --lib block::tests::measure -- --ignored --nocapture`.

use super::*;
use crate::io::RealIo;
use narthex_model::Matcher;
use narthex_model::storage::{Context, Hints, Tile, TimeRange};
use narthex_testkit::TempDir;
use std::time::Instant;

const STRIPS: usize = 850;
const COLUMNS: usize = 588;
const ROWS: usize = 240;

/// One target of the fleet: 24 counters, 12 buckets cumulated, 12 gauges with three decimals, and again.
fn target(seed: u64, cells: &mut [f64]) {
    let mut rng = SplitMix64::new(seed * 7919 + 1);
    let mut level: Vec<u64> = (0..COLUMNS).map(|_| rng.below(1000)).collect();
    for row in cells.chunks_exact_mut(COLUMNS) {
        let mut sum = 0;
        for (c, (out, level)) in row.iter_mut().zip(&mut level).enumerate() {
            *out = match c % 48 {
                0..24 => {
                    *level += rng.below(16);
                    *level as f64
                }
                k @ 24..36 => {
                    sum = if k == 24 { 0 } else { sum };
                    *level += rng.below(4);
                    sum += *level;
                    sum as f64
                }
                _ => rng.below(100_000) as f64 / 1000.0,
            };
        }
    }
}

fn fleet_sets() -> Vec<LabelSet> {
    (0..COLUMNS)
        .map(|c| {
            let (handler, k) = (format!("/api/v1/resource{:02}", c / 48), c % 48);
            let (method, code) = (
                ["GET", "POST", "PUT", "DELETE"][k / 6 % 4],
                ["200", "201", "400", "404", "500", "503"][k % 6],
            );
            match k {
                0..24 => LabelSet::new([
                    ("__name__", "app_http_requests_total"),
                    ("handler", &*handler),
                    ("method", method),
                    ("code", code),
                ]),
                24..36 => LabelSet::new([
                    ("__name__", "app_http_request_duration_seconds_bucket"),
                    ("handler", &*handler),
                    ("le", &*format!("{}", 0.005 * f64::from(1 << (k - 24)))),
                ]),
                _ => LabelSet::new([
                    ("__name__", "app_queue_length"),
                    ("queue", &*format!("q{:02}-{k}", c / 48)),
                ]),
            }
        })
        .collect()
}

#[test]
#[ignore = "measures: run it in release, alone"]
fn the_fleet() {
    let dir = TempDir::new("block-measure");
    let sets = fleet_sets();
    let columns: Vec<ColumnInput<'_>> = sets
        .iter()
        .map(|set| ColumnInput {
            set,
            family: None,
            start_times: &[],
        })
        .collect();
    let io: Arc<dyn Io> = Arc::new(RealIo);
    let mut writer = BlockWriter::new(Arc::clone(&io), dir.path(), BlockId(1), 0, vec![]).unwrap();
    let times_ms: Vec<i64> = (0..ROWS as i64)
        .map(|r| 1_700_000_000_000 + r * 15_000)
        .collect();
    let mut cells = vec![0.0; ROWS * COLUMNS];
    let mut ns = 0;
    for s in 0..STRIPS {
        target(s as u64, &mut cells);
        let instance = format!("10.0.{}.{}:8080", s / 256, s % 256);
        let common = LabelSet::new([
            ("instance", &*instance),
            ("job", "app"),
            ("namespace", &*format!("ns-{:02}", s % 12)),
            ("service", &*format!("svc-{:03}", s % 40)),
            (
                "pod",
                &*format!(
                    "svc-{:03}-{:08x}-{:05x}",
                    s % 40,
                    s * 2_654_435_761 % 0xffff_ffff,
                    s * 31
                ),
            ),
            ("node", &*format!("node-{:03}", s % 97)),
        ]);
        let of_column =
            |c| -> Vec<f64> { cells.iter().skip(c).step_by(COLUMNS).copied().collect() };
        let by_column: Vec<Vec<f64>> = (0..COLUMNS).map(of_column).collect();
        let begin = Instant::now();
        writer.begin_strip(&common, &times_ms);
        for (column, cells) in columns.iter().zip(&by_column) {
            writer.add_column(*column, cells, &[]).unwrap();
        }
        writer.end_strip().unwrap();
        ns += begin.elapsed().as_nanos();
    }
    let pages = writer.bytes();
    let begin = Instant::now();
    let meta = finish(&*io, dir.path(), writer).unwrap();
    let samples = meta.samples as f64;
    println!(
        "{} strips x {COLUMNS} x {ROWS}: {:.4} B a sample in all, index {:.2} B a series, encode and write {:.2} ns a sample, finish {:?}",
        meta.strips,
        meta.bytes as f64 / samples,
        (meta.bytes - pages) as f64 / meta.series as f64,
        ns as f64 / samples,
        begin.elapsed(),
    );
    read_back(&io, &dir.path().join(meta.file_name()));
}

/// One target of 500,000 series with only local labels, mostly constant values, as kube-state-metrics exposes them.
#[test]
#[ignore = "measures: run it in release, alone"]
#[expect(clippy::too_many_lines, reason = "a measurement is one piece")]
fn one_large_target() {
    const SERIES: usize = 500_000;
    const KUBE_ROWS: usize = 60;
    let dir = TempDir::new("block-measure");
    let io: Arc<dyn Io> = Arc::new(RealIo);
    let mut writer = BlockWriter::new(Arc::clone(&io), dir.path(), BlockId(2), 0, vec![]).unwrap();
    let times_ms: Vec<i64> = (0..KUBE_ROWS as i64)
        .map(|r| 1_700_000_000_000 + r * 15_000)
        .collect();
    let common = LabelSet::new([("instance", "kube:8080"), ("job", "kube-state-metrics")]);
    let mut rng = SplitMix64::new(9);
    let mut cells = vec![0.0; KUBE_ROWS];
    let begin = Instant::now();
    writer.begin_strip(&common, &times_ms);
    for i in 0..SERIES {
        // Thirty series a pod, metric by metric, as the page lists them.
        let (metric, pod) = (i * 30 / SERIES, i % (SERIES / 30));
        let set = LabelSet::new([
            ("__name__", &*format!("kube_pod_status_{metric:02}")),
            ("namespace", &*format!("ns-{:02}", pod % 40)),
            (
                "pod",
                &*format!(
                    "svc-{:03}-{:08x}-{:05x}",
                    pod % 400,
                    pod * 2_654_435_761 % 0xffff_ffff,
                    pod * 31
                ),
            ),
            (
                "uid",
                &*format!("{:016x}-{:08x}", pod as u64 * 0x9e37_79b9_7f4a_7c15, pod),
            ),
            ("node", &*format!("node-{:03}", pod % 97)),
            ("phase", ["Running", "Pending", "Failed"][metric % 3]),
        ]);
        cells.fill((i % 2) as f64);
        if metric % 10 == 0 {
            cells
                .iter_mut()
                .for_each(|c| *c = rng.below(100_000) as f64);
        }
        writer
            .add_column(
                ColumnInput {
                    set: &set,
                    family: None,
                    start_times: &[],
                },
                &cells,
                &[],
            )
            .unwrap();
    }
    writer.end_strip().unwrap();
    let (added, pages) = (begin.elapsed(), writer.bytes());
    let begin = Instant::now();
    let meta = finish(&*io, dir.path(), writer).unwrap();
    println!(
        "{SERIES} series x {KUBE_ROWS}: {:.3} B a sample in all, index {:.2} B a series, labels and write {added:?}, finish {:?}",
        meta.bytes as f64 / meta.samples as f64,
        (meta.bytes - pages) as f64 / meta.series as f64,
        begin.elapsed(),
    );
    let cache = Arc::new(BlockCache::new(256 << 20));
    let block = Arc::new(Block::open(&*io, &dir.path().join(meta.file_name()), &cache).unwrap());
    let ctx = Context::unlimited();
    let pod = format!(
        "svc-{:03}-{:08x}-{:05x}",
        7,
        7usize * 2_654_435_761 % 0xffff_ffff,
        7 * 31
    );
    let regex = |name, value| Matcher::new(narthex_model::MatchOp::Regex, name, value).unwrap();
    let queries = [
        ("one pod", vec![Matcher::equal("pod", &pod)]),
        (
            "one metric",
            vec![Matcher::equal("__name__", "kube_pod_status_03")],
        ),
        ("a regex on pods", vec![regex("pod", "svc-00[1-3]-.*")]),
        ("everything", vec![]),
    ];
    for (what, matchers) in queries {
        for round in ["first", "again"] {
            let begin = Instant::now();
            let selection = block.select(&matchers, TimeRange::ALL, &ctx).unwrap();
            println!(
                "{what}, {round}: {} series, select {:?}",
                selection.estimate().series,
                begin.elapsed()
            );
        }
    }
}

fn read_back(io: &Arc<dyn Io>, path: &Path) {
    let cache = Arc::new(BlockCache::new(256 << 20));
    let block = Arc::new(Block::open(&**io, path, &cache).unwrap());
    let ctx = Context::unlimited();
    let name = |name| vec![Matcher::equal("__name__", name)];
    let queries = [
        ("all counters", name("app_http_requests_total")),
        (
            "one series a target",
            [
                name("app_http_requests_total"),
                vec![
                    Matcher::equal("handler", "/api/v1/resource03"),
                    Matcher::equal("method", "GET"),
                    Matcher::equal("code", "200"),
                ],
            ]
            .concat(),
        ),
        (
            "one series",
            [
                name("app_queue_length"),
                vec![
                    Matcher::equal("instance", "10.0.1.3:8080"),
                    Matcher::equal("queue", "q00-40"),
                ],
            ]
            .concat(),
        ),
    ];
    for (what, matchers) in queries {
        for round in ["first", "again"] {
            let begin = Instant::now();
            let selection = block.select(&matchers, TimeRange::ALL, &ctx).unwrap();
            let estimate = selection.estimate();
            let batches = selection.batches(&Hints::default());
            let selected = begin.elapsed();
            let mut tile = Tile::default();
            let mut cells = 0;
            let begin = Instant::now();
            for batch in &batches {
                let all: Vec<u32> = (0..batch.len() as u32).collect();
                batch
                    .read(&all, TimeRange::ALL, Layout::TimeMajor, &mut tile, &ctx)
                    .unwrap();
                cells += tile.cells.len();
            }
            let read = begin.elapsed();
            println!(
                "{what}, {round}: {} series, select {selected:?}, read {read:?} = {:.2} ns a sample",
                estimate.series,
                read.as_nanos() as f64 / cells as f64
            );
        }
    }
    println!("cache {} MB", cache.used_bytes() >> 20);
}
