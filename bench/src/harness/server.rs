//! Servers under test: which ones to measure, and a running one.
//!
//! **Invariant:** all subjects of a scenario get the same configuration, as far as their kinds support it; a server
//! listens only on a free loopback port and leaves no process behind.

use super::{
    NARTHEX, ServerKind,
    cleanup::{Group, WorkDir},
    cli::{Values, usage},
    error::BenchError,
    measure::Usage,
    poll::poll,
};
use crate::record::Subject;
use narthex_cli::flags;
use narthex_testkit::{client::Client, http};
use std::{
    fs::{self, File},
    net::{SocketAddrV4, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Interval at which a wait checks its condition.
const POLL: Duration = Duration::from_millis(5);
/// Bytes of a server's output shown in an error.
const LOG_TAIL: usize = 2_000;
/// Name of the configuration's file.
const CONFIG: &str = "config.yml";

flags! {
    /// The flag that names servers.
    #[derive(Debug)]
    pub(crate) struct Servers {
        /// Server under test, the first is the one others are compared with. NAME is a preset or a kind of the scenario
        /// file, NAME@LABEL one of several of a kind. Without PATH it is looked for beside this program and on PATH.
        /// Default: all that are found there.
        server: Vec<String> = "server", value("NAME[=PATH]");
    }
}

/// A server to measure.
#[derive(Debug, Clone)]
pub(crate) struct ServerSpec {
    /// Its name in reports.
    pub(crate) label: String,
    pub(crate) kind: ServerKind,
    pub(crate) program: PathBuf,
}

impl ServerSpec {
    /// Returns the servers that the command line or the file names, otherwise all that are installed; and a sentence
    /// for each kind that is not.
    pub(crate) fn chosen(values: &Values) -> Result<(Vec<Self>, Vec<String>), BenchError> {
        Self::of_kinds(values, ServerKind::built_in(values.command))
    }

    /// Does the same where these kinds are built in.
    pub(crate) fn of_kinds(
        values: &Values,
        built_in: impl IntoIterator<Item = ServerKind>,
    ) -> Result<(Vec<Self>, Vec<String>), BenchError> {
        let declared = values.kinds.iter().cloned();
        let kinds: Vec<ServerKind> = built_in.into_iter().chain(declared).collect();
        let mut notes = Vec::new();
        let named = values.read(Servers::from_values)?.server;
        let named = named
            .iter()
            .map(|text| Self::parse(text, &kinds).map_err(|what| values.wrong("server", what)));
        let mut servers = named.collect::<Result<Vec<_>, _>>()?;
        if servers.is_empty() {
            for kind in kinds {
                match find(kind.program()) {
                    Some(program) => servers.push(Self {
                        label: kind.name.clone(),
                        kind,
                        program,
                    }),
                    None => notes.push(missing(&kind)),
                }
            }
        }
        require_any(&servers, &notes)?;
        for (at, server) in servers.iter().enumerate() {
            let label = &server.label;
            if servers[..at].iter().any(|other| other.label == *label) {
                let what = format!("two are called {label}; use {label}@other=PATH");
                return Err(values.wrong("server", what));
            }
        }
        Ok((servers, notes))
    }

    /// Parses `kind`, `kind=PATH` or `kind@label=PATH`.
    fn parse(text: &str, kinds: &[ServerKind]) -> Result<Self, String> {
        let named = text.split_once('=');
        let (label, path) = named.map_or((text, None), |(label, path)| (label, Some(path)));
        let name = label.split('@').next().unwrap_or(label);
        let kind = kinds.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
            format!("{name:?} is none of {}", names.join(", "))
        })?;
        if label.contains('/') {
            return Err(format!("{label:?}: a label has no slash"));
        }
        let program = match path {
            // Do not resolve links: a program may depend on the name it is called by.
            Some(path) => fs::metadata(path)
                .and_then(|_| std::path::absolute(path))
                .map_err(|e| format!("{path}: {e}"))?,
            None => find(kind.program()).ok_or_else(|| missing(kind))?,
        };
        Ok(Self {
            label: label.to_owned(),
            kind: kind.clone(),
            program,
        })
    }

    /// Returns their entries for the record; runs the programs to get their versions.
    pub(crate) fn subjects(servers: &[Self]) -> Vec<Subject> {
        servers.iter().map(Self::subject).collect()
    }

    fn subject(&self) -> Subject {
        let arguments = self.kind.arguments.join(" ");
        Subject {
            label: self.label.clone(),
            version: self.version(),
            command: format!("{} {arguments}", self.kind.program()),
        }
    }

    /// Returns the first line of the program's version output.
    fn version(&self) -> String {
        let output = Command::new(&self.program)
            .args(&self.kind.version)
            .stdin(Stdio::null())
            .output();
        // Older Go programs print it to standard error.
        let said = output.ok().filter(|output| output.status.success());
        let said = said.map(|output| [output.stdout, output.stderr].concat());
        first_line(&said.unwrap_or_default())
            .or_else(|| self.package_version())
            .unwrap_or_else(|| "of unknown version".to_owned())
    }

    /// Returns Debian's version of a program that does not print its own.
    fn package_version(&self) -> Option<String> {
        let is_packaged = ["/usr/bin", "/usr/sbin"]
            .iter()
            .any(|dir| self.program.parent() == Some(Path::new(dir)));
        if !is_packaged || self.kind.package.is_empty() {
            return None;
        }
        let output = Command::new("dpkg-query")
            .args(["-W", "-f=${Version}", &self.kind.package])
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let version = first_line(&output.stdout).filter(|_| output.status.success())?;
        Some(format!("Debian's package {version}"))
    }
}

/// Leaves out our server if the program lacks a command, adding a note; fails when no server is left.
pub(crate) fn without_command(
    servers: &mut Vec<ServerSpec>,
    command: &str,
    notes: &mut Vec<String>,
) -> Result<(), BenchError> {
    servers.retain(|server| {
        let has_command = || {
            let mut ours = Command::new(&server.program);
            ours.args([command, "--help"]).stdin(Stdio::null());
            let status = ours.stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let is_there = server.kind.name != NARTHEX || has_command();
        if !is_there {
            let label = &server.label;
            notes.push(format!(
                "{label} has no {command} command in this version: it is not measured"
            ));
        }
        is_there
    });
    require_any(servers, notes)
}

fn require_any(servers: &[ServerSpec], notes: &[String]) -> Result<(), BenchError> {
    match servers {
        [] => Err(usage(format!(
            "there is no server to measure: {}",
            notes.join("; ")
        ))),
        _ => Ok(()),
    }
}

/// Returns the first non-empty line.
fn first_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(line.to_owned())
}

/// Returns the program of that name beside this one or on PATH.
fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let beside = std::env::current_exe().ok();
    let beside = beside.and_then(|path| Some(path.parent()?.to_path_buf()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian puts servers such as nginx where only root's PATH looks.
    let system = PathBuf::from("/usr/sbin");
    let mut directories = beside
        .into_iter()
        .chain(std::env::split_paths(&path))
        .chain([system]);
    directories.find_map(|dir| Some(dir.join(program)).filter(|path| path.is_file()))
}

fn missing(kind: &ServerKind) -> String {
    let name = &kind.name;
    let install = match kind.package.as_str() {
        "" => String::new(),
        package => format!("install Debian's package {package}, or "),
    };
    format!("{name} is not installed: {install}name it with --server {name}=PATH")
}

/// A running server, with its configuration and data in `dir`.
#[derive(Debug)]
pub(crate) struct RunningServer {
    spec: ServerSpec,
    dir: WorkDir,
    group: Group,
    address: SocketAddrV4,
}

impl RunningServer {
    /// Starts the server with an empty data directory below `base`; `places` are filled into its configuration.
    pub(crate) fn start(
        spec: &ServerSpec,
        base: &Path,
        places: &[(&str, &str)],
    ) -> Result<Self, BenchError> {
        let dir = WorkDir::new(base, &spec.label)?;
        let address = free_address()?;
        if !spec.kind.config.is_empty() {
            let mut config = fill(&spec.kind.config, dir.path(), address);
            for (place, text) in places {
                config = config.replace(&format!("{{{place}}}"), text);
            }
            fs::write(dir.path().join(CONFIG), config)
                .map_err(BenchError::io("write the configuration"))?;
        }
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

    /// Asks it to end with SIGTERM, as an operator does, and waits for it; returns how long that took.
    pub(crate) fn stop(&mut self, limit: Duration) -> Result<Duration, BenchError> {
        let started = Instant::now();
        // It may have ended a moment ago, which is fine.
        let _ = rustix::process::kill_process(self.group.pid(), rustix::process::Signal::TERM);
        match poll(POLL, limit, || self.group.ended("the server"))? {
            Some(_) => Ok(started.elapsed()),
            None => Err(self.error(format!("did not end within {limit:?}"))),
        }
    }

    /// Starts it again on the same data and port.
    pub(crate) fn restart(&mut self) -> Result<(), BenchError> {
        self.group = launch(&self.spec, self.dir.path(), self.address)?;
        Ok(())
    }

    /// Returns its name in reports.
    pub(crate) fn label(&self) -> &str {
        &self.spec.label
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.group.pid().as_raw_nonzero().get()
    }

    /// Reads what it and its descendants have used so far.
    pub(crate) fn usage(&self) -> Result<Usage, BenchError> {
        Usage::read_tree(self.pid())
    }

    /// Returns its data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Returns the URL of a path on it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!(
            "{}{path}",
            fill(&self.spec.kind.url, self.dir.path(), self.address)
        )
    }

    /// Returns a client of it.
    pub(crate) fn client(&self, limit: Duration) -> Result<Client, BenchError> {
        let url = self.url("");
        let address = url
            .strip_prefix("http://")
            .and_then(|rest| rest.parse().ok());
        let wrong = || usage(format!("{url:?} is not http:// and an address"));
        Ok(Client::new(address.ok_or_else(wrong)?, limit))
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Returns a path on it for a request line: below the path of its base URL, if any.
    pub(crate) fn path(&self, path: &str) -> String {
        let url = self.url(path);
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        rest.find('/')
            .map_or_else(|| path.to_owned(), |at| rest[at..].to_owned())
    }

    /// Fails if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), BenchError> {
        match self.group.ended("the server")? {
            Some(status) => Err(self.error(format!("ended ({status})"))),
            None => Ok(()),
        }
    }

    /// Polls until `found` returns something.
    pub(crate) fn wait<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut found: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, BenchError> {
        let found = poll(POLL, limit, || match found(self) {
            None => self.check().map(|()| None),
            found => Ok(found),
        })?;
        found.ok_or_else(|| self.error(format!("did not {what} within {limit:?}")))
    }

    /// Waits until it reports that it is ready.
    pub(crate) fn wait_ready(&mut self, limit: Duration) -> Result<(), BenchError> {
        let url = self.url(&self.spec.kind.ready);
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
    let log = || {
        File::options()
            .create(true)
            .append(true)
            .open(dir.join("log"))
    };
    let open = BenchError::io("open the server's log");
    let (stdout, stderr) = log().and_then(|out| Ok((out, log()?))).map_err(open)?;
    let mut command = Command::new(&spec.program);
    let arguments = spec.kind.arguments.iter();
    command
        .args(arguments.map(|argument| fill(argument, dir, address)))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    Group::start(&mut command).map_err(BenchError::io(format!("start {}", spec.program.display())))
}

/// Fills the placeholders that every template may have.
fn fill(template: &str, dir: &Path, address: SocketAddrV4) -> String {
    template
        .replace("{config}", &dir.join(CONFIG).to_string_lossy())
        .replace("{data}", &dir.join("data").to_string_lossy())
        .replace("{dir}", &dir.to_string_lossy())
        .replace("{listen}", &address.to_string())
        .replace("{port}", &address.port().to_string())
}

/// Returns a loopback address that is currently free.
fn free_address() -> Result<SocketAddrV4, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::io("find a free port"))?;
    let port = listener
        .local_addr()
        .map_err(BenchError::io("find a free port"))?
        .port();
    Ok(SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests;
