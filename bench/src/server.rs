//! Servers under test: how each kind is started and configured, and one that runs.
//!
//! **Invariant:** all kinds get the same scrape configuration; a server listens on a free loopback port only and
//! leaves no process behind.

use crate::{
    cleanup::{Group, WorkDir},
    cli::usage,
    error::BenchError,
};
use narthex_testkit::http;
use std::{
    fs::{self, File},
    net::{SocketAddrV4, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How often a wait looks again.
const POLL: Duration = Duration::from_millis(5);
/// Bytes of a server's output that an error shows.
const LOG_TAIL: usize = 2_000;

/// A kind of server: what to start and how to tell that it is ready.
#[derive(Debug)]
pub(crate) struct Preset {
    /// Its name, which is also its program's.
    pub(crate) name: &'static str,
    /// Arguments; `{config}`, `{data}` and `{listen}` are replaced.
    arguments: &'static [&'static str],
    version: &'static [&'static str],
    ready: &'static str,
}

/// All kinds, ours first.
pub(crate) static PRESETS: &[Preset] = &[
    Preset {
        name: "narthex",
        arguments: &[
            "server",
            "--config.file={config}",
            "--storage.tsdb.path={data}",
            "--web.listen-address={listen}",
            "--log.level=warn",
        ],
        version: &["server", "--version"],
        ready: "/-/ready",
    },
    Preset {
        name: "prometheus",
        arguments: &[
            "--config.file={config}",
            "--storage.tsdb.path={data}",
            "--web.listen-address={listen}",
            "--log.level=warn",
        ],
        version: &["--version"],
        ready: "/-/ready",
    },
];

/// A server named on the command line.
#[derive(Debug, Clone)]
pub(crate) struct ServerSpec {
    /// What the report calls it.
    pub(crate) label: String,
    pub(crate) preset: &'static Preset,
    pub(crate) program: PathBuf,
}

impl ServerSpec {
    /// Reads `preset=PATH` or `preset@label=PATH`.
    ///
    /// # Errors
    ///
    /// When there is no such preset or no such program.
    pub(crate) fn parse(text: &str) -> Result<Self, BenchError> {
        let (label, path) = text
            .split_once('=')
            .ok_or_else(|| usage(format!("--server: {text:?} is not NAME=PATH")))?;
        let name = label.split('@').next().unwrap_or(label);
        let preset = PRESETS
            .iter()
            .find(|preset| preset.name == name)
            .ok_or_else(|| {
                let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                usage(format!(
                    "--server: {name:?} is none of {}",
                    names.join(", ")
                ))
            })?;
        // Links are kept: a program may go by the name it is called.
        let found = fs::metadata(path).and_then(|_| std::path::absolute(path));
        let program = found.map_err(|e| usage(format!("--server: {path}: {e}")))?;
        Ok(Self {
            label: label.to_owned(),
            preset,
            program,
        })
    }

    /// Returns the presets whose programs are beside this one or on PATH, and the names of the others.
    pub(crate) fn installed() -> (Vec<Self>, Vec<&'static str>) {
        let beside = std::env::current_exe()
            .ok()
            .and_then(|path| Some(path.parent()?.to_path_buf()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<PathBuf> = beside
            .into_iter()
            .chain(std::env::split_paths(&path))
            .collect();
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for preset in PRESETS {
            let mut candidates = directories.iter().map(|dir| dir.join(preset.name));
            match candidates.find(|path| path.is_file()) {
                Some(program) => found.push(Self {
                    label: preset.name.to_owned(),
                    preset,
                    program,
                }),
                None => missing.push(preset.name),
            }
        }
        (found, missing)
    }

    /// Returns the first line that the program says of its version.
    pub(crate) fn version(&self) -> String {
        let output = Command::new(&self.program)
            .args(self.preset.version)
            .stdin(Stdio::null())
            .output();
        let Ok(output) = output else {
            return "unknown".to_owned();
        };
        // Older Go programs say it on standard error.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().next().filter(|_| output.status.success());
        line.unwrap_or("unknown").to_owned()
    }

    /// Returns the command line with its places unfilled.
    pub(crate) fn command(&self) -> String {
        format!("{} {}", self.preset.name, self.preset.arguments.join(" "))
    }
}

/// Returns the configuration by which every server scrapes the fleet; `labels_of` gives a target's own labels.
pub(crate) fn scrape_config(
    addresses: &[SocketAddrV4],
    interval: Duration,
    labels_of: impl Fn(usize) -> Vec<(String, String)>,
) -> String {
    let interval = interval.as_millis();
    let mut text = format!(
        "global:\n  scrape_interval: {interval}ms\n  scrape_timeout: {interval}ms\n\
         scrape_configs:\n  - job_name: fleet\n    static_configs:\n"
    );
    for (target, address) in addresses.iter().enumerate() {
        text.push_str(&format!("      - targets: [\"{address}\"]\n"));
        let labels = labels_of(target);
        if !labels.is_empty() {
            text.push_str("        labels:\n");
        }
        for (name, value) in labels {
            text.push_str(&format!("          {name}: \"{value}\"\n"));
        }
    }
    text
}

/// A server that runs, with its configuration and data in `dir`.
#[derive(Debug)]
pub(crate) struct RunningServer {
    spec: ServerSpec,
    dir: WorkDir,
    group: Group,
    address: SocketAddrV4,
}

impl RunningServer {
    /// Starts the server with an empty data directory below `base`.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn start(spec: &ServerSpec, base: &Path, config: &str) -> Result<Self, BenchError> {
        let dir = WorkDir::new(base, &spec.label)?;
        let file = dir.path().join("prometheus.yml");
        fs::write(&file, config).map_err(BenchError::io("write the configuration"))?;
        let address = free_address()?;
        let group = launch(spec, dir.path(), address)?;
        Ok(Self {
            spec: spec.clone(),
            dir,
            group,
            address,
        })
    }

    /// Kills it with `kill -9`.
    pub(crate) fn crash(&mut self) {
        self.group.kill();
    }

    /// Starts it again on the same data and port.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn restart(&mut self) -> Result<(), BenchError> {
        self.group = launch(&self.spec, self.dir.path(), self.address)?;
        Ok(())
    }

    /// Returns what the report calls it.
    pub(crate) fn label(&self) -> &str {
        &self.spec.label
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.group.pid().as_raw_nonzero().get()
    }

    /// Returns its data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Returns the URL of a path on it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Fails when it has ended.
    ///
    /// # Errors
    ///
    /// With the end of its output.
    pub(crate) fn check(&mut self) -> Result<(), BenchError> {
        let ended = self
            .group
            .ended()
            .map_err(BenchError::io("wait for the server"))?;
        match ended {
            Some(status) => Err(self.error(format!("ended ({status})"))),
            None => Ok(()),
        }
    }

    /// Looks again and again until `found` returns something.
    ///
    /// # Errors
    ///
    /// When the server ends or the time is over.
    pub(crate) fn wait<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut found: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, BenchError> {
        let end = Instant::now() + limit;
        loop {
            if let Some(found) = found(self) {
                return Ok(found);
            }
            self.check()?;
            if Instant::now() > end {
                return Err(self.error(format!("did not {what} within {limit:?}")));
            }
            thread::sleep(POLL);
        }
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    ///
    /// As [`RunningServer::wait`].
    pub(crate) fn wait_ready(&mut self, limit: Duration) -> Result<(), BenchError> {
        let url = self.url(self.spec.preset.ready);
        self.wait("get ready", limit, |_| {
            let answer = http::get(&url).ok()?;
            (answer.status == 200).then_some(())
        })
    }

    fn error(&self, what: String) -> BenchError {
        let log = fs::read(self.dir.path().join("log")).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(LOG_TAIL)..];
        BenchError::Server {
            name: self.spec.label.clone(),
            what,
            log: String::from_utf8_lossy(tail).into_owned(),
        }
    }
}

fn launch(spec: &ServerSpec, dir: &Path, address: SocketAddrV4) -> Result<Group, BenchError> {
    let fill = |argument: &&str| {
        argument
            .replace("{config}", &dir.join("prometheus.yml").to_string_lossy())
            .replace("{data}", &dir.join("data").to_string_lossy())
            .replace("{listen}", &address.to_string())
    };
    let log = || {
        File::options()
            .create(true)
            .append(true)
            .open(dir.join("log"))
    };
    let open = BenchError::io("open the server's log");
    let (stdout, stderr) = log().and_then(|out| Ok((out, log()?))).map_err(open)?;
    let mut command = Command::new(&spec.program);
    command
        .args(spec.preset.arguments.iter().map(fill))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    Group::start(&mut command).map_err(BenchError::io(format!("start {}", spec.program.display())))
}

/// Returns a loopback address that nobody listens on at the moment.
fn free_address() -> Result<SocketAddrV4, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::io("find a free port"))?;
    let port = listener
        .local_addr()
        .map_err(BenchError::io("find a free port"))?
        .port();
    Ok(SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_preset_a_label_and_a_program() {
        let spec = ServerSpec::parse("prometheus@old=/bin/sh").unwrap();
        assert_eq!(
            (spec.label.as_str(), spec.preset.name),
            ("prometheus@old", "prometheus")
        );
        assert!(
            spec.command()
                .starts_with("prometheus --config.file={config} ")
        );
        for (text, reason) in [
            ("prometheus", "--server: \"prometheus\" is not NAME=PATH"),
            (
                "influx=/bin/sh",
                "--server: \"influx\" is none of narthex, prometheus",
            ),
            (
                "narthex=/nowhere",
                "--server: /nowhere: No such file or directory (os error 2)",
            ),
        ] {
            assert_eq!(ServerSpec::parse(text).unwrap_err().to_string(), reason);
        }
    }

    #[test]
    fn a_server_that_ends_shows_its_output() {
        // What cat says to a Prometheus' arguments.
        let spec = ServerSpec::parse("prometheus@cat=/bin/cat").unwrap();
        let mut server = RunningServer::start(&spec, &std::env::temp_dir(), "").unwrap();
        let error = server
            .wait_ready(Duration::from_secs(10))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("prometheus@cat ended (exit status: 1)"),
            "{error}"
        );
        assert!(error.contains("config.file"), "{error}");
    }

    #[test]
    fn the_configuration_lists_every_target() {
        let addresses = [
            "127.1.0.1:80".parse().unwrap(),
            "127.1.0.2:80".parse().unwrap(),
        ];
        let labels = |target| vec![("pod".to_owned(), format!("p{target}"))];
        let text = scrape_config(&addresses, Duration::from_millis(1500), labels);
        assert!(text.contains("scrape_interval: 1500ms\n"), "{text}");
        let second = "- targets: [\"127.1.0.2:80\"]\n        labels:\n          pod: \"p1\"\n";
        assert!(text.ends_with(second), "{text}");
    }
}
