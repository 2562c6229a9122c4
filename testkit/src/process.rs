//! Real programs under test: start, wait until ready, talk to, signal, and always clean up.
//!
//! Invariant: a [`Server`] owns a whole process group and kills it on drop, so no test leaves a process behind, however
//! it panics.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{TempDir, http};

/// Polling interval.
const POLL: Duration = Duration::from_millis(5);

/// SIGINT, for [`Server::signal`].
pub const SIGINT: i32 = 2;
/// SIGKILL, for [`Server::signal`].
pub const SIGKILL: i32 = 9;
/// SIGTERM, for [`Server::signal`].
pub const SIGTERM: i32 = 15;
/// SIGSTOP, for [`Server::signal`].
pub const SIGSTOP: i32 = 19;
/// SIGCONT, for [`Server::signal`].
pub const SIGCONT: i32 = 18;
/// SIGHUP, for [`Server::signal`].
pub const SIGHUP: i32 = 1;

unsafe extern "C" {
    /// POSIX `kill(2)`; a negative pid means the process group.
    fn kill(pid: i32, signal: i32) -> i32;
}

/// A program and its environment.
#[derive(Debug)]
pub struct Spawn {
    command: Command,
    stdin: Option<OwnedFd>,
    logs: TempDir,
}

impl Spawn {
    /// Prepares a program, without arguments, in the current environment.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            command: Command::new(program),
            stdin: None,
            logs: TempDir::new("logs"),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Has the program, which is valgrind, run ours although the kernel is newer than valgrind knows.
    #[must_use]
    pub fn as_valgrind(mut self) -> Self {
        crate::valgrind::refuse_auxv(&mut self.command);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the name the program sees as its own (`argv[0]`).
    #[must_use]
    pub fn arg0(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.arg0(name);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Passes a file or a socket as the program's standard input.
    #[must_use]
    pub fn stdin(mut self, file: impl Into<OwnedFd>) -> Self {
        self.stdin = Some(file.into());
        self
    }

    /// Starts the program in its own process group, its output going to files.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start(mut self) -> Server {
        let stdout = self.logs.join("stdout");
        let stderr = self.logs.join("stderr");
        let create = |path: &PathBuf| File::create(path).expect("the log directory is writable");
        self.command
            .stdin(self.stdin.take().map_or_else(Stdio::null, Stdio::from))
            .stdout(create(&stdout))
            .stderr(create(&stderr))
            .process_group(0);
        let child = self
            .command
            .spawn()
            .unwrap_or_else(|e| panic!("start {:?}: {e}", self.command.get_program()));
        Server {
            name: format!("{:?}", self.command.get_program()),
            child,
            status: None,
            stdout,
            stderr,
            _logs: self.logs,
        }
    }

    /// Starts the program and waits for its end: for commands and for servers that must refuse to start.
    ///
    /// # Panics
    ///
    /// When it cannot be started or runs past the deadline.
    #[must_use]
    pub fn run(self, deadline: Duration) -> Finished {
        let mut server = self.start();
        let exit = server.wait_exit(deadline);
        Finished {
            exit,
            stdout: server.stdout(),
            stderr: server.stderr(),
        }
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// A program that has exited, with its output.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A running program. Every wait panics with the tail of its output if the deadline passes or it exits early.
#[derive(Debug)]
pub struct Server {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
    stdout: PathBuf,
    stderr: PathBuf,
    _logs: TempDir,
}

impl Server {
    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Returns its standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Returns whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.poll().is_none()
    }

    /// Waits for a complete line, on either stream, that `accept` takes, and returns it.
    ///
    /// # Panics
    ///
    /// When the deadline passes or the program ends first.
    pub fn wait_line(
        &mut self,
        what: &str,
        deadline: Duration,
        accept: impl Fn(&str) -> bool,
    ) -> String {
        let end = Instant::now() + deadline;
        loop {
            // Checked before the output is read, so that a last line printed on exit still counts.
            let ended = self.poll();
            for text in [self.stderr(), self.stdout()] {
                let complete = text.rfind('\n').map_or("", |at| &text[..at]);
                if let Some(line) = complete.lines().find(|line| accept(line)) {
                    return line.to_owned();
                }
            }
            self.go_on(ended, end, what);
        }
    }

    /// Waits for a line that contains `needle` and returns it.
    ///
    /// # Panics
    ///
    /// As [`Server::wait_line`].
    pub fn wait_for(&mut self, needle: &str, deadline: Duration) -> String {
        self.wait_line(&format!("a line with {needle:?}"), deadline, |line| {
            line.contains(needle)
        })
    }

    /// Waits for a line that contains `needle` and an address, and returns the address' port.
    ///
    /// # Panics
    ///
    /// As [`Server::wait_line`].
    pub fn wait_port(&mut self, needle: &str, deadline: Duration) -> u16 {
        let what = format!("a line with {needle:?} and a port");
        let line = self.wait_line(&what, deadline, |line| {
            line.contains(needle) && port_in(line).is_some()
        });
        port_in(&line).expect("the line was accepted because it has one")
    }

    /// Waits until `url` answers 200 and returns that answer.
    ///
    /// # Panics
    ///
    /// As [`Server::wait_line`].
    pub fn wait_url(&mut self, url: &str, deadline: Duration) -> http::Response {
        let end = Instant::now() + deadline;
        loop {
            let ended = self.poll();
            if let Ok(response) = http::get(url)
                && response.status == 200
            {
                return response;
            }
            self.go_on(ended, end, url);
        }
    }

    /// Sends a signal to the program.
    ///
    /// # Panics
    ///
    /// When it has already been waited for: its id may be another's by then.
    pub fn signal(&self, signal: i32) {
        assert!(self.status.is_none(), "{} has already ended", self.name);
        let pid = i32::try_from(self.child.id()).expect("pids fit an i32");
        // SAFETY: kill(2) takes plain integers; the child is not reaped, so the pid is still ours.
        unsafe { kill(pid, signal) };
    }

    /// Kills it (SIGKILL) and waits for its end.
    pub fn kill9(&mut self) {
        self.signal(SIGKILL);
        // The kernel ends a thread that waits for the disk when the disk has answered.
        self.wait_exit(Duration::from_secs(60));
    }

    /// Asks it to stop (SIGTERM) and waits for its end.
    ///
    /// # Panics
    ///
    /// When it still runs at the deadline.
    pub fn terminate(&mut self, deadline: Duration) -> Exit {
        self.signal(SIGTERM);
        self.wait_exit(deadline)
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// When it still runs at the deadline.
    pub fn wait_exit(&mut self, deadline: Duration) -> Exit {
        let end = Instant::now() + deadline;
        loop {
            if let Some(status) = self.poll() {
                return Exit {
                    code: status.code(),
                    signal: status.signal(),
                };
            }
            assert!(
                Instant::now() < end,
                "{} still runs after {deadline:?}\n{}",
                self.name,
                self.tails()
            );
            thread::sleep(POLL);
        }
    }

    fn go_on(&self, ended: Option<ExitStatus>, end: Instant, what: &str) {
        if let Some(status) = ended {
            panic!(
                "{} ended ({status}) before {what}\n{}",
                self.name,
                self.tails()
            );
        }
        assert!(
            Instant::now() < end,
            "{} did not show {what} in time\n{}",
            self.name,
            self.tails()
        );
        thread::sleep(POLL);
    }

    fn poll(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self
                .child
                .try_wait()
                .expect("the child is ours to wait for");
        }
        self.status
    }

    fn tails(&self) -> String {
        format!(
            "--- stdout\n{}\n--- stderr\n{}",
            tail(&self.stdout()),
            tail(&self.stderr())
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).map_or(0, |pid| -pid);
        if group < 0 && self.poll().is_none() {
            // SAFETY: kill(2) takes plain integers; the child is not reaped, so its group is still ours.
            unsafe { kill(group, SIGKILL) };
            let _ = self.child.wait();
        }
    }
}

/// Returns the port of the first `host:port` in a line: digits that follow a colon after an address' last character.
#[must_use]
pub fn port_in(line: &str) -> Option<u16> {
    let bytes = line.as_bytes();
    for (at, _) in line.match_indices(':') {
        let before = &line[..at];
        // 127.0.0.1:, [::]:, localhost: — but not 10:20:30 of a timestamp.
        let is_host =
            before.ends_with(']') || before.ends_with("localhost") || ends_in_ipv4(before);
        let digits = bytes[at + 1..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        if is_host && let Ok(port) = line[at + 1..at + 1 + digits].parse() {
            return Some(port);
        }
    }
    None
}

fn ends_in_ipv4(text: &str) -> bool {
    let start = text
        .rfind(|c: char| !c.is_ascii_digit() && c != '.')
        .map_or(0, |at| at + 1);
    text.get(start..)
        .is_some_and(|host| host.parse::<std::net::Ipv4Addr>().is_ok())
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
