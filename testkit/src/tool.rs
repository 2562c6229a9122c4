//! Programs that tests run: installed ones, and the Go programs beside this crate.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use crate::fs::workspace_root;

/// Returns the path of `program`, looked up in `PATH` and the system's usual directories.
///
/// # Panics
///
/// When it is not installed; the message is the command that installs Debian's `package`.
#[must_use]
pub fn tool(program: &str, package: &str) -> PathBuf {
    find(program).unwrap_or_else(|| {
        panic!("{program} is missing. Install it with:\napt-get install -y {package}")
    })
}

/// Builds the Go program in `testkit/<name>` (`oracle`, `goclient`, `gopeer`) and returns its path.
///
/// The first build takes half a minute and needs the network; later ones well under a second.
///
/// # Panics
///
/// When Go is not installed or the program does not build.
#[must_use]
pub fn go_program(name: &str) -> PathBuf {
    go_build(&Path::new("testkit").join(name), ".", name)
}

/// Returns the directory with the source of a module that the Go program in `testkit/<name>` depends on.
///
/// # Panics
///
/// When Go is not installed or the module cannot be had.
#[must_use]
pub fn go_module(name: &str, module: &str) -> PathBuf {
    // It is downloaded for the build.
    let _program = go_program(name);
    let go = find("go").expect("go is missing. Install 1.26 or newer from https://go.dev/dl");
    let output = Command::new(go)
        .args(["list", "-m", "-f", "{{.Dir}}", module])
        .current_dir(workspace_root().join("testkit").join(name))
        .output()
        .unwrap_or_else(|e| panic!("go list {module}: {e}"));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "go list {module}:\n{error}");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// Builds the Go program in `clients/go/examples/<name>` and returns its path.
///
/// # Panics
///
/// As [`go_program`].
#[must_use]
pub fn go_example(name: &str) -> PathBuf {
    go_build(Path::new("clients/go"), &format!("./examples/{name}"), name)
}

fn go_build(module: &Path, package: &str, name: &str) -> PathBuf {
    // One at a time: two builds of one program would replace it while the first caller starts it.
    static BUILDING: Mutex<()> = Mutex::new(());
    // It guards no value, so a panic leaves nothing half-done.
    let _building = BUILDING.lock();
    let go = find("go").expect("go is missing. Install 1.26 or newer from https://go.dev/dl");
    let root = workspace_root();
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join("testkit").join(name);
    let output = Command::new(go)
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg(package)
        .current_dir(root.join(module))
        .output()
        .unwrap_or_else(|e| panic!("go build {name}: {e}"));
    assert!(
        output.status.success(),
        "go build {name}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// A program that answers each line on its standard input with one line, such as `testkit/oracle`.
#[derive(Debug)]
pub struct LineServer {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl LineServer {
    /// Starts the program; it is killed on drop.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start(program: &Path) -> Self {
        Self::start_with(program, &[])
    }

    /// Starts the program with arguments; it is killed on drop.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start_with(program: &Path, args: &[&str]) -> Self {
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.unwrap_or_else(|e| panic!("start {}: {e}", program.display()));
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self {
            child,
            stdin,
            stdout,
        }
    }

    /// Sends one line (without its newline) and returns the answer's.
    ///
    /// # Panics
    ///
    /// When the line contains a newline, or the program ends instead of answering.
    pub fn ask(&mut self, line: &str) -> String {
        assert!(!line.contains('\n'), "one request is one line");
        self.stdin
            .write_all(format!("{line}\n").as_bytes())
            .expect("the program reads its input");
        let mut answer = String::new();
        self.stdout
            .read_line(&mut answer)
            .expect("the program answers in UTF-8");
        assert!(
            answer.ends_with('\n'),
            "the program ended at the request {line}"
        );
        answer.pop();
        answer
    }
}

impl Drop for LineServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = [
        "/usr/local/bin",
        "/usr/local/go/bin",
        "/usr/bin",
        "/usr/sbin",
        "/bin",
        "/sbin",
    ]
    .map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(usual)
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}
