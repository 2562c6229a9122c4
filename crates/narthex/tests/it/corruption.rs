//! Damaged files: the server starts, names the damaged file and position, and serves everything else.
//!
//! **Invariant:** whatever the damage, every sample served was stored before, unchanged.

use crate::{
    client::{self, Matrix},
    known::{self, assert_true, stored},
    support::{self, PATIENCE, Running},
    target::{Target, now_ms},
};
use narthex_testkit::{TempDir, http::Response, process::SIGKILL, scaled};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Number of runs of the server, each of which leaves one WAL file.
const RUNS: usize = 3;

/// A data directory with a block and three WAL files, and its samples.
struct Scene {
    dir: TempDir,
    data: PathBuf,
    targets: Vec<Target>,
    /// A configuration without targets.
    idle: PathBuf,
    scraping: PathBuf,
    whole: Matrix,
    /// End of each run.
    ends_ms: Vec<i64>,
}

impl Scene {
    fn new() -> Self {
        let dir = TempDir::new("corruption");
        let targets = known::targets(2);
        let scraping = support::config(&dir, "20ms", &[known::job(&targets)]);
        let idle = support::config(&dir, "1s", &[]);
        let data = dir.join("data");
        let mut scene = Self {
            dir,
            data,
            targets,
            idle,
            scraping,
            whole: Matrix::new(),
            ends_ms: Vec::new(),
        };
        for run in 0..RUNS {
            let server = Running::start(&scene.data, &scene.scraping);
            if run == 0 {
                support::until("a block", || {
                    (server.metric("prometheus_tsdb_blocks_loaded") >= Some(1.0)).then_some(())
                });
            }
            scene.wait_scrapes(15);
            server.process.signal(SIGKILL);
            drop(server);
            scene.ends_ms.push(now_ms());
        }
        let server = scene.copy("pristine", &scene.idle, |_| ());
        scene.whole = stored(&server.url, "1d");
        assert!(assert_true(&scene.whole, &scene.targets) > 100);
        assert!(!server.stop().contains("damaged"));
        scene
    }

    /// Waits for `count` more scrapes of every target.
    fn wait_scrapes(&self, count: u64) {
        let before = self.targets.iter().map(Target::count).max().unwrap();
        support::until("more scrapes", || {
            self.targets
                .iter()
                .all(|target| target.count() > before + count)
                .then_some(())
        });
    }

    /// Starts a server on a copy of the data modified by `change`.
    fn copy(&self, name: &str, config: &Path, change: impl FnOnce(&Path)) -> Running {
        let copy = self.dir.join(name);
        support::copy_dir(&self.data, &copy).unwrap();
        change(&copy);
        Running::start(&copy, config)
    }

    fn log_file(&self, run: usize) -> PathBuf {
        support::files_below(&self.data, "/wal/")[run]
            .strip_prefix(&self.data)
            .unwrap()
            .to_owned()
    }

    fn block(&self) -> PathBuf {
        support::files_below(&self.data, ".block")[0]
            .strip_prefix(&self.data)
            .unwrap()
            .to_owned()
    }

    /// Returns the samples missing from `seen`, after checking that `seen` has only whole, true scrapes.
    fn lost(&self, seen: &Matrix, what: &str) -> Lost {
        assert_true(seen, &self.targets);
        self.lost_anywhere(seen, what)
    }

    /// Returns the same without checking that scrapes are whole: a damaged block page affects only some series.
    fn lost_anywhere(&self, seen: &Matrix, what: &str) -> Lost {
        let mut lost = Lost::default();
        for (series, samples) in &self.whole {
            let empty = BTreeMap::new();
            let kept = seen.get(series).unwrap_or(&empty);
            for (time_ms, bits) in samples {
                match kept.get(time_ms) {
                    Some(found) => assert_eq!(found, bits, "{what}: {series} at {time_ms} changed"),
                    None => lost.add(
                        series,
                        *time_ms,
                        self.ends_ms.iter().filter(|end| *end < time_ms).count(),
                    ),
                }
            }
        }
        let count = |matrix: &Matrix| matrix.values().map(BTreeMap::len).sum::<usize>();
        assert_eq!(
            count(&self.whole),
            count(seen) + lost.samples,
            "{what}: samples that never were"
        );
        lost
    }
}

/// Missing samples.
#[derive(Debug, Default)]
struct Lost {
    samples: usize,
    runs: BTreeSet<usize>,
    /// Times with missing samples, by target.
    times: BTreeMap<String, BTreeSet<i64>>,
}

impl Lost {
    fn add(&mut self, series: &str, time_ms: i64, run: usize) {
        self.samples += 1;
        self.runs.insert(run);
        let target = series
            .split("instance=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        self.times
            .entry(target.to_owned())
            .or_default()
            .insert(time_ms);
    }
}

/// Samples that damage may cost.
#[derive(Debug)]
enum Loss {
    Nothing,
    /// One target's samples of one run, from one scrape to the end of the batch encoded after it.
    OneTarget {
        run: usize,
    },
    /// Samples of one run.
    Run {
        run: usize,
    },
    /// The last scrape of one target.
    LastScrape,
}

impl Loss {
    fn check(&self, lost: &Lost, scene: &Scene, what: &str) {
        let of_run = |run: usize| lost.samples > 0 && lost.runs.iter().all(|one| *one == run);
        let fits = match self {
            Self::Nothing => lost.samples == 0,
            Self::OneTarget { run } => {
                of_run(*run)
                    && lost.times.len() == 1
                    && lost.times.values().all(|times| scene.is_stretch(times))
            }
            Self::Run { run } => of_run(*run),
            Self::LastScrape => {
                of_run(RUNS - 1)
                    && lost.times.len() == 1
                    && lost.times.values().all(|times| times.len() == 1)
            }
        };
        assert!(
            fits,
            "{what}: may lose {self:?}, lost {} of runs {:?}: {:?}",
            lost.samples, lost.runs, lost.times
        );
    }
}

impl Scene {
    /// Reports whether every scrape of the target between the first and the last of these times is among them.
    fn is_stretch(&self, times: &BTreeSet<i64>) -> bool {
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            return true;
        };
        self.whole
            .iter()
            .filter(|(series, _)| series.starts_with("up{"))
            .filter(|(_, samples)| samples.contains_key(first))
            .any(|(_, samples)| {
                samples
                    .range(first..=last)
                    .all(|(time_ms, _)| times.contains(time_ms))
            })
    }
}

/// Returns the offset that the log reports for a damaged file.
fn reported_offset(log: &str, file: &Path) -> Option<u64> {
    let needle = format!("{} is damaged at byte ", file.display());
    let line = log.lines().find(|line| line.contains(&needle))?;
    assert!(line.contains("level=ERROR"), "{line}");
    line.split(&needle).nth(1)?.split(':').next()?.parse().ok()
}

/// Changes a file's bytes.
type Change = Box<dyn Fn(&mut Vec<u8>)>;

/// One way to damage a file, and its allowed consequences.
struct Damage {
    what: &'static str,
    file: PathBuf,
    change: Change,
    loss: Loss,
    /// Expected offset of the damage; `None` for a torn end, which is reported differently.
    at: Option<std::ops::Range<u64>>,
}

fn flip(at: usize) -> Change {
    Box::new(move |bytes| bytes[at] ^= 0x10)
}

/// Returns the offsets at which the batch with this byte may begin.
fn around(at: usize) -> Option<std::ops::Range<u64>> {
    Some((at as u64).saturating_sub(2000)..at as u64 + 1)
}

#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn log_damages(scene: &Scene) -> Vec<Damage> {
    let len = |run: usize| {
        usize::try_from(
            fs::metadata(scene.data.join(scene.log_file(run)))
                .unwrap()
                .len(),
        )
        .unwrap()
    };
    let (first, second, third) = (len(0), len(1), len(2));
    let damage = |what, run, change: Change, loss, at| Damage {
        what,
        file: scene.log_file(run),
        change,
        loss,
        at,
    };
    vec![
        // Rows from the middle of the first run are in the block too, those of its end are not.
        damage(
            "flip in the first log",
            0,
            flip(first - 500),
            Loss::OneTarget { run: 0 },
            around(first - 500),
        ),
        damage(
            "flip in the middle log",
            1,
            flip(second / 2),
            Loss::OneTarget { run: 1 },
            around(second / 2),
        ),
        damage(
            "flip in the last log",
            2,
            flip(third / 2),
            Loss::OneTarget { run: 2 },
            around(third / 2),
        ),
        damage("flip of the magic", 1, flip(3), Loss::Nothing, Some(0..1)),
        damage("flip in the version", 1, flip(9), Loss::Nothing, Some(0..1)),
        damage(
            "flip in the last version",
            2,
            flip(8),
            Loss::Nothing,
            Some(0..1),
        ),
        damage(
            "cut in the middle log",
            1,
            Box::new(move |bytes| bytes.truncate(second / 2)),
            Loss::Run { run: 1 },
            around(second / 2),
        ),
        damage(
            "zeros in the middle log",
            1,
            Box::new(move |bytes| bytes[second / 2..][..1000].fill(0)),
            Loss::Run { run: 1 },
            around(second / 2),
        ),
        damage(
            "garbage in the middle log",
            1,
            Box::new(move |bytes| {
                bytes.splice(second / 2..second / 2, (0..999).map(|n| (n * 7) as u8));
            }),
            Loss::OneTarget { run: 1 },
            around(second / 2),
        ),
        damage(
            "garbage behind the last log",
            2,
            Box::new(|bytes| bytes.extend([0xa5; 300])),
            Loss::Nothing,
            Some(third as u64..third as u64 + 1),
        ),
        // The kernel did not have these bytes when power failed: the torn end is cut off and logged.
        damage(
            "cut at the end of the last log",
            2,
            Box::new(|bytes| bytes.truncate(bytes.len() - 20)),
            Loss::LastScrape,
            None,
        ),
        damage(
            "zeros behind the last log",
            2,
            Box::new(|bytes| bytes.extend([0; 5000])),
            Loss::Nothing,
            None,
        ),
        damage(
            "nothing but a name",
            2,
            Box::new(Vec::clear),
            Loss::Run { run: 2 },
            None,
        ),
    ]
}

fn other_damages(scene: &Scene) -> Vec<Damage> {
    let block = scene.block();
    let len = fs::metadata(scene.data.join(&block)).unwrap().len();
    let middle = usize::try_from(len / 2).unwrap();
    let damage = |what, change: Change, at| Damage {
        what,
        file: block.clone(),
        change,
        // The WAL still has the block's rows, which are read from there instead.
        loss: Loss::Nothing,
        at: Some(at),
    };
    vec![
        damage("flip of a block's magic", flip(2), 0..1),
        damage(
            "flip in a block's footer",
            flip(2 * middle - 30),
            len - 1000..len,
        ),
        damage(
            "a block cut off",
            Box::new(move |bytes| bytes.truncate(middle)),
            0..len / 2 + 1,
        ),
        damage(
            "a byte behind a block",
            Box::new(|bytes| bytes.push(1)),
            0..len + 1,
        ),
        Damage {
            what: "flip in the manifest",
            file: "MANIFEST".into(),
            change: flip(30),
            loss: Loss::Nothing,
            at: Some(0..100),
        },
        Damage {
            what: "flip in the manifest's version",
            file: "MANIFEST".into(),
            change: flip(8),
            loss: Loss::Nothing,
            at: Some(0..100),
        },
    ]
}

/// Damages a file in a copy of the scene and checks the consequences.
fn check(scene: &Scene, number: usize, damage: &Damage) {
    let what = damage.what;
    let name = format!("case-{number}");
    let file = scene.dir.join(&name).join(&damage.file);
    let server = scene.copy(&name, &scene.idle, |_| {
        let mut bytes = fs::read(&file).unwrap();
        let before = bytes.clone();
        (damage.change)(&mut bytes);
        assert_ne!(bytes, before, "{what}");
        fs::write(&file, bytes).unwrap();
    });
    let seen = stored(&server.url, "1d");
    damage.loss.check(&scene.lost(&seen, what), scene, what);
    let counted = [
        "prometheus_tsdb_wal_corruptions_total",
        "narthex_tsdb_block_corruptions_total",
    ];
    let counted = counted.map(|name| server.metric(name).unwrap());
    let counted = Some(counted.iter().sum::<f64>());
    let log = server.stop();
    let offset = reported_offset(&log, &file);
    match &damage.at {
        Some(at) => {
            assert!(
                offset.is_some_and(|offset| at.contains(&offset)),
                "{what}: reported at {offset:?}, is at {at:?}: {log}"
            );
            assert_eq!(counted, Some(1.0), "{what}");
        }
        None => {
            assert_eq!((offset, counted), (None, Some(0.0)), "{what}: {log}");
            let told = |line: &str| {
                line.contains("ended in the middle of a write")
                    && line.contains(&format!("file={} offset=", file.display()))
            };
            assert!(log.lines().any(told), "{what}: {log}");
        }
    }
    fs::remove_dir_all(scene.dir.join(name)).unwrap();
}

/// A damaged page costs only its samples; every kind of response carries a warning with the position, and the server
/// stays healthy.
fn a_damaged_page_is_left_out(scene: &Scene) {
    let block = scene.dir.join("page").join(scene.block());
    let mut server = scene.copy("page", &scene.idle, |_| {
        let mut bytes = fs::read(&block).unwrap();
        bytes[100] ^= 1;
        fs::write(&block, bytes).unwrap();
    });
    let named = format!(
        "{} is damaged at byte 16: checksum of page",
        block.display()
    );
    let warned = |answer: &Response| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        let warns = text.contains("\"warnings\"");
        assert_eq!(warns, text.contains(&named), "{text}");
        warns
    };
    let mut hit = 0;
    for (series, samples) in &scene.whole {
        let query = format!("{series}[1d]");
        let answer = client::try_call(&server.url, "/api/v1/query", &[("query", &query)]).unwrap();
        let found = client::matrix_of(&client::data_of(&answer, series), series);
        let kept = found.get(series).cloned().unwrap_or_default();
        assert!(kept.iter().all(|(at, bits)| samples.get(at) == Some(bits)));
        assert_eq!(warned(&answer), kept != *samples, "{series}");
        hit += usize::from(kept != *samples);
    }
    assert!(
        hit > 0 && hit < scene.whole.len(),
        "{hit} of {} series hit",
        scene.whole.len()
    );
    let all = known::selector("1d");
    let end = now_ms() / 1000;
    let range = [
        ("query", "count({job=~\".+\"})".to_owned()),
        ("start", (end - 3600).to_string()),
        ("end", end.to_string()),
        ("step", "60".to_owned()),
    ];
    let range: Vec<(&str, &str)> = range
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    for (path, params) in [
        ("/api/v1/query", &[("query", &*all)][..]),
        ("/api/v1/query_range", &range[..]),
    ] {
        assert!(
            warned(&client::try_call(&server.url, path, params).unwrap()),
            "{path}"
        );
    }
    let lost = scene.lost_anywhere(&stored(&server.url, "1d"), "a damaged page");
    assert!(lost.samples > 0 && lost.runs.iter().all(|run| *run == 0));
    let healthy = client::try_call(&server.url, "/-/healthy", &[]).unwrap();
    assert_eq!(healthy.status, 200);
    assert_eq!(
        server.metric("narthex_tsdb_block_corruptions_total"),
        Some(1.0)
    );
    server.process.wait_for(&named, PATIENCE);
    let log = server.stop();
    assert_eq!(log.matches(&named).count(), 1, "logged once: {log}");
}

/// With a damaged label index, listings are shorter and carry a warning.
fn a_damaged_index_is_warned_of_in_listings(scene: &Scene) {
    let block = scene.dir.join("index").join(scene.block());
    let server = scene.copy("index", &scene.idle, |_| {
        let mut bytes = fs::read(&block).unwrap();
        let name = b"instance";
        let at = (0..bytes.len())
            .rfind(|at| bytes[*at..].starts_with(name))
            .unwrap();
        bytes[at] ^= 1;
        fs::write(&block, bytes).unwrap();
    });
    let named = format!("{} is damaged at byte ", block.display());
    let all = known::selector("1d");
    for path in [
        "/api/v1/labels",
        "/api/v1/label/instance/values",
        "/api/v1/series",
        "/api/v1/query",
    ] {
        let params = match path {
            "/api/v1/query" => vec![("query", &*all)],
            "/api/v1/series" => vec![("match[]", "{job=~\".+\"}")],
            _ => vec![],
        };
        let answer = client::try_call(&server.url, path, &params).unwrap();
        let text = answer.text();
        assert_eq!(answer.status, 200, "{path}: {text}");
        assert!(
            text.contains("\"warnings\"") && text.contains(&named),
            "{path}: {text}"
        );
    }
    server.stop();
}

/// A flip anywhere in a block is reported in the affected response, and costs at most that block.
fn a_flip_anywhere_in_a_block_is_told(scene: &Scene, number: usize) {
    let mut rng = support::rng(0xb10c + number as u64);
    let name = format!("block-{number}");
    let file = scene.dir.join(&name).join(scene.block());
    let mut what = String::new();
    let mut server = scene.copy(&name, &scene.idle, |_| {
        let mut bytes = fs::read(&file).unwrap();
        // Half of the flips are behind the pages, in the sections that find series.
        let back = if number.is_multiple_of(2) {
            bytes.len()
        } else {
            4000
        };
        let at = bytes.len() - 1 - rng.index(back);
        let bit = rng.below(8);
        bytes[at] ^= 1 << bit;
        what = format!("bit {bit} of byte {at} of {}", file.display());
        fs::write(&file, bytes).unwrap();
    });
    let params = [("query", &*known::selector("1d"))];
    let answer = client::try_call(&server.url, "/api/v1/query", &params).unwrap();
    let text = answer.text();
    let named = file.display().to_string();
    assert_eq!(answer.status, 200, "{what}: {text}");
    let lost = scene.lost_anywhere(
        &client::matrix_of(&client::data_of(&answer, &what), &what),
        &what,
    );
    assert!(lost.runs.iter().all(|run| *run == 0), "{what}: {lost:?}");
    assert!(lost.samples == 0 || text.contains(&named), "{what}: {text}");
    // The response did not need the damaged part, so request listings that may.
    let elsewhere = lost.samples == 0 && !server.process.stderr().contains(&named);
    if elsewhere {
        for path in ["/api/v1/metadata", "/api/v1/labels"] {
            let answer = client::try_call(&server.url, path, &[]).unwrap();
            assert_eq!(answer.status, 200, "{what}: {path}: {}", answer.text());
        }
    } else {
        // Damage found while reading; the log reports it a moment later.
        let line = format!("{named} is damaged at byte ");
        server.process.wait_for(&line, PATIENCE);
    }
    server.stop();
    fs::remove_dir_all(scene.dir.join(name)).unwrap();
}

/// A file of a later version is refused, not guessed at.
fn a_newer_version_is_refused(scene: &Scene) {
    let copy = scene.dir.join("newer");
    support::copy_dir(&scene.data, &copy).unwrap();
    let file = copy.join(scene.log_file(1));
    let mut bytes = fs::read(&file).unwrap();
    bytes[8] = 9;
    let crc = crc32c(&bytes[..16]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    fs::write(&file, bytes).unwrap();
    let finished = support::server_in(&copy).run(PATIENCE);
    let line = finished.stderr.lines().last().unwrap();
    assert_eq!(finished.exit.code, Some(1), "{}", finished.stderr);
    let expected = format!("narthex: error: {} has format version 9", file.display());
    assert!(line.starts_with(&expected), "{line}");
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
    let fold = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    !bytes.iter().fold(!0, fold)
}

/// A damaged store keeps working: new samples survive a restart.
fn a_damaged_store_goes_on(scene: &Scene) {
    let copy = scene.dir.join("goes-on");
    let server = scene.copy("goes-on", &scene.scraping, |_| {
        let file = copy.join(scene.log_file(2));
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        fs::write(&file, bytes).unwrap();
    });
    scene.wait_scrapes(10);
    let seen = stored(&server.url, "1d");
    let newest = |matrix: &Matrix| *matrix.values().flat_map(BTreeMap::keys).max().unwrap();
    assert!(newest(&seen) > newest(&scene.whole));
    server.process.signal(SIGKILL);
    drop(server);
    let server = Running::start(&copy, &scene.idle);
    let again = stored(&server.url, "1d");
    assert_true(&again, &scene.targets);
    for (series, samples) in &seen {
        for (time_ms, bits) in samples {
            assert_eq!(
                again[series].get(time_ms),
                Some(bits),
                "{series} at {time_ms}"
            );
        }
    }
    server.stop();
}

/// A flip anywhere in the WAL costs at most its run.
fn a_flip_anywhere_costs_its_run_at_most(scene: &Scene, number: usize) {
    let mut rng = support::rng(0xf11b + number as u64);
    let run = rng.index(RUNS);
    let name = format!("flip-{number}");
    let file = scene.dir.join(&name).join(scene.log_file(run));
    let mut what = String::new();
    let server = scene.copy(&name, &scene.idle, |_| {
        let mut bytes = fs::read(&file).unwrap();
        let at = rng.index(bytes.len());
        let bit = rng.below(8);
        bytes[at] ^= 1 << bit;
        what = format!("bit {bit} of byte {at} of {}", file.display());
        fs::write(&file, bytes).unwrap();
    });
    let lost = scene.lost(&stored(&server.url, "1d"), &what);
    assert!(
        lost.runs.iter().all(|lost| *lost == run),
        "{what}: {lost:?}"
    );
    let log = server.stop();
    // A last batch whose length exceeds the file looks like a torn end.
    let torn = run == RUNS - 1 && lost.times.values().map(BTreeSet::len).sum::<usize>() <= 1;
    assert!(
        reported_offset(&log, &file).is_some() || torn,
        "{what}: {log}"
    );
    fs::remove_dir_all(scene.dir.join(name)).unwrap();
}

#[test]
fn damage_is_told_and_everything_else_served() {
    let scene = Scene::new();
    let damages = log_damages(&scene).into_iter().chain(other_damages(&scene));
    for (number, damage) in damages.enumerate() {
        check(&scene, number, &damage);
    }
    a_damaged_page_is_left_out(&scene);
    a_damaged_index_is_warned_of_in_listings(&scene);
    a_newer_version_is_refused(&scene);
    a_damaged_store_goes_on(&scene);
    for number in 0..usize::try_from(scaled(6)).unwrap() {
        a_flip_anywhere_costs_its_run_at_most(&scene, number);
        a_flip_anywhere_in_a_block_is_told(&scene, number);
    }
}
