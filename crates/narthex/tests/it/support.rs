//! Starting servers, ours and Debian's, and waiting for conditions.

use crate::client;
use narthex_testkit::{
    TempDir,
    process::{Exit, Server, Spawn},
    rng::SplitMix64,
    tool,
};
use serde_json::Value;
use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Longest wait for anything, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Interval of polling.
const POLL: Duration = Duration::from_millis(10);

/// Returns the path of our binary, or of the one in `NARTHEX_BINARY`.
pub(crate) fn binary() -> OsString {
    let named = std::env::var_os("NARTHEX_BINARY");
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_narthex").into())
}

/// Returns our binary without arguments.
pub(crate) fn narthex() -> Spawn {
    Spawn::new(binary())
}

/// Returns a command for our server on a free port, with its data in `dir`.
pub(crate) fn server_in(dir: &Path) -> Spawn {
    server_of(narthex(), dir)
}

/// Returns the same for a program that accepts our arguments.
pub(crate) fn server_of(program: Spawn, dir: &Path) -> Spawn {
    program
        .arg("server")
        .arg("--web.listen-address=127.0.0.1:0")
        .arg(path_flag(dir))
}

/// Returns the flag for the data directory `dir`.
pub(crate) fn path_flag(dir: &Path) -> String {
    format!("--storage.tsdb.path={}", dir.display())
}

/// A running server that answers requests.
pub(crate) struct Running {
    pub(crate) process: Server,
    /// `http://127.0.0.1:port`.
    pub(crate) url: String,
}

impl Running {
    /// Starts our server with a configuration and waits until it is ready.
    pub(crate) fn start(dir: &Path, config: &Path) -> Self {
        Self::of(server_in(dir).arg(config_flag(config)))
    }

    /// Starts our server and waits until it is ready.
    pub(crate) fn of(spawn: Spawn) -> Self {
        Self::ready(spawn.start(), "/-/ready")
    }

    /// Starts our server, which serves below `prefix`, and waits until it is ready.
    pub(crate) fn below(prefix: &str, spawn: Spawn) -> Self {
        let server = Self::ready(spawn.start(), &format!("{prefix}/-/ready"));
        let url = format!("{}{prefix}", server.url);
        Self { url, ..server }
    }

    /// Starts Debian's Prometheus with its data in `dir`.
    pub(crate) fn prometheus(dir: &Path, config: &Path, flags: &[&str]) -> Self {
        let program = tool("prometheus", "prometheus");
        Self::prometheus_at(program.as_os_str(), dir, config, flags)
    }

    /// Starts a Prometheus other than Debian's.
    pub(crate) fn prometheus_at(
        program: &OsStr,
        dir: &Path,
        config: &Path,
        flags: &[&str],
    ) -> Self {
        let spawn = Spawn::new(program)
            .arg("--web.listen-address=127.0.0.1:0")
            .arg(path_flag(dir))
            .arg(config_flag(config))
            .args(flags);
        Self::ready(spawn.start(), "/-/ready")
    }

    /// Starts Debian's `node_exporter`.
    pub(crate) fn node_exporter() -> Self {
        let program = tool("prometheus-node-exporter", "prometheus-node-exporter");
        let spawn = Spawn::new(program).arg("--web.listen-address=127.0.0.1:0");
        Self::ready(spawn.start(), "/")
    }

    /// Starts a program that logs its address, and waits until it answers `/metrics`.
    pub(crate) fn exporter(spawn: Spawn) -> Self {
        Self::ready(spawn.start(), "/metrics")
    }

    fn ready(mut process: Server, path: &str) -> Self {
        let port = process.wait_port("Listening on", PATIENCE);
        let url = format!("http://127.0.0.1:{port}");
        process.wait_url(&format!("{url}{path}"), PATIENCE);
        Self { process, url }
    }

    /// Returns `127.0.0.1:port`.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Stops the server, fails unless it ends cleanly, and returns its log.
    pub(crate) fn stop(mut self) -> String {
        let exit = self.process.terminate(PATIENCE);
        let log = self.process.stderr();
        let clean = Exit {
            code: Some(0),
            signal: None,
        };
        assert_eq!(exit, clean, "{log}");
        log
    }

    /// Returns the value of a series without labels on its `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let page = client::get(&format!("{}/metrics", self.url));
        let line = page.text();
        let line = line.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    }

    /// Waits until `accept` accepts the result of an instant query, and returns that result.
    pub(crate) fn wait_vector(
        &self,
        query: &str,
        accept: impl Fn(&client::Vector) -> bool,
    ) -> client::Vector {
        until(query, || {
            let vector = client::vector(&self.url, query, None);
            accept(&vector).then_some(vector)
        })
    }

    /// Returns the `data` of a successful API response.
    pub(crate) fn data(&self, path: &str, params: &[(&str, &str)]) -> Value {
        client::data(&self.url, path, params)
    }
}

/// Returns the flag for the configuration file.
pub(crate) fn config_flag(config: &Path) -> String {
    format!("--config.file={}", config.display())
}

/// Calls `look` until it returns a value.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(POLL);
    }
}

/// Returns a generator seeded with `NARTHEX_TEST_SEED`, or else `seed`.
pub(crate) fn rng(seed: u64) -> SplitMix64 {
    let seed = std::env::var("NARTHEX_TEST_SEED").map_or(seed, |text| text.parse().unwrap());
    SplitMix64::new(seed)
}

/// One scrape job of a configuration.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    pub(crate) targets: Vec<&'a str>,
    /// Further lines of the job.
    pub(crate) more: &'a str,
}

/// Writes a configuration that scrapes `jobs`, and returns its path.
pub(crate) fn config(dir: &TempDir, interval: &str, jobs: &[Job<'_>]) -> std::path::PathBuf {
    let mut text = format!(
        "global:\n  scrape_interval: {interval}\n  scrape_timeout: {interval}\nscrape_configs:\n"
    );
    for job in jobs {
        let _ = writeln!(text, "- job_name: {}", job.name);
        for line in job.more.lines() {
            let _ = writeln!(text, "  {line}");
        }
        let _ = writeln!(text, "  static_configs:\n  - targets: {:?}", job.targets);
    }
    if jobs.is_empty() {
        text.push_str("  []\n");
    }
    let name = format!("{}.yml", jobs.first().map_or("idle", |job| job.name));
    dir.write(name, text)
}

/// Returns the files below `dir` whose path contains `part`, sorted.
pub(crate) fn files_below(dir: &Path, part: &str) -> Vec<std::path::PathBuf> {
    let mut found = narthex_testkit::corpora::files(dir, "");
    found.retain(|path| path.to_string_lossy().contains(part));
    found
}

/// Copies a data directory, except its lock.
pub(crate) fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else if entry.file_name() != OsStr::new("LOCK") {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
