//! Our server and Debian's Prometheus with the same samples, from the same pages at the same times.
//!
//! A page holds one slot of an invented past, with explicit timestamps; the test moves to the next slot once both
//! servers have fetched this one. So it does not matter how often or when they scrape.
//!
//! **Invariant:** both have every slot when [`Pair::start`] returns.

use crate::{
    client,
    support::{self, Job, Running},
    target::{Target, now_ms},
};
use narthex_testkit::TempDir;
use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Time between slots.
pub(crate) const STEP_MS: i64 = 15_000;

/// Both servers.
pub(crate) struct Pair {
    pub(crate) ours: Running,
    pub(crate) theirs: Running,
    /// Time of slot 0, a multiple of a minute.
    pub(crate) start_ms: i64,
    pub(crate) slots: u64,
    _targets: [Target; 2],
    _dir: TempDir,
}

impl Pair {
    /// Starts both with `flags` and lets them scrape `slots` slots, at most 200.
    pub(crate) fn start(slots: u64, flags: &[&str]) -> Self {
        let dir = TempDir::new("pair");
        // Prometheus has just stored its own `up` and accepts only samples of the last hour.
        let start_ms = (now_ms() - 52 * 60_000) / 60_000 * 60_000;
        let slot = Arc::new(AtomicU64::new(0));
        let targets = [(); 2].map(|()| {
            let slot = Arc::clone(&slot);
            Target::start(move |_| page(slot.load(Ordering::SeqCst), start_ms))
        });
        let start = |target: &Target, name: &str| {
            let labels = "honor_timestamps: true\nmetrics_path: /page";
            let job = Job {
                name: "known",
                targets: vec![&target.address],
                more: labels,
            };
            let config = support::config(&dir, "50ms", &[job]);
            let text = std::fs::read_to_string(&config).unwrap()
                + "    labels: {instance: same, zone: z1}\n";
            let config = dir.write(format!("{name}.yml"), text);
            (dir.join(name), config)
        };
        let (data, config) = start(&targets[0], "ours");
        let ours = Running::of(
            support::server_in(&data)
                .arg(support::config_flag(&config))
                .args(flags),
        );
        let (data, config) = start(&targets[1], "theirs");
        let theirs = Running::prometheus(&data, &config, flags);
        for at in 0..slots {
            slot.store(at, Ordering::SeqCst);
            let time = seconds(start_ms + i64::try_from(at).unwrap() * STEP_MS);
            for server in [&ours, &theirs] {
                support::until("both have the slot", || {
                    let found = client::vector(&server.url, "slot", Some(&time));
                    found
                        .values()
                        .any(|(_, value)| *value == at as f64)
                        .then_some(())
                });
            }
        }
        Self {
            ours,
            theirs,
            start_ms,
            slots,
            _targets: targets,
            _dir: dir,
        }
    }

    /// Returns the time `ms` after slot 0, in seconds.
    pub(crate) fn at(&self, ms: i64) -> String {
        seconds(self.start_ms + ms)
    }

    /// Returns the time of the last slot, in milliseconds after slot 0.
    pub(crate) fn end(&self) -> i64 {
        i64::try_from(self.slots - 1).unwrap() * STEP_MS
    }
}

/// Formats milliseconds as the API's seconds.
pub(crate) fn seconds(time_ms: i64) -> String {
    format!("{}.{:03}", time_ms / 1000, time_ms % 1000)
}

/// Returns the page of a slot.
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn page(slot: u64, start_ms: i64) -> String {
    let time_ms = start_ms + i64::try_from(slot).unwrap() * STEP_MS;
    let mut page = Page {
        text: String::new(),
        time_ms,
    };
    let x = slot as f64;
    page.family("slot", "gauge", "Which slot this is.");
    page.sample("slot", x);
    page.family(
        "requests_total",
        "counter",
        "Requests, by code\\nand method.",
    );
    for (i, code) in ["200", "404", "500"].iter().enumerate() {
        for (j, method) in ["get", "post"].iter().enumerate() {
            let rate = (7 * i + 3 * j + 1) as f64;
            page.sample(
                &format!("requests_total{{code=\"{code}\",method=\"{method}\"}}"),
                x * rate + (x * rate).sin().abs(),
            );
        }
    }
    page.family("restarts_total", "counter", "Starts again every 13 slots.");
    page.sample("restarts_total{method=\"get\"}", (slot % 13) as f64 * 2.5);
    page.family("latency_seconds", "histogram", "Latency.");
    for path in ["/", "/a"] {
        let weight = if path == "/" { 1.0 } else { 2.5 };
        for (le, share) in [
            ("0.1", 0.4),
            ("0.5", 0.7),
            ("1", 0.9),
            ("2.5", 0.97),
            ("+Inf", 1.0),
        ] {
            let count = (x * x * weight * share).floor();
            page.sample(
                &format!("latency_seconds_bucket{{le=\"{le}\",path=\"{path}\"}}"),
                count,
            );
        }
        page.sample(
            &format!("latency_seconds_sum{{path=\"{path}\"}}"),
            x * x * weight * 0.31,
        );
        page.sample(
            &format!("latency_seconds_count{{path=\"{path}\"}}"),
            (x * x * weight).floor(),
        );
    }
    page.family("temperature", "gauge", "Degrees.");
    page.sample(
        "temperature{room=\"kitchen\"}",
        20.0 + (x / 5.0).sin() * 4.0,
    );
    page.sample("temperature{room=\"attic\"}", -5.5 + (x / 3.0).cos() * 11.0);
    if !slot.is_multiple_of(7) {
        page.sample("temperature{room=\"cellar\"}", 12.25 - x / 16.0);
    }
    page.family("rpc_seconds", "summary", "Calls.");
    page.sample(
        "rpc_seconds{quantile=\"0.5\"}",
        if slot.is_multiple_of(4) {
            f64::NAN
        } else {
            0.02 * x
        },
    );
    page.sample("rpc_seconds_sum", 0.3 * x);
    page.sample("rpc_seconds_count", 2.0 * x);
    page.sample("weird{text=\"a \\\"quote\\\", a \\\\ and ü\\n\"}", 1e-9 * x);
    page.sample("infinite{sign=\"+\"}", f64::INFINITY);
    page.sample("infinite{sign=\"-\"}", f64::NEG_INFINITY);
    page.sample("large", 1.5e21 + x * 1e18);
    page.text
}

struct Page {
    text: String,
    time_ms: i64,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, series: &str, value: f64) {
        let time_ms = self.time_ms;
        let _ = match value {
            v if v.is_nan() => writeln!(self.text, "{series} NaN {time_ms}"),
            f64::INFINITY => writeln!(self.text, "{series} +Inf {time_ms}"),
            f64::NEG_INFINITY => writeln!(self.text, "{series} -Inf {time_ms}"),
            v => writeln!(self.text, "{series} {v:?} {time_ms}"),
        };
    }
}
