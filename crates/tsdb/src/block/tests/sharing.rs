//! Narrow strips share pages: what is read is read back, and little besides.

use super::round_trip::{expected, found};
use super::set_table::SetTable;
use super::*;
use narthex_model::Matcher;
use narthex_model::storage::{Budget, Context, Hints, Tile, TimeRange};

/// Makes a strip of random integers.
fn strip(at: usize, width: usize, rows: usize, rng: &mut SplitMix64) -> Plain {
    let column = |column: usize| {
        let name = format!("m{column}");
        // A label of its own in one column, as of a version: strips share pages whatever their sets are.
        let own = if column == 1 {
            format!("{at}")
        } else {
            String::new()
        };
        PlainColumn {
            set: LabelSet::new([("__name__", &*name), ("own", &*own)]),
            start_times: if column.is_multiple_of(3) {
                vec![(0, at as i64)]
            } else {
                vec![]
            },
            cells: (0..rows).map(|_| rng.below(250) as f64).collect(),
            ..PlainColumn::default()
        }
    };
    let (instance, zone) = (format!("host-{at}"), format!("{}", at % 7));
    Plain {
        common: LabelSet::new([("instance", &*instance), ("zone", &*zone)]),
        times_ms: (0..rows as i64).map(|row| at as i64 + row * 1000).collect(),
        columns: (0..width).map(column).collect(),
        ..Plain::default()
    }
}

#[test]
fn a_column_of_many_strips_is_read_without_the_others() {
    let mut rng = SplitMix64::new(1);
    let strips: Vec<Plain> = (0..100).map(|at| strip(at, 40, 200, &mut rng)).collect();
    let io = disk();
    let meta = write(&io, 1, &strips).unwrap();
    let block = open(&io, &meta).unwrap();
    let ctx = Context::unlimited();
    let matcher = [Matcher::equal("__name__", "m7")];
    let before = io.reads();
    let batches = block
        .select(&matcher, TimeRange::ALL, &ctx)
        .unwrap()
        .batches(&Hints::default());
    let sections = io.reads() - before;
    assert!(sections <= 4, "{sections}");
    let mut tile = Tile::default();
    for (batch, strip) in batches.iter().zip(&strips) {
        batch
            .read(&[0], TimeRange::ALL, Layout::SeriesMajor, &mut tile, &ctx)
            .unwrap();
        assert_eq!(tile.cells, strip.columns[7].cells);
    }
    assert_eq!(batches.len(), 100);
    let pages = io.reads() - before - sections;
    assert!((2..=10).contains(&pages), "{pages} of some 50");
    assert_eq!(block.verify().unwrap(), []);
}

/// What a query chose is known once for strips that differ in other columns.
#[test]
fn strips_that_differ_elsewhere_share_what_was_chosen() {
    let mut rng = SplitMix64::new(5);
    let strips: Vec<Plain> = (0..50).map(|at| strip(at, 4, 3, &mut rng)).collect();
    let io = disk();
    let block = open(&io, &write(&io, 1, &strips).unwrap()).unwrap();
    let ctx = Context::unlimited();
    let chosen = |name: &str| {
        let matcher = [Matcher::equal("__name__", name)];
        let selection = block.select(&matcher, TimeRange::ALL, &ctx).unwrap();
        let columns = selection
            .strips()
            .iter()
            .map(|strip| Arc::as_ptr(&strip.columns));
        columns.collect::<std::collections::HashSet<_>>().len()
    };
    assert_eq!((chosen("m0"), chosen("m1"), chosen("m2")), (1, 50, 1));
    assert_eq!((chosen("m0"), chosen("m1")), (1, 50), "asked again");
}

#[test]
fn a_merge_reads_each_page_once() {
    let mut rng = SplitMix64::new(2);
    let strips: Vec<Plain> = (0..100).map(|at| strip(at, 40, 200, &mut rng)).collect();
    let io = disk();
    let meta = write(&io, 1, &strips).unwrap();
    let block = open(&io, &meta).unwrap();
    let (mut source, mut table) = (StripSource::new(&block).unwrap(), SetTable::default());
    let before = io.reads();
    for at in 0..100 {
        let mut cursor = source.strip(at, &mut table).unwrap();
        for column in 0..40 {
            let found = cursor.column(column).unwrap().unwrap();
            assert_eq!(
                found.starts,
                strips[at as usize].columns[column as usize].start_times
            );
            cursor.leave(column);
        }
    }
    let pages = io.reads() - before;
    let all = meta.bytes / (16 << 10) + 1;
    assert!(
        (all / 2..=all).contains(&pages),
        "{pages} reads of {} bytes",
        meta.bytes
    );
}

/// Strips of different widths and lengths, in any order, some of them wide.
#[test]
fn strips_of_all_widths_come_back() {
    let mut rng = SplitMix64::new(3);
    for round in 0..4 {
        let width = |rng: &mut SplitMix64| match round {
            0 => 1 + rng.index(4),
            1 => 1 + rng.index(40),
            2 => 3,
            _ => [2, 700][rng.index(2)],
        };
        let strips: Vec<Plain> = (0..60)
            .map(|at| {
                let (width, rows) = (width(&mut rng), 1 + rng.index(300));
                strip(at, width, rows, &mut rng)
            })
            .collect();
        let io = disk();
        let meta = write(&io, 1, &strips).unwrap();
        let block = open(&io, &meta).unwrap();
        assert_eq!(block.verify().unwrap(), []);
        let middle = TimeRange::new(50_000, 90_000);
        for (matchers, range) in [
            (vec![], TimeRange::ALL),
            (vec![Matcher::equal("__name__", "m1")], middle),
            (vec![Matcher::equal("instance", "host-17")], TimeRange::ALL),
            (vec![Matcher::equal("zone", "6")], TimeRange::ALL),
            (
                vec![
                    Matcher::equal("zone", "0"),
                    Matcher::equal("instance", "host-0"),
                ],
                TimeRange::ALL,
            ),
        ] {
            let want = expected(&strips, &matchers, range);
            assert!(!want.is_empty(), "{matchers:?}");
            assert!(
                found(&block, &matchers, range, Layout::TimeMajor) == want,
                "round {round}"
            );
        }
    }
}

/// What waits for pages to share is bounded, however many strips there are and however wide one is.
#[test]
fn a_writer_holds_little() {
    let io = disk();
    let memory = Budget::unlimited();
    let writer: Arc<dyn Io> = Arc::<FaultyIo>::clone(&io);
    let writer = BlockWriter::new(writer, Path::new(DIR), BlockId(1), 0, vec![]).unwrap();
    let mut writer = writer.counted_by(memory.account());
    let mut rng = SplitMix64::new(4);
    let mut most = 0;
    for at in 0..300 {
        let width = if at == 299 { 5000 } else { 1 + at % 40 };
        let plain = strip(at, width, 300, &mut rng);
        let before = writer.bytes();
        writer.begin_strip(&plain.common, &plain.times_ms);
        for column in &plain.columns {
            writer
                .add_column(
                    ColumnInput {
                        set: &column.set,
                        family: None,
                        start_times: &[],
                    },
                    &column.cells,
                    &[],
                )
                .unwrap();
        }
        if width == 5000 {
            let grown = writer.bytes() - before;
            assert!(
                grown > 1 << 20,
                "{grown} bytes of a wide strip are in pages"
            );
        }
        writer.end_strip().unwrap();
        most = most.max(memory.used_bytes());
    }
    let meta = finish(&*io, Path::new(DIR), writer).unwrap();
    assert!(meta.bytes > 3 << 20, "{}", meta.bytes);
    assert!((512 << 10..1 << 20).contains(&most), "{most} bytes");
}
