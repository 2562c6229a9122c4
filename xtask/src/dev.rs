//! `cargo xtask dev`: the server and its page during development. A saved Rust source rebuilds and restarts the server;
//! a saved source of the page reloads it in the browser.
//!
//! Invariant: the running server is the newest one that built. If a build fails, the previous one keeps serving.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::product;

/// Sources of the server; directories named in [`IGNORED`] are excluded.
const SOURCES: [&str; 4] = ["crates", "clients/rust", "Cargo.toml", "Cargo.lock"];
const IGNORED: [&str; 3] = ["tests", "benches", "target"];
/// Polling interval of the sources' times.
const POLL: Duration = Duration::from_millis(400);
/// How long a server may take to end before it is killed.
const STOP: Duration = Duration::from_secs(10);
const PROFILE: &str = "iterate";

/// Serves until it is interrupted; `args` are the server's.
///
/// # Errors
///
/// When cargo does not start, or the sources cannot be read.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let mut page = start_page(args);
    let mut server: Option<Child> = None;
    let mut built = SystemTime::UNIX_EPOCH;
    loop {
        let newest = SOURCES
            .iter()
            .try_fold(built, |newest, path| last_change(Path::new(path), newest))?;
        if newest > built {
            built = newest;
            if build()? {
                if let Some(old) = server.take() {
                    stop(old);
                }
                server = start(args);
            } else {
                println!("dev: the build failed; waiting for the next change");
            }
        }
        let ended = |child: &mut Option<Child>| child.as_mut()?.try_wait().ok().flatten();
        if let Some(exit) = ended(&mut server) {
            println!("dev: the server ended ({exit}); the next change starts it again");
            server = None;
        }
        // Without the page, the one embedded in the server is still there.
        if ended(&mut page).is_some() {
            println!(
                "dev: the page's server ended; the server's own page is that of the last `npm run build`"
            );
            page = None;
        }
        std::thread::sleep(POLL);
    }
}

/// Returns the time of the newest file at or below `path`, or `newest` when that is later.
fn last_change(path: &Path, newest: SystemTime) -> Result<SystemTime, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    if !path.is_dir() {
        // An editor may be replacing the file right now.
        let changed = path.metadata().and_then(|data| data.modified());
        return Ok(changed.map_or(newest, |time| newest.max(time)));
    }
    let mut newest = newest;
    for entry in path.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !IGNORED.iter().any(|name| entry.file_name() == *name) {
            newest = last_change(&entry.path(), newest)?;
        }
    }
    Ok(newest)
}

/// Returns whether the current sources compile.
fn build() -> Result<bool, String> {
    let began = Instant::now();
    let status = Command::new(env!("CARGO"))
        .args(["build", "--locked", "-p", "narthex", "--profile", PROFILE])
        .env("CARGO_INCREMENTAL", "1")
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    println!("dev: built in {:.1} s", began.elapsed().as_secs_f64());
    Ok(status.success())
}

fn start(args: &[&str]) -> Option<Child> {
    let program = product::path(PROFILE);
    Command::new(&program)
        .arg("server")
        .args(args)
        .spawn()
        .map_err(|e| println!("dev: {}: {e}", program.display()))
        .ok()
}

/// Lets the server write its data, and kills it if it does not end.
fn stop(mut server: Child) {
    let asked = Command::new("kill").arg(server.id().to_string()).status();
    let deadline = Instant::now() + STOP;
    while asked.is_ok() && Instant::now() < deadline {
        if !matches!(server.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = server.kill();
    let _ = server.wait();
}

/// Serves the page's sources in front of the server, if Node is installed.
fn start_page(args: &[&str]) -> Option<Child> {
    let address = args
        .iter()
        .find_map(|arg| arg.strip_prefix("--web.listen-address="))
        .unwrap_or("127.0.0.1:9090");
    let script = "cmp -s package-lock.json node_modules/.installed-lock || \
        { npm ci && cp package-lock.json node_modules/.installed-lock; } && exec npx vite";
    Command::new("bash")
        .args(["-c", script])
        .env("NARTHEX_URL", format!("http://{address}"))
        .current_dir("ui")
        .stdin(Stdio::null())
        .spawn()
        .map_err(|e| println!("dev: bash: {e}"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::TempDir;

    #[test]
    fn a_saved_source_counts_and_a_saved_test_does_not() {
        let dir = TempDir::new("dev");
        let file = |name: &str, seconds: u64| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has a directory")).expect("create");
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let file = std::fs::File::create(&path).expect("create");
            file.set_modified(time).expect("set the time");
            time
        };
        let newest = || last_change(dir.path(), SystemTime::UNIX_EPOCH).expect("read");
        file("src/a.rs", 1_000);
        let later = file("src/deep/b.rs", 2_000);
        assert_eq!(newest(), later);
        file("tests/it.rs", 3_000);
        assert_eq!(newest(), later);
        let last = file("Cargo.toml", 4_000);
        assert_eq!(newest(), last);
    }
}
