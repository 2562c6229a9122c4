//! A database of its own for what is backfilled, of which only the blocks stay.
//!
//! **Invariant:** nothing is left of it but whole blocks, unless the process is killed.

use narthex_model::storage::{SeriesSample, Sink as _};
use narthex_tsdb::{Db, DbOptions, RealIo, SystemClock, Tuning};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::Arc,
};

/// Directory of blocks below a data directory.
const BLOCKS: &str = "blocks";

/// A database below the output directory, on the same disk as its blocks will be.
pub(super) struct Scratch {
    output: PathBuf,
    directory: PathBuf,
    db: Db,
}

impl Scratch {
    pub(super) fn create(output: &Path) -> Result<Self, String> {
        let directory = output.join(format!("backfill-{}", process::id()));
        let mut options = DbOptions::new(&directory);
        options.tuning = Tuning {
            retention_ms: None,
            future_limit_ms: None,
            ..Tuning::default()
        };
        let db = Db::open(Arc::new(RealIo), options, Arc::new(SystemClock));
        Ok(Self {
            output: output.to_owned(),
            directory,
            db: db.map_err(|error| error.to_string())?,
        })
    }

    /// Stores samples and returns their number.
    pub(super) fn store(&self, samples: &[SeriesSample]) -> Result<u64, String> {
        let outcome = self.db.append_samples(samples);
        let outcome = outcome.map_err(|error| error.to_string())?;
        if outcome.duplicate > 0 {
            let error = "vector contains metrics with the same labelset after applying rule labels";
            return Err(error.to_owned());
        }
        Ok(outcome.accepted)
    }

    /// Makes blocks of what was stored.
    pub(super) fn flush(&self) -> Result<(), String> {
        self.db.flush().map_err(|error| error.to_string())
    }

    /// Moves the blocks to the output directory, or among the blocks of a data directory, whose server takes them in
    /// when it starts; returns their number and where they are.
    pub(super) fn publish(self) -> Result<(usize, PathBuf), String> {
        self.db.close().map_err(|error| error.to_string())?;
        let among = self.output.join(BLOCKS);
        let target = if among.is_dir() {
            among
        } else {
            self.output.clone()
        };
        let moved = move_blocks(&self.directory.join(BLOCKS), &target);
        let moved = moved.map_err(|error| format!("{}: {error}", target.display()))?;
        Ok((moved, target))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is harmless; its name says whose it was.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn move_blocks(from: &Path, to: &Path) -> io::Result<usize> {
    let mut moved = 0;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .filter(|_| path.extension().is_some_and(|e| e == "block"));
        if let Some(name) = name {
            fs::rename(&path, to.join(name))?;
            moved += 1;
        }
    }
    fs::File::open(to)?.sync_all()?;
    Ok(moved)
}
