//! `cargo xtask browser`: the main use seen from outside. The real server starts in an empty directory, without a
//! configuration, and headless Chromium has to see its page update. Another one reads the segment of a running program,
//! whose metric is switched off and on by a click.
//!
//! Invariant: the servers listen on a free loopback port, and are stopped when the check ends, however it ends.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use narthex_testkit::process::{Server, Spawn, port_in};
use narthex_testkit::{TempDir, tool};

use crate::product;

/// Time from start to the line with the URL; a debug build on a busy machine.
const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(30);

/// Checks the page and writes `target/browser/page.png` and others.
///
/// # Errors
///
/// When the server does not build, start, show a moving page, switch a metric, or stop with exit code 0.
pub(crate) fn run() -> Result<(), String> {
    let shots = product::target().join("browser");
    std::fs::create_dir_all(&shots).map_err(|e| format!("{}: {e}", shots.display()))?;
    let program = product::build("dev")?;
    let shown = shots.display().to_string();
    let page = shots.join("page.png").display().to_string();
    visit(&program, &[], &[("e2e", &[&page]), ("tour", &[&shown])])?;
    switch(&program, &shown)
}

/// Starts a server with these flags, runs scripts with its URL and their arguments, and stops it.
fn visit(program: &Path, flags: &[String], scripts: &[(&str, &[&str])]) -> Result<(), String> {
    let data = TempDir::new("browser");
    let mut server = Spawn::new(program)
        .args(["server", "--web.listen-address=127.0.0.1:0"])
        .arg(format!("--storage.tsdb.path={}", data.path().display()))
        .args(flags)
        .current_dir(data.path())
        .start();
    let line = server.wait_line("a line that names the URL", START, |line| {
        line.contains("http://") && port_in(line).is_some_and(|port| port != 0)
    });
    let port = port_in(&line).ok_or("the line was accepted because it has a port")?;
    let url = format!("http://127.0.0.1:{port}/");
    for (name, args) in scripts {
        run_script(name, &url, args)
            .map_err(|e| format!("{e}; the server said:\n{}", said(&server)))?;
    }
    let exit = server.terminate(STOP);
    if exit.code == Some(0) {
        Ok(())
    } else {
        Err(format!("the server ended with {exit:?}\n{}", said(&server)))
    }
}

fn said(server: &Server) -> String {
    server.stdout() + &server.stderr()
}

fn run_script(name: &str, url: &str, args: &[&str]) -> Result<(), String> {
    let npm = Command::new("npm")
        .args(["run", "--silent", name, "--", url])
        .args(args)
        .env("CHROMIUM", tool("chromium", "chromium"))
        .current_dir("ui")
        .status();
    match npm.map_err(|e| format!("npm: {e}"))?.success() {
        true => Ok(()),
        false => Err(format!("npm run {name} failed")),
    }
}

/// Has a program count in a segment, and a click on the page stop and resume that.
fn switch(program: &Path, shots: &str) -> Result<(), String> {
    let dir = TempDir::new("browser-segments");
    let (segments, log, count) = (dir.join("segments"), dir.join("log"), dir.join("count"));
    let mut compiler = Command::new("cc");
    let compiler = compiler
        .arg("-o")
        .arg(&count)
        .arg("clients/c/tests/count.c");
    if !compiler.status().map_err(|e| format!("cc: {e}"))?.success() {
        return Err("clients/c/tests/count.c does not compile".to_owned());
    }
    let _writer = Spawn::new(&count).arg(&segments).arg(&log).start();
    let text = format!(
        "segments:\n  dir: {}\n  interval: 100ms\n",
        segments.display()
    );
    let config = dir.write("prometheus.yml", text);
    let flags = [
        format!("--config.file={}", config.display()),
        "--web.enable-lifecycle".to_owned(),
    ];
    let log = log.display().to_string();
    visit(program, &flags, &[("switch", &[&log, shots])])
}
