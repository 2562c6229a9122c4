//! Children and directories that are removed on every exit: return, error, panic and signal.
//!
//! **Invariant:** each item is in the registry from before it is used until after it is gone; a guard's drop covers
//! return and panic, the signal thread empties the registry itself. For the case that even that fails (`kill -9` of the
//! bench), children have asked the kernel to be killed with their parent.

use super::{error::BenchError, sync::lock};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    sync::{Mutex, MutexGuard},
    thread,
};
use tokio::signal::unix::{SignalKind, signal};

/// An item to remove.
#[derive(Debug, PartialEq)]
enum Item {
    Group(Pid),
    Dir(PathBuf),
}

static REGISTRY: Mutex<Vec<Item>> = Mutex::new(Vec::new());

fn registry() -> MutexGuard<'static, Vec<Item>> {
    lock(&REGISTRY)
}

fn forget(item: &Item) {
    registry().retain(|other| other != item);
}

/// Starts the thread that cleans up and exits with 128 + the signal's number on SIGINT, SIGTERM or SIGHUP.
pub(crate) fn on_signals() -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BenchError::io("start the signal thread"))?;
    let inside = runtime.enter();
    let handler = |kind| signal(kind).map_err(BenchError::io("handle signals"));
    let mut interrupt = handler(SignalKind::interrupt())?;
    let mut terminate = handler(SignalKind::terminate())?;
    let mut hangup = handler(SignalKind::hangup())?;
    drop(inside);
    let wait = move || {
        let code = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => 130,
                _ = terminate.recv() => 143,
                _ = hangup.recv() => 129,
            }
        });
        clean_up();
        std::process::exit(code)
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .map_err(BenchError::io("start the signal thread"))?;
    Ok(())
}

/// Kills every group, waits for its leader and removes every directory, the latest first.
fn clean_up() {
    // The lock is kept, so that no further child is started while the process exits.
    let mut items = registry();
    for item in items.drain(..).rev() {
        match item {
            Item::Group(pid) => {
                // Both fail only if it is gone already.
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::empty());
            }
            Item::Dir(path) => {
                let _ = fs::remove_dir_all(path);
            }
        }
    }
}

/// A child that leads its own process group; dropping it kills the whole group.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    pid: Pid,
}

impl Group {
    /// Starts `command` in its own group. Call it from the main thread: the child dies with the thread.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        command.process_group(0);
        // SAFETY: prctl(2) between fork and exec is async-signal-safe and touches no memory of the parent.
        unsafe {
            command.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                Ok(())
            });
        }
        let mut items = registry();
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        items.push(Item::Group(pid));
        Ok(Self { child, pid })
    }

    /// Returns the leader's process id.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns how the leader ended, or nothing while it runs; an error calls it `what`.
    pub(crate) fn ended(&mut self, what: &str) -> Result<Option<ExitStatus>, BenchError> {
        let ended = self.child.try_wait();
        ended.map_err(BenchError::io(format!("wait for {what}")))
    }

    /// Kills the group with SIGKILL and waits for its leader.
    pub(crate) fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // The leader is not reaped, so the group is still ours.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        forget(&Item::Group(self.pid));
        let _ = self.child.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A directory that is removed with all its content on drop.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    /// Creates an empty directory inside `base`.
    pub(crate) fn new(base: &Path, label: &str) -> Result<Self, BenchError> {
        let path = base.join(format!("narthex-bench-{label}-{}", std::process::id()));
        let mut items = registry();
        fs::create_dir(&path).map_err(BenchError::io(format!("create {}", path.display())))?;
        items.push(Item::Dir(path.clone()));
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // A server killed a moment ago may still be exiting; nothing else can be done here.
        let _ = fs::remove_dir_all(&self.path);
        forget(&Item::Dir(std::mem::take(&mut self.path)));
    }
}

#[cfg(test)]
mod tests;
