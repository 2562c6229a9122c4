//! Pools over directories of segments: lives and deaths of writers, restarts of the reader, damage.

use super::*;
use crate::{
    encode::{
        Encoder,
        tests::{dropped, example, family, header, parts, place, summary},
    },
    family::{GaugeMerge, Shape},
    layout::{HEADER_BYTES, Header},
    owner::start_of,
};
use narthex_model::ColumnId;
use narthex_testkit::{TempDir, rng::SplitMix64, workspace_root};
use std::{
    os::unix::fs::{FileExt, MetadataExt},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// A writer in this process: it lives as long as it holds its file's lock.
struct Writer {
    file: File,
    path: PathBuf,
    header: Header,
    encoder: Encoder,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Writer {
    fn new(dir: &Path, app: &str, worker: &str) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let boot_id = u128::from_str_radix(&boot_id.trim().replace('-', ""), 16).unwrap();
        let header = Header {
            id,
            app: app.to_owned(),
            worker: worker.to_owned(),
            pid: std::process::id(),
            pid_start: start_of(std::process::id()).unwrap(),
            pid_namespace: fs::metadata("/proc/self/ns/pid").unwrap().ino(),
            boot_id: boot_id.to_be_bytes(),
            cells_max: 512,
            records_offset: HEADER_BYTES as u64 + 8 * 512,
            records_max: 1 << 16,
            ..header()
        };
        // Segments are read by name: in the order in which they are created.
        let path = dir.join(format!("{app}-{id:06}{SUFFIX}"));
        let file = File::options()
            .create_new(true)
            .write(true)
            .read(true)
            .open(&path)
            .unwrap();
        file.lock().unwrap();
        file.set_len(header.records_offset + header.records_max)
            .unwrap();
        let writer = Self {
            file,
            path,
            header,
            encoder: Encoder::default(),
        };
        writer.publish();
        writer
    }

    /// Writes everything.
    fn publish(&self) {
        let (cells, records, marks) = parts(&self.encoder);
        let cells: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        self.file.write_all_at(&cells, HEADER_BYTES as u64).unwrap();
        self.file
            .write_all_at(records, self.header.records_offset)
            .unwrap();
        self.file
            .write_all_at(&self.header.encode(&marks), 0)
            .unwrap();
    }

    fn add(&mut self, name: &str, shape: Shape, labels: &str, cells: &[u64]) {
        let metric = self.encoder.metric(&family(name, shape));
        self.encoder.series(metric, labels, cells);
        self.publish();
    }

    fn set(&self, cell: u64, value: u64) {
        let at = HEADER_BYTES as u64 + 8 * cell;
        self.file.write_all_at(&value.to_le_bytes(), at).unwrap();
    }
}

pub(super) fn pool(dir: &Path) -> Pool {
    Pool::new(PoolOptions {
        dir: dir.to_owned(),
        common: LabelSet::new([("job", "j")]),
        ..PoolOptions::default()
    })
}

fn by_worker(dir: &Path) -> Pool {
    Pool::new(PoolOptions {
        by_worker: true,
        ..pool(dir).options
    })
}

fn shown(frame: &Frame) -> Vec<String> {
    let mut lines: Vec<String> = (frame.present().iter())
        .map(|at| {
            let id = ColumnId(u32::try_from(at).unwrap());
            let set = frame.schema().column(id).set.to_string();
            format!("{} {}", set.replace(", ", ","), frame.values()[at])
        })
        .collect();
    lines.sort_unstable();
    lines
}

fn stale(frame: &Frame) -> Vec<String> {
    let schema = frame.schema();
    let lines = frame
        .stale()
        .iter()
        .map(|id| schema.column(*id).set.to_string());
    lines.collect()
}

pub(super) fn round(pool: &mut Pool, now_ms: i64) -> Vec<String> {
    shown(pool.collect(now_ms).unwrap())
}

fn fixture(name: &str) -> PathBuf {
    workspace_root().join("testdata/formats/v1").join(name)
}

/// `NARTHEX_UPDATE_GOLDEN=1` rewrites them; only right while no release has written version 1.
fn golden(name: &str, bytes: &[u8]) {
    if std::env::var_os("NARTHEX_UPDATE_GOLDEN").is_some() {
        fs::write(fixture(name), bytes).unwrap();
    }
    assert_eq!(fs::read(fixture(name)).unwrap(), bytes, "{name}");
}

#[test]
fn committed_segments_are_read() {
    golden("segment_small.segment", &example());
    let dir = TempDir::new("segment");
    fs::copy(fixture("segment_small.segment"), dir.join("shop.segment")).unwrap();
    let mut pool = Pool::new(PoolOptions {
        read_only: true,
        ..pool(dir.path()).options
    });
    let text = round(&mut pool, 1).join("\n") + "\n";
    golden("segment_small.txt", text.as_bytes());
    assert_eq!(pool.problems(), []);
}

#[test]
fn what_is_before_the_damage_is_read() {
    let mut bytes = example();
    let second_series = bytes.len() - 88;
    bytes[second_series] ^= 1;
    golden("segment_damaged.segment", &bytes);
    let dir = TempDir::new("segment");
    fs::copy(fixture("segment_damaged.segment"), dir.join("a.segment")).unwrap();
    dir.write("empty.segment", "");
    dir.write("short.segment", &bytes[..5000]);
    dir.write("other.txt", "");
    let mut alive = Writer::new(dir.path(), "shop", "2");
    alive.add(
        "requests_total",
        Shape::WholeCounter,
        "method=\"PUT\"",
        &[5],
    );
    let mut pool = Pool::new(PoolOptions {
        read_only: true,
        ..pool(dir.path()).options
    });
    let lines = round(&mut pool, 1);
    assert!(
        lines.contains(&"requests_total{app=\"shop\",method=\"PUT\"} 8".to_owned()),
        "{lines:?}"
    );
    let problems: Vec<String> = (pool.problems().iter())
        .map(|problem| {
            format!(
                "{:?}: {}",
                problem.path.file_name().unwrap(),
                problem.reason
            )
        })
        .collect();
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn workers_are_added_up_or_kept_apart() {
    let dir = TempDir::new("segment");
    let mut writers: Vec<Writer> = ["0", "1"]
        .map(|w| Writer::new(dir.path(), "shop", w))
        .into();
    for (at, writer) in (1_u32..).zip(&mut writers) {
        writer.add("a_total", Shape::WholeCounter, "x=\"y\"", &[u64::from(at)]);
        let cells = [f64::from(at).to_bits(), 0];
        writer.add("g", Shape::Gauge(GaugeMerge::Each), "", &cells);
        writer.add(
            "h",
            Shape::Histogram(Box::new([1.0])),
            "app=\"mine\"",
            &[0, 1, 2],
        );
    }
    let merged = round(&mut pool(dir.path()), 1);
    assert_eq!(
        merged,
        [
            "a_total{app=\"shop\",x=\"y\"} 3",
            "g{app=\"shop\",worker=\"0\"} 1",
            "g{app=\"shop\",worker=\"1\"} 2",
            "h_bucket{app=\"shop\",exported_app=\"mine\",le=\"+Inf\"} 6",
            "h_bucket{app=\"shop\",exported_app=\"mine\",le=\"1.0\"} 2",
            "h_count{app=\"shop\",exported_app=\"mine\"} 6",
            "h_sum{app=\"shop\",exported_app=\"mine\"} 0",
        ]
    );
    let apart = round(&mut by_worker(dir.path()), 1);
    assert_eq!(apart.len(), 12);
    assert!(apart.contains(&"a_total{app=\"shop\",worker=\"1\",x=\"y\"} 2".to_owned()));
}

#[test]
fn an_ended_writers_counts_stay_and_its_gauges_go() {
    let dir = TempDir::new("segment");
    let mut writer = Writer::new(dir.path(), "shop", "0");
    writer.add("a_total", Shape::Counter, "", &[2.5_f64.to_bits()]);
    writer.add(
        "g",
        Shape::Gauge(GaugeMerge::Sum),
        "",
        &[1.0_f64.to_bits(), 0],
    );
    let mut pool = pool(dir.path());
    assert_eq!(
        round(&mut pool, 1),
        ["a_total{app=\"shop\"} 2.5", "g{app=\"shop\"} 1"]
    );
    writer.set(1, 4.5_f64.to_bits());
    let path = writer.path.clone();
    drop(writer);
    assert_eq!(round(&mut pool, 2), ["a_total{app=\"shop\"} 4.5"]);
    assert_eq!(stale(pool.frame()), ["g{app=\"shop\"}"]);
    assert!(!path.exists());
    assert_eq!(round(&mut pool, 3), ["a_total{app=\"shop\"} 4.5"]);
    assert_eq!(stale(pool.frame()), [""; 0]);
    // Long after the last writer, the application is forgotten.
    assert_eq!(round(&mut pool, APP_AGE_MS + 2).len(), 1);
    assert_eq!(round(&mut pool, APP_AGE_MS + 3), [""; 0]);
    assert_eq!(stale(pool.frame()), ["a_total{app=\"shop\"}"]);
    assert_eq!(
        paths(dir.path(), retired::SUFFIX).unwrap(),
        [""; 0].map(PathBuf::from)
    );
}

#[test]
fn a_removed_gauge_is_shown_again_when_it_is_set() {
    let dir = TempDir::new("segment");
    let mut writers = ["0", "1"].map(|worker| Writer::new(dir.path(), "shop", worker));
    for writer in &mut writers {
        let cells = [3.0_f64.to_bits(), 1];
        writer.add("g", Shape::Gauge(GaugeMerge::Sum), "", &cells);
    }
    let mut pool = pool(dir.path());
    let mut shown_with = |times: [u64; 2]| {
        for (writer, time) in writers.iter().zip(times) {
            writer.set(2, time);
        }
        round(&mut pool, 1)
    };
    assert_eq!(shown_with([1, 1]), ["g{app=\"shop\"} 6"]);
    assert_eq!(shown_with([u64::MAX, 1]), ["g{app=\"shop\"} 3"]);
    assert_eq!(shown_with([u64::MAX, u64::MAX]), [""; 0]);
    assert_eq!(shown_with([1, 2]), ["g{app=\"shop\"} 6"]);
}

#[test]
fn an_ended_series_counts_no_more() {
    let dir = TempDir::new("segment");
    let mut writers = ["0", "1"].map(|worker| Writer::new(dir.path(), "shop", worker));
    let mut first = 0;
    for writer in &mut writers {
        let metric = writer
            .encoder
            .metric(&family("a_total", Shape::WholeCounter));
        first = place(&writer.encoder);
        writer.encoder.series(metric, "x=\"1\"", &[1]);
        writer.encoder.series(metric, "x=\"2\"", &[2]);
        writer.publish();
    }
    let mut first_reader = pool(dir.path());
    let both = [
        "a_total{app=\"shop\",x=\"1\"} 2",
        "a_total{app=\"shop\",x=\"2\"} 4",
    ];
    assert_eq!(round(&mut first_reader, 1), both);
    let [mut writer, other] = writers;
    drop(other);
    assert_eq!(round(&mut first_reader, 2), both);
    dropped(&mut writer.encoder, first);
    writer.publish();
    assert_eq!(
        round(&mut first_reader, 3),
        [both[1]],
        "with what ended writers counted"
    );
    assert_eq!(
        stale(first_reader.frame()),
        ["a_total{app=\"shop\", x=\"1\"}"]
    );
    writer.encoder.series(0, "x=\"1\"", &[7]);
    writer.publish();
    let anew = ["a_total{app=\"shop\",x=\"1\"} 7", both[1]];
    assert_eq!(round(&mut first_reader, 4), anew);
    drop(first_reader);
    let mut restarted = pool(dir.path());
    assert_eq!(round(&mut restarted, 5), anew);
    drop(writer);
    assert_eq!(round(&mut restarted, 6), anew);
    let mut bad = Writer::new(dir.path(), "shop", "2");
    dropped(&mut bad.encoder, 5);
    bad.publish();
    assert_eq!(round(&mut restarted, 7), anew);
    assert_eq!(restarted.problems().len(), 1, "no such series");
}

#[test]
fn a_series_that_is_not_updated_is_not_shown() {
    let dir = TempDir::new("segment");
    let mut writer = Writer::new(dir.path(), "shop", "0");
    let shapes = [
        (Shape::Counter, vec![2.5_f64.to_bits(), 1_000]),
        (Shape::Histogram(Box::new([1.0])), vec![0, 1, 2, 1_000]),
        (Shape::Gauge(GaugeMerge::Last), vec![0, 1_000]),
    ];
    for (at, (shape, cells)) in shapes.into_iter().enumerate() {
        let mut idle = family(&format!("m{at}"), shape);
        idle.idle_ms = 500;
        let metric = writer.encoder.metric(&idle);
        writer.encoder.series(metric, "", &cells);
    }
    writer.publish();
    let mut pool = pool(dir.path());
    let all = round(&mut pool, 1_500);
    assert_eq!(all[0], "m0{app=\"shop\"} 2.5");
    assert_eq!(all[4], "m1_sum{app=\"shop\"} 0");
    assert_eq!(all.len(), 6);
    assert_eq!(round(&mut pool, 1_501), [""; 0]);
    writer.set(2, 1_100);
    assert_eq!(round(&mut pool, 1_501), ["m0{app=\"shop\"} 2.5"]);
    drop(writer);
    assert_eq!(round(&mut pool, 1_502), ["m0{app=\"shop\"} 2.5"], "retired");
    assert_eq!(round(&mut pool, 1_601), [""; 0]);
}

#[test]
fn a_worker_of_the_same_name_continues_while_both_live() {
    let dir = TempDir::new("segment");
    let mut pool = by_worker(dir.path());
    let mut old = Writer::new(dir.path(), "shop", "0");
    old.add("a_total", Shape::WholeCounter, "", &[10]);
    let mut new = Writer::new(dir.path(), "shop", "0");
    new.add("a_total", Shape::WholeCounter, "", &[1]);
    let line = |value: u32| [format!("a_total{{app=\"shop\",worker=\"0\"}} {value}")];
    assert_eq!(round(&mut pool, 1), line(11));
    drop(old);
    assert_eq!(round(&mut pool, 2), line(11));
    new.set(1, 2);
    assert_eq!(round(&mut pool, 3), line(12));
    drop(new);
    assert_eq!(round(&mut pool, 4), line(12));
    assert_eq!(round(&mut pool, 5), [""; 0]);
}

#[test]
fn a_switched_off_metric_is_not_shown() {
    let dir = TempDir::new("segment");
    let mut writer = Writer::new(dir.path(), "shop", "0");
    writer.add("a_total", Shape::WholeCounter, "", &[1]);
    let mut pool = pool(dir.path());
    assert_eq!(round(&mut pool, 1).len(), 1);
    assert_eq!(
        crate::set_switch(dir.path(), "shop", "a_total", false).unwrap(),
        1
    );
    assert_eq!(round(&mut pool, 2), [""; 0]);
    assert_eq!(stale(pool.frame()).len(), 1);
    let (listed, bad) = crate::list(dir.path()).unwrap();
    assert!(listed[0].is_live && !listed[0].metrics[0].is_on && bad.is_empty());
    assert_eq!(
        crate::set_switch(dir.path(), "shop", "a_total", true).unwrap(),
        1
    );
    assert_eq!(
        crate::set_switch(dir.path(), "shop", "b_total", true).unwrap(),
        0
    );
    assert_eq!(round(&mut pool, 3).len(), 1);
}

#[test]
fn a_metric_that_differs_is_refused_while_the_other_is_in_use() {
    let dir = TempDir::new("segment");
    let mut old = Writer::new(dir.path(), "shop", "0");
    old.add("h", Shape::Histogram(Box::new([1.0])), "", &[0, 1, 1]);
    let mut pool = pool(dir.path());
    assert_eq!(round(&mut pool, 1).len(), 4);
    let mut new = Writer::new(dir.path(), "shop", "0");
    new.add("h", Shape::Histogram(Box::new([2.0])), "", &[0, 5, 5]);
    new.add("h_sum", Shape::Counter, "", &[0]);
    new.add("fine_total", Shape::Counter, "", &[0]);
    assert_eq!(round(&mut pool, 2).len(), 5);
    let reason = "metric \"h\" differs from one of the same application";
    assert_eq!(pool.problems()[0].reason, reason);
    drop(old);
    round(&mut pool, 3);
    let mut newer = Writer::new(dir.path(), "shop", "0");
    newer.add("h", Shape::Histogram(Box::new([2.0])), "", &[0, 7, 0]);
    let lines = round(&mut pool, 4);
    assert!(
        lines.contains(&"h_count{app=\"shop\"} 7".to_owned()),
        "{lines:?}"
    );
    assert_eq!(pool.frame().stale().len(), 4);
}

#[test]
fn quantiles_are_of_what_was_counted_since() {
    let dir = TempDir::new("segment");
    let mut pool = pool(dir.path());
    round(&mut pool, 0);
    let mut writer = Writer::new(dir.path(), "shop", "0");
    let mut cells = [0; 10];
    (cells[0], cells[4]) = (10.0_f64.to_bits(), 10);
    writer.add("s", summary(), "", &cells);
    let lines = round(&mut pool, 1_000);
    assert!(
        lines.contains(&"s{app=\"shop\",quantile=\"0.5\"} 0.8625".to_owned()),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"s_count{app=\"shop\"} 10".to_owned()),
        "{lines:?}"
    );
    let nan = |lines: &[String]| lines.iter().filter(|line| line.ends_with("NaN")).count();
    assert_eq!(nan(&lines), 0);
    round(&mut pool, 50_000);
    assert_eq!(
        nan(&round(&mut pool, 62_000)),
        2,
        "the observations are a minute old"
    );
}

#[test]
fn one_pool_reads_a_directory() {
    let dir = TempDir::new("segment");
    let mut first = pool(dir.path());
    round(&mut first, 1);
    let mut second = pool(dir.path());
    assert!(matches!(second.collect(1), Err(SegmentError::InUse)));
    drop(first);
    round(&mut second, 2);
}

#[test]
fn a_broken_segment_keeps_what_it_counted() {
    let dir = TempDir::new("segment");
    let mut writer = Writer::new(dir.path(), "shop", "0");
    writer.add("a_total", Shape::WholeCounter, "", &[9]);
    let mut pool = pool(dir.path());
    let line = ["a_total{app=\"shop\"} 9"];
    assert_eq!(round(&mut pool, 1), line);
    writer.file.set_len(100).unwrap();
    assert_eq!(round(&mut pool, 2), line);
    assert_eq!(pool.problems().len(), 1);
    drop(writer);
    assert_eq!(round(&mut pool, 3), line);
    assert_eq!(round(&mut pool, 4), line);
    assert_eq!(pool.problems(), []);
}

#[test]
fn copies_and_links_are_refused() {
    let dir = TempDir::new("segment");
    let mut writer = Writer::new(dir.path(), "shop", "0");
    writer.add("a_total", Shape::WholeCounter, "", &[9]);
    fs::copy(&writer.path, dir.join("z.segment")).unwrap();
    std::os::unix::fs::symlink(&writer.path, dir.join("link.segment")).unwrap();
    let mut pool = pool(dir.path());
    assert_eq!(round(&mut pool, 1), ["a_total{app=\"shop\"} 9"]);
    assert_eq!(pool.problems().len(), 2);
}

/// Everything a directory held, to put the reader's crash at any point.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let all = paths(dir, "").unwrap().into_iter();
    all.map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// A model of counts only: writers come, count, end; the reader restarts, also as if it had been killed between
/// replacing the retired counts and removing what they contain, or before either.
#[test]
fn nothing_is_lost_or_counted_twice() {
    for seed in 0..narthex_testkit::mutate::scaled(40) {
        let mut rng = SplitMix64::new(seed);
        let dir = TempDir::new("segment");
        let mut pool = pool(dir.path());
        let mut live: Vec<(Writer, u64)> = Vec::new();
        let mut expected = 0;
        for step in 1..80 {
            match rng.below(8) {
                0 | 1 if live.len() < 6 => {
                    let mut writer = Writer::new(dir.path(), "shop", "0");
                    writer.add("h", Shape::Histogram(Box::new([1.0])), "", &[0, 0, 0]);
                    live.push((writer, 0));
                }
                2 if !live.is_empty() => {
                    let at = usize::try_from(rng.below(live.len() as u64)).unwrap();
                    live.swap_remove(at);
                }
                3 => pool = restarted(pool, dir.path(), &mut rng, (step, &mut live)),
                _ => {
                    for (writer, counted) in &mut live {
                        let more = rng.below(5);
                        expected += more;
                        *counted += more;
                        writer.set(2, *counted);
                    }
                }
            }
            let lines = round(&mut pool, step);
            let count = format!("h_count{{app=\"shop\"}} {expected}");
            let is_right = lines.contains(&count) || (lines.is_empty() && expected == 0);
            assert!(is_right, "seed {seed}, step {step}: {count} in {lines:?}");
        }
    }
}

fn restarted(
    mut old: Pool,
    dir: &Path,
    rng: &mut SplitMix64,
    (step, live): (i64, &mut Vec<(Writer, u64)>),
) -> Pool {
    // One that ends now is what the old reader takes over last.
    live.pop();
    let before = contents(dir);
    old.collect(step).unwrap();
    drop(old);
    let kind = rng.below(3);
    if kind == 2 {
        for path in paths(dir, retired::SUFFIX).unwrap() {
            fs::remove_file(path).unwrap();
        }
    }
    // Live segments are as they were: only what was removed comes back.
    for (path, bytes) in before.iter().filter(|(path, _)| kind > 0 && !path.exists()) {
        fs::write(path, bytes).unwrap();
    }
    pool(dir)
}

#[test]
fn cells_are_never_torn() {
    let dir = TempDir::new("segment");
    let mut writer = Writer::new(dir.path(), "shop", "0");
    let cells: Vec<u64> = vec![0; 400];
    let bounds: Vec<f64> = (0..398_u32).map(f64::from).collect();
    writer.add("h", Shape::Histogram(bounds.into()), "", &cells);
    let (mut file, _) = SegmentFile::open(&writer.path).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                value = !value;
                for cell in (2..400).step_by(37) {
                    writer.set(cell, value);
                }
            }
        });
        let mut seen = HashSet::new();
        for _ in 0..20_000 {
            file.read().unwrap();
            seen.extend((2..400).step_by(37).map(|at| file.cell(at)));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(seen.is_subset(&HashSet::from([0, u64::MAX])), "{seen:?}");
    });
}

#[test]
fn segments_beyond_the_directorys_bytes_wait_for_room() {
    let dir = TempDir::new("segment");
    let mut writers = ["0", "1"].map(|worker| Writer::new(dir.path(), "shop", worker));
    for writer in &mut writers {
        writer.add("a_total", Shape::WholeCounter, "", &[1]);
    }
    // The header, a switch, a cell and two records are less than one more header.
    let mut pool = Pool::new(PoolOptions {
        max_bytes: 2 * HEADER_BYTES as u64,
        ..pool(dir.path()).options
    });
    assert_eq!(round(&mut pool, 1), ["a_total{app=\"shop\"} 1"]);
    let problems: Vec<&str> = pool.problems().iter().map(|p| &*p.reason).collect();
    assert!(
        matches!(problems[..], [reason] if reason.contains("bytes in use")),
        "{problems:?}"
    );
    // One that has ended without being read is not taken for read: its counts wait too.
    let [first, second] = writers;
    drop(second);
    assert_eq!(round(&mut pool, 2), ["a_total{app=\"shop\"} 1"]);
    drop(first);
    round(&mut pool, 3);
    assert_eq!(round(&mut pool, 4), ["a_total{app=\"shop\"} 2"]);
    assert_eq!(pool.problems(), []);
    assert_eq!(
        paths(dir.path(), SUFFIX).unwrap(),
        [""; 0].map(PathBuf::from)
    );
}

#[test]
fn one_users_segments_leave_the_others_theirs() {
    let dir = TempDir::new("segment");
    let mut writers = ["0", "1", "2"].map(|worker| Writer::new(dir.path(), "shop", worker));
    let labels = ["", "of=\"1\"", "of=\"2\""];
    for (writer, labels) in writers.iter_mut().zip(labels) {
        writer.add("a_total", Shape::WholeCounter, labels, &[1]);
    }
    // The first two belong to one user, of whose segments one may be read.
    for (writer, uid) in writers.iter().zip([7, 7, 8]) {
        std::os::unix::fs::chown(&writer.path, Some(uid), None)
            .expect("root, who may give files away, runs this test");
    }
    let mut limited = Pool::new(PoolOptions {
        max_bytes_per_user: Some(2 * HEADER_BYTES as u64),
        ..pool(dir.path()).options
    });
    let first_and_last = [
        "a_total{app=\"shop\",of=\"2\"} 1",
        "a_total{app=\"shop\"} 1",
    ];
    assert_eq!(round(&mut limited, 1), first_and_last);
    let problems: Vec<&str> = limited.problems().iter().map(|p| &*p.reason).collect();
    let limit = "the segments of user 7 use more than 8192 bytes";
    assert_eq!(problems, [limit]);
    // Who leaves makes room; what was not read is not lost.
    let [first, _second, _third] = writers;
    drop(first);
    round(&mut limited, 2);
    assert_eq!(round(&mut limited, 3).len(), 3);
    assert_eq!(limited.problems(), []);
}

/// Who may write to the directory could have had any file of the reader's user overwritten.
#[test]
fn links_that_wait_for_the_reader_are_not_followed() {
    let dir = TempDir::new("segment");
    let segments = dir.join("segments");
    fs::create_dir(&segments).unwrap();
    let other = dir.write("other", "untouched");
    let mut writer = Writer::new(&segments, "shop", "0");
    writer.add("a_total", Shape::WholeCounter, "", &[1]);
    std::os::unix::fs::symlink(&other, segments.join("shop.retired.new")).unwrap();
    let mut reader = pool(&segments);
    drop(writer);
    round(&mut reader, 1);
    assert_eq!(reader.problems(), []);
    assert_eq!(round(&mut reader, 2), ["a_total{app=\"shop\"} 1"]);
    assert_eq!(fs::read_to_string(&other).unwrap(), "untouched");
    drop(reader);
    let lock = segments.join("reader.lock");
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(dir.join("created"), &lock).unwrap();
    assert!(pool(&segments).collect(3).is_err());
    assert!(!dir.join("created").exists());
}
