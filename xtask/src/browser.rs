//! `cargo xtask browser`: the main use seen from outside. The real server starts in an empty directory, without a
//! configuration, and headless Chromium has to see its page update.
//!
//! Invariant: the server listens on a free loopback port, and is stopped when the check ends, however it ends.

use std::process::Command;
use std::time::Duration;

use narthex_testkit::process::{Spawn, port_in};
use narthex_testkit::{TempDir, tool};

use crate::product;

/// Time from start to the line with the URL; a debug build on a busy machine.
const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(30);

/// Checks the page and writes `target/browser/page.png`.
///
/// # Errors
///
/// When the server does not build, start, show a moving page, or stop with exit code 0.
pub(crate) fn run() -> Result<(), String> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let target = std::path::absolute(target).map_err(|e| e.to_string())?;
    let shots = target.join("browser");
    std::fs::create_dir_all(&shots).map_err(|e| format!("{}: {e}", shots.display()))?;
    let program = product::build()?;

    let data = TempDir::new("browser");
    let mut server = Spawn::new(program)
        .args(["server", "--web.listen-address=127.0.0.1:0"])
        .arg(format!("--storage.tsdb.path={}", data.path().display()))
        .current_dir(data.path())
        .start();
    let line = server.wait_line("a line that names the URL", START, |line| {
        line.contains("http://") && port_in(line).is_some_and(|port| port != 0)
    });
    let port = port_in(&line).ok_or("the line was accepted because it has a port")?;
    let url = format!("http://127.0.0.1:{port}/");
    for script in [
        vec!["e2e", &url, &shots.join("page.png").display().to_string()],
        vec!["tour", &url, &shots.display().to_string()],
    ] {
        let (name, args) = script.split_first().ok_or("each script has a name")?;
        let chromium = tool("chromium", "chromium");
        let npm = Command::new("npm")
            .args(["run", "--silent", name, "--"])
            .args(args)
            .env("CHROMIUM", chromium)
            .current_dir("ui")
            .status();
        if !npm.map_err(|e| format!("npm: {e}"))?.success() {
            return Err(format!(
                "npm run {name} failed; the server said:\n{}{}",
                server.stdout(),
                server.stderr()
            ));
        }
    }
    let exit = server.terminate(STOP);
    if exit.code == Some(0) {
        Ok(())
    } else {
        Err(format!(
            "the server ended with {exit:?}\n{}",
            server.stderr()
        ))
    }
}
