//! Watches directories for changes with the kernel's inotify.
//!
//! Invariant: a change between two waits is seen by the second. Reading a file is not a change.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct Watcher {
    descriptor: AsyncFd<OwnedFd>,
}

impl Watcher {
    pub(super) fn new() -> io::Result<Self> {
        let descriptor = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // SAFETY: an `OwnedFd` stays open and is the same descriptor until it is dropped, which happens
        // only together with the `AsyncFd` that owns it.
        let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        Ok(Self {
            descriptor: registered.map_err(|error| error.into_parts().1)?,
        })
    }

    /// Watches a directory; does nothing if it is watched already.
    pub(super) fn watch(&self, directory: &Path) -> io::Result<()> {
        let changes = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        add_watch(self.descriptor.get_ref(), directory, changes)?;
        Ok(())
    }

    /// Waits for changes and discards their details: everything is read again anyway. Cancel safe.
    pub(super) async fn changed(&self) -> io::Result<()> {
        let mut events = [0; 4096];
        let mut any = false;
        loop {
            let mut ready = self.descriptor.readable().await?;
            loop {
                match rustix::io::read(self.descriptor.get_ref(), &mut events) {
                    Ok(_length) => any = true,
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            ready.clear_ready();
            if any {
                return Ok(());
            }
        }
    }
}
