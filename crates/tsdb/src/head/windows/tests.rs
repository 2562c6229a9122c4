//! Windows that are asked for again.

use super::{Decoded, DecodedMemory, Windows};
use crate::head::row_chunk::OpenRowChunk;
use narthex_chunks::row::Row;
use narthex_model::{
    cell::{ABSENT, NAN, STALE},
    storage::{Budget, Layout, Tile, TimeRange},
};
use narthex_testkit::rng::SplitMix64;
use std::{ops::Range, sync::Arc};

const FIRST_MS: i64 = 10_000;
const STEP_MS: i64 = 1_000;
/// The strip's number of the first row, and from when on rows are decoded: before the first row's time.
const FIRST_ROW: u64 = 5;
const FROM_MS: i64 = 9_500;

fn tile(rows: usize, series: usize) -> Tile {
    late_tile(rows, series, 0)
}

/// Returns a tile of which some rows but the first are late.
fn late_tile(rows: usize, series: usize, late_ms: i64) -> Tile {
    let mut random = SplitMix64::new(rows as u64);
    let times: Vec<i64> = (0..rows as i64)
        .map(|row| FIRST_MS + row * STEP_MS + i64::from(row % 5 == 3) * late_ms)
        .collect();
    let mut tile = Tile::default();
    tile.shape(Layout::SeriesMajor, &times, series, ABSENT);
    for cell in &mut tile.cells {
        *cell = match random.below(20) {
            0 => ABSENT,
            1 => STALE,
            2 => *random.pick(&[-0.0, NAN, f64::INFINITY, 0.1, 1e300]),
            _ => random.below(1_000) as f64,
        };
    }
    tile
}

fn with_windows(windows: Budget) -> DecodedMemory {
    DecodedMemory {
        large: windows.clone(),
        windows,
        newest: Budget::unlimited(),
    }
}

fn unlimited() -> DecodedMemory {
    with_windows(Budget::unlimited())
}

fn bits(tile: &Tile, rows: Range<usize>) -> Vec<u64> {
    let cells = rows.flat_map(|row| (0..tile.series).map(move |series| (row, series)));
    cells
        .map(|(row, series)| tile.get(row, series).to_bits())
        .collect()
}

/// Regression: a window whose first row is later than the range's start was taken for one that lacks rows, so that it never
/// answered the question it was made by.
#[test]
fn the_same_range_is_answered_by_its_window() {
    let (open, memory) = (OpenRowChunk::default(), unlimited());
    // The first is kept as it is, the others packed.
    for (rows, series, late_ms) in [
        (20, 4, 0),
        (100, 4, 0),
        (60, 100, 0),
        (20, 4, 7),
        (60, 4, 7),
    ] {
        let (tile, columns) = (
            late_tile(rows, series, late_ms),
            (0..series as u32).collect::<Arc<[u32]>>(),
        );
        let decoded = Decoded {
            first_row: FIRST_ROW,
            from_ms: FROM_MS,
            tile: &tile,
        };
        let end = FIRST_ROW + rows as u64;
        let mut windows = Windows::default();
        let find = |windows: &mut Windows, first: u64, min_ms: i64| {
            let range = TimeRange::new(min_ms, FIRST_MS + rows as i64 * STEP_MS);
            let found = windows.find(&open, &columns, (first, end), range, &memory);
            found.map(|(window, rows)| {
                let copy = |layout, rows: Range<usize>| {
                    let mut copied = Tile::default();
                    window.copy(rows.clone(), layout, &mut copied);
                    assert_eq!(copied.times_ms, tile.times_ms[rows]);
                    bits(&copied, 0..copied.times_ms.len())
                };
                let of_tile = bits(&tile, rows.clone());
                assert_eq!(copy(Layout::SeriesMajor, rows.clone()), of_tile);
                assert_eq!(copy(Layout::TimeMajor, rows.clone()), of_tile);
                rows
            })
        };
        windows.learn(&columns, &decoded, end, &memory);
        assert_eq!(find(&mut windows, 0, FROM_MS), None, "asked for once");
        windows.learn(&columns, &decoded, end, &memory);
        assert_eq!(find(&mut windows, 0, FROM_MS), Some(0..rows));
        assert_eq!(find(&mut windows, 0, FIRST_MS + 1), Some(1..rows));
        assert_eq!(
            find(&mut windows, 0, FROM_MS - 1),
            None,
            "a row may be there"
        );
        let all = find(&mut windows, FIRST_ROW, FROM_MS - 1);
        assert_eq!(all, Some(0..rows), "rows before it are in blocks");
    }
}

#[test]
fn packed_rows_take_less_memory_and_are_refused_without_room() {
    let (mut tile, columns) = (tile(500, 10), (0..10).collect::<Arc<[u32]>>());
    let cells = tile.cells.iter_mut().enumerate();
    cells.for_each(|(at, cell)| *cell = (at % 7) as f64);
    let decoded = Decoded {
        first_row: 0,
        from_ms: FROM_MS,
        tile: &tile,
    };
    let range = TimeRange::new(FROM_MS, FIRST_MS + 500 * STEP_MS);
    for (limit, is_kept) in [(50_000, true), (40_000, false)] {
        let memory = with_windows(Budget::new("windows", limit));
        let (open, mut windows) = (OpenRowChunk::default(), Windows::default());
        (0..2).for_each(|_| windows.learn(&columns, &decoded, 500, &memory));
        let found = windows.find(&open, &columns, (0, 500), range, &memory);
        assert_eq!(found.is_some(), is_kept, "{limit}");
        let used = memory.windows.used_bytes();
        // Regular times take nothing.
        assert!(if is_kept { used < 2_500 } else { used == 0 }, "{used}");
    }
}

/// An hour of ten columns of all targets took all memory, and smaller windows, which save almost as much, had none.
#[test]
fn large_windows_leave_room_for_others() {
    let memory = DecodedMemory {
        windows: Budget::unlimited(),
        large: Budget::new("large windows", 0),
        newest: Budget::unlimited(),
    };
    for (rows, series, is_kept) in [
        (120, 10, false),
        (120, 2, true),
        (60, 10, true),
        (20, 100, true),
    ] {
        let (tile, columns) = (tile(rows, series), (0..series as u32).collect());
        let decoded = Decoded {
            first_row: 0,
            from_ms: FROM_MS,
            tile: &tile,
        };
        let range = TimeRange::new(FROM_MS, FIRST_MS + rows as i64 * STEP_MS);
        let (open, mut windows) = (OpenRowChunk::default(), Windows::default());
        (0..2).for_each(|_| windows.learn(&columns, &decoded, rows as u64, &memory));
        let found = windows.find(&open, &columns, (0, rows as u64), range, &memory);
        assert_eq!(found.is_some(), is_kept, "{rows} rows of {series} series");
    }
}

/// Rows of a short window were kept as they are: eight bytes a cell.
#[test]
fn integers_and_decimals_of_a_short_window_take_two_bytes() {
    const ROWS: usize = 20;
    const SERIES: usize = 50;
    let mut tile = tile(ROWS, SERIES);
    let cells = tile.cells.iter_mut().enumerate();
    cells.for_each(|(at, cell)| *cell = (at * 7) as f64 / [1.0, 1000.0][at / ROWS % 2]);
    let columns = (0..SERIES as u32).collect::<Arc<[u32]>>();
    let decoded = Decoded {
        first_row: 0,
        from_ms: FROM_MS,
        tile: &tile,
    };
    let (memory, mut windows) = (unlimited(), Windows::default());
    (0..2).for_each(|_| windows.learn(&columns, &decoded, ROWS as u64, &memory));
    let used = memory.windows.used_bytes() as usize;
    assert!((ROWS * SERIES..ROWS * SERIES * 3).contains(&used), "{used}");
}

/// Between a sealed row chunk and the first row of the next, the newest values were decoded again by each query, and kept.
#[test]
fn the_newest_row_of_a_sealed_chunk_is_known() {
    const COLUMNS: usize = 40;
    // Though windows have taken all that they get.
    let memory = with_windows(Budget::new("windows", 0));
    let mut open = OpenRowChunk::default();
    let value = |row: i64, column: usize| (row * 100 + column as i64) as f64;
    for number in 0..3 {
        let mut values: Vec<f64> = (0..COLUMNS).map(|column| value(number, column)).collect();
        values[7] = ABSENT;
        let mut present = vec![(1_u64 << COLUMNS) - 1];
        present[0] &= !(1 << 7);
        let row = Row {
            time_ms: FIRST_MS + number * STEP_MS,
            values: &values,
            present: Some(&present),
            ..Row::default()
        };
        let appended = open.append_row(0, |encoder, out| encoder.encode(&row, out).map(drop));
        appended.unwrap();
        open.publish(row.time_ms, COLUMNS);
    }
    let expected = |column: usize| match column {
        7 => ABSENT,
        _ => value(2, column),
    };
    let expected: Vec<u64> = (0..COLUMNS).map(|at| expected(at).to_bits()).collect();
    let newest = |open: &OpenRowChunk| {
        let mut windows = Windows::default();
        let cells = windows.newest_row(open, 0, &memory).expect("is known");
        cells.iter().map(|cell| cell.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(newest(&open), expected);
    let (sealed, end) = (open.seal(), open.published().end_row());
    assert_eq!((sealed.rows(), end), (3, 0), "the open one is empty");
    let open = OpenRowChunk::after(Some(open), sealed.end_row());
    assert_eq!(newest(&open), expected);
}
