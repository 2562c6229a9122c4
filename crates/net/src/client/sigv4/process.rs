//! Credentials that a program writes: `credential_process` of a profile.
//!
//! Invariant: the program runs off the threads that serve, and not for longer than it may.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::machine::of_program;
use super::source::Credentials;
use crate::error::{NetError, invalid};
use crate::sync::Whole as _;

/// How long the program may take, as for AWS' tools.
const LONGEST: Duration = Duration::from_mins(1);
/// Longest output that is read.
const OUTPUT_BYTES: u64 = 64 << 10;

/// Runs a program with the shell; returns its credentials, and until when they are good.
///
/// # Errors
/// Fails if it cannot be run, fails itself, takes too long or writes no credentials.
pub(super) async fn of_process(command: &str, now_ms: i64) -> Result<(Credentials, i64), NetError> {
    let failed = |error: std::io::Error| invalid(format!("credential_process: {error}"));
    let child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let child = Arc::new(Mutex::new(child.map_err(failed)?));
    let running = Arc::clone(&child);
    let reading = tokio::task::spawn_blocking(move || output(&running));
    match tokio::time::timeout(LONGEST, reading).await {
        Ok(read) => {
            let read = read.map_err(|panic| invalid(panic.to_string()))?;
            of_program(&read.map_err(failed)?, now_ms)
        }
        Err(_elapsed) => {
            let _ended = child.lock().whole().kill();
            Err(invalid("credential_process takes longer than a minute"))
        }
    }
}

/// Returns what a program writes until it ends.
fn output(child: &Mutex<Child>) -> std::io::Result<Vec<u8>> {
    // It is not held while the program works: who waits may end the program.
    let pipe = child.lock().whole().stdout.take();
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_BYTES).read_to_end(&mut text)?;
    }
    let status = child.lock().whole().wait()?;
    if !status.success() {
        return Err(std::io::Error::other(format!("it failed: {status}")));
    }
    Ok(text)
}
