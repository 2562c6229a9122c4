//! Entry point for fuzzers and the seeded mutator: the bytes of a WAL file go in, and nothing panics.
//!
//! **Invariant:** everything that can be replayed is read back in both layouts.

use crate::{
    clock::ManualClock,
    db::Db,
    io::FaultyIo,
    options::DbOptions,
    wal::{DIR, batch, path_of},
};
use narthex_model::storage::{
    Context, Hints, Layout, Selector, SeriesQuery, Store, Tile, TimeRange,
};
use std::{path::Path, sync::Arc};

pub use crate::block::fuzz_block;
pub use crate::db::fuzz_manifest;

/// Replays `data` as the only WAL file of a database and reads everything, as it is and with corrected checksums, so
/// that the code behind them is reached.
pub fn fuzz_wal(data: &[u8]) {
    replay(data, false);
    replay(data, true);
}

fn replay(data: &[u8], mend: bool) {
    let root = Path::new("/fuzz");
    let mut bytes = data.to_vec();
    if mend {
        batch::mend(&mut bytes);
    }
    let disk = FaultyIo::new();
    disk.put_file(&path_of(&root.join(DIR), 1), bytes);
    let Ok(db) = Db::open(
        Arc::new(disk),
        DbOptions::new(root),
        Arc::new(ManualClock::new(0)),
    ) else {
        return;
    };
    let ctx = Context::unlimited();
    let Ok(view) = db.view(TimeRange::ALL) else {
        return;
    };
    let _ = view.series(&SeriesQuery::all(TimeRange::ALL), &ctx);
    let hints = Hints {
        start_times: true,
        ..Hints::default()
    };
    let selector = Selector {
        hints,
        ..Selector::new(Vec::new(), TimeRange::ALL)
    };
    let Ok(prepared) = view.prepare(&[selector], &ctx) else {
        return;
    };
    let mut tile = Tile::default();
    for batch in prepared.batches(0, &ctx).unwrap_or_default() {
        let series: Vec<u32> = (0..batch.len() as u32).collect();
        for layout in [Layout::SeriesMajor, Layout::TimeMajor] {
            let _ = batch.read(&series, TimeRange::ALL, layout, &mut tile, &ctx);
        }
        let _ = batch.last(&series, TimeRange::ALL, &mut Vec::new(), &ctx);
    }
    let _ = db.flush();
}
