//! Entry point for fuzzers and the seeded mutator: the bytes of a block file go in, and nothing panics.
//!
//! **Invariant:** every readable part of a file is read here.

use super::cache::BlockCache;
use super::cursor::StripSource;
use super::format::{Footer, HEADER_LEN, TAIL_LEN, VERSION, checksum, u32_at};
use super::reader::Block;
use super::set_table::SetTable;
use crate::io::FaultyIo;
use narthex_model::Matcher;
use narthex_model::storage::{
    Collector, Context, Grouping, Hints, Layout, SeriesQuery, Tile, TimeRange,
};
use std::path::Path;
use std::sync::Arc;

/// Opens `data` as a block and reads everything in every way, as it is and with corrected checksums, so that the
/// code behind them is reached.
pub fn fuzz_block(data: &[u8]) {
    let mut bytes = data.to_vec();
    read(bytes.clone());
    mend(&mut bytes);
    read(bytes);
}

/// Recomputes the checksums of sections and footer.
fn mend(bytes: &mut Vec<u8>) {
    if bytes.len() < HEADER_LEN + TAIL_LEN {
        return;
    }
    let tail = bytes.len() - TAIL_LEN;
    let Ok(len) = u32_at(bytes, tail) else { return };
    let Some(start) = tail.checked_sub(len as usize) else {
        return;
    };
    let Ok(mut footer) = Footer::decode(&bytes[start..tail], VERSION) else {
        return;
    };
    for place in &mut footer.sections {
        let end = place.offset.saturating_add(place.len);
        if let Some(section) = usize::try_from(end)
            .ok()
            .and_then(|end| bytes.get(place.offset as usize..end))
        {
            place.crc = checksum(section);
        }
    }
    bytes.truncate(start);
    bytes.extend_from_slice(&footer.encode());
}

fn read(bytes: Vec<u8>) {
    let io = FaultyIo::new();
    let path = Path::new("/blocks/fuzzed.block");
    io.put_file(path, bytes);
    let cache = Arc::new(BlockCache::new(1 << 20));
    let Ok(block) = Block::open(&io, path, &cache) else {
        return;
    };
    let block = Arc::new(block);
    let ctx = Context::unlimited();
    let _ = block.families();
    let _ = block.verify();
    let matcher = |op, name, value| {
        Matcher::new(op, name, value)
            .into_iter()
            .collect::<Vec<_>>()
    };
    use narthex_model::MatchOp::{NotEqual, Regex};
    let all = [
        vec![],
        vec![Matcher::equal("__name__", "a")],
        matcher(NotEqual, "job", "x"),
        matcher(Regex, "code", "5.*|"),
    ];
    for matchers in all {
        let query = SeriesQuery {
            any_of: vec![matchers.clone()],
            range: TimeRange::ALL,
            limit: None,
        };
        if let Ok(mut texts) = Collector::new(None, &ctx) {
            let _ = block.label_names(&query, &ctx, &mut texts);
            let _ = block.label_values("job", &query, &ctx, &mut texts);
        }
        if let Ok(mut series) = Collector::new(None, &ctx) {
            let _ = block.series(&query, &ctx, &mut series);
        }
        let Ok(selection) = block.select(&matchers, TimeRange::ALL, &ctx) else {
            continue;
        };
        let _ = selection.estimate();
        let hints = Hints {
            start_times: true,
            ..Hints::default()
        };
        for batch in selection.batches(&hints) {
            let mut tile = Tile::default();
            for series in 0..batch.len() {
                let _ = (
                    batch.labels(series),
                    batch.identity(series),
                    batch.label(series, "job"),
                );
                let _ = batch.group_key(series, &Grouping::default());
                let one = [series as u32];
                let _ = batch.read(&one, TimeRange::ALL, Layout::SeriesMajor, &mut tile, &ctx);
            }
            let all: Vec<u32> = (0..batch.len() as u32).collect();
            let _ = batch.read(&all, TimeRange::ALL, Layout::TimeMajor, &mut tile, &ctx);
        }
    }
    read_to_merge(&block);
}

/// Reads every strip as a merge does.
fn read_to_merge(block: &Arc<Block>) {
    let Ok(mut source) = StripSource::new(block) else {
        return;
    };
    let _ = source.strips();
    let mut table = SetTable::default();
    let strips = u32::try_from(block.meta().strips).unwrap_or(u32::MAX);
    for at in 0..strips.min(1000) {
        let Ok(mut cursor) = source.strip(at, &mut table) else {
            continue;
        };
        for column in (0..).take(cursor.sets.len()) {
            let _ = cursor.column(column);
        }
    }
}
