//! Writing batches: one writer for all waiters.
//!
//! **Invariant:** a batch is written completely or truncated; after a truncation the file is never continued.

use super::{Failure, Health, Shared, State};
use crate::sync::Guarded as _;
use crate::{
    error::{TsdbError, io_error},
    io::{AppendFile, is_full},
};
use std::{
    io,
    sync::{Arc, MutexGuard},
    time::Instant,
};

impl Shared {
    /// Waits until batch `mine` is written, writing it if nobody else does; returns its number.
    pub(super) fn write_until<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        mine: u64,
    ) -> (MutexGuard<'s, State>, Result<u64, TsdbError>) {
        loop {
            if state.written >= mine {
                let outcome = self.outcome(&state, mine);
                return (state, outcome);
            }
            if state.writing {
                state.waiters += 1;
                state = self.written.wait(state).guarded();
                state.waiters -= 1;
                continue;
            }
            state = self.write(state);
        }
    }

    /// Writes the batch under construction.
    fn write<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let number = state.building;
        let spare = std::mem::take(&mut state.spare);
        let mut batches = std::mem::replace(&mut state.batch, spare);
        state.building += 1;
        state.writing = true;
        let open = state.file.as_ref();
        let target = open.map(|file| (Arc::clone(&file.handle), file.len_bytes));
        let counter = open.map_or(0, |file| file.counter);
        drop(state);
        let next = batches.seal(counter);
        let len_bytes = batches.bytes.len() as u64;
        let result = match &target {
            Some((handle, _)) => handle.append(&batches.bytes),
            None => Err(io::ErrorKind::StorageFull.into()),
        };
        let mut state = self.lock();
        match result {
            Ok(()) => {
                self.metrics.wal_written_bytes.inc_by(len_bytes);
                if let Some(file) = &mut state.file {
                    file.len_bytes += len_bytes;
                    file.counter = next;
                }
            }
            Err(error) => self.give_up(
                &mut state,
                number,
                target.as_ref().map(|(file, len)| (file, *len)),
                error,
            ),
        }
        state.written = number;
        state.writing = false;
        batches.clear();
        if batches.bytes.capacity() <= 1 << 20 {
            state.spare = batches;
        }
        if state.waiters > 0 {
            self.written.notify_all();
        }
        state
    }

    /// Abandons a file to which a batch could not be written.
    fn give_up(
        &self,
        state: &mut State,
        number: u64,
        file: Option<(&Arc<dyn AppendFile>, u64)>,
        error: io::Error,
    ) {
        let (kind, text) = (error.kind(), error.to_string());
        if let Some((file, len_bytes)) = file {
            self.metrics.wal_write_failures.inc();
            let cut = file.truncate(len_bytes);
            state.health = match cut {
                Ok(()) if is_full(&error) => Health::Full {
                    since: Instant::now(),
                },
                Ok(()) => Health::Poisoned {
                    cause: format!("write to the log failed: {error}"),
                },
                Err(again) => Health::Poisoned {
                    cause: format!(
                        "write to the log failed ({error}) and could not be undone: {again}"
                    ),
                },
            };
            state.abandoned = state.file.take();
        }
        // Later batches were built on its definitions; the next writer finds no file.
        state.failed.insert(number, Failure { kind, text });
        while state.failed.len() > 64 {
            state.failed.pop_first();
        }
        self.work.notify_one();
        self.synced.notify_all();
    }

    fn outcome(&self, state: &State, number: u64) -> Result<u64, TsdbError> {
        let Some(failure) = state.failed.get(&number) else {
            return Ok(number);
        };
        let error = io::Error::new(failure.kind, failure.text.clone());
        Err(io_error(&self.dir, "write")(error))
    }
}
