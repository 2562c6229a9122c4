//! Blocks against a plain model: a list of strips of cells.

mod damage;
mod golden;
mod measure;
mod round_trip;
mod sharing;

use super::*;
use crate::error::io_error;
use crate::io::{FaultyIo, Io};
use narthex_model::storage::Layout;
use narthex_model::{Family, Histogram, LabelSet, MetricType, cell};
use narthex_testkit::rng::SplitMix64;
use std::path::Path;
use std::sync::Arc;

pub(super) const DIR: &str = "/data/blocks";

/// A strip of the model.
#[derive(Clone, Debug, Default)]
pub(super) struct Plain {
    pub(super) common: LabelSet,
    pub(super) times_ms: Vec<i64>,
    pub(super) columns: Vec<PlainColumn>,
    pub(super) histograms: Vec<Arc<Histogram>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PlainColumn {
    pub(super) set: LabelSet,
    pub(super) family: Option<Family>,
    pub(super) start_times: Vec<(u32, i64)>,
    pub(super) cells: Vec<f64>,
}

/// Makes strips of several shapes: targets that share columns, one with labels of its own, a narrow one, a gap.
pub(super) fn strips(seed: u64) -> Vec<Plain> {
    let mut rng = SplitMix64::new(seed);
    let mut out = vec![];
    for s in 0..7usize {
        let rows = [40, 40, 40, 25, 3, 1, 60][s];
        let columns = [50, 50, 49, 70, 2, 5, 1][s];
        let instance = format!("host-{s}:9100");
        let common = match s {
            3 => LabelSet::empty(),
            4 => LabelSet::new([("job", "tiny")]),
            _ => LabelSet::new([
                ("instance", &*instance),
                ("job", if s < 3 { "node" } else { "other" }),
            ]),
        };
        let start = 1_700_000_000_000 + s as i64 * 60_000;
        let times_ms = (0..rows as i64)
            .map(|r| start + r * 15_000 + i64::from(r % 5 == 2))
            .collect();
        let mut strip = Plain {
            common,
            times_ms,
            ..Plain::default()
        };
        for c in 0..columns {
            let column = column(s, c, rows, &mut rng, &mut strip.histograms);
            strip.columns.push(column);
        }
        out.push(strip);
    }
    out
}

fn column(
    s: usize,
    c: usize,
    rows: usize,
    rng: &mut SplitMix64,
    histograms: &mut Vec<Arc<Histogram>>,
) -> PlainColumn {
    let name = ["requests_total", "latency_seconds", "up", "temperature"][c % 4];
    let (code, own) = (format!("{}", 200 + c / 4), format!("pod-{c:04}"));
    let mut labels = vec![("__name__", name), ("code", &*code)];
    if s == 3 {
        labels.extend([("pod", &*own), ("job", "kube")]);
    }
    let set = LabelSet::new(labels);
    let family = Family {
        name: name.into(),
        metric_type: [
            MetricType::Counter,
            MetricType::Histogram,
            MetricType::Gauge,
            MetricType::Unknown,
        ][c % 4],
        unit: "".into(),
        help: format!("What {name} says.").into(),
    };
    let mut level = rng.below(1000);
    let mut cells: Vec<f64> = (0..rows)
        .map(|r| match c % 4 {
            0 => {
                level += rng.below(16);
                level as f64
            }
            1 if c % 8 == 1 => {
                histograms.push(histogram(rng.below(100)));
                cell::histogram(histograms.len() as u32 - 1)
            }
            1 => rng.unit_f64(),
            2 => 1.0,
            _ => [
                cell::ABSENT,
                cell::STALE,
                -0.0,
                f64::NAN,
                rng.below(100_000) as f64 / 1000.0,
            ][(r + c / 4) % 5],
        })
        .collect();
    if s == 2 && c == 10 {
        cells.fill(cell::ABSENT);
    }
    let start_times = if c % 8 == 4 {
        vec![(0, 77), (rows as u32 / 2, 1_700_000_000_123)]
    } else {
        vec![]
    };
    PlainColumn {
        set,
        family: (!c.is_multiple_of(3)).then_some(family),
        start_times,
        cells,
    }
}

fn histogram(count: u64) -> Arc<Histogram> {
    Arc::new(Histogram {
        count: count as f64,
        sum: count as f64 / 3.0,
        integer_counts: true,
        ..Histogram::default()
    })
}

pub(super) fn disk() -> Arc<FaultyIo> {
    let io = FaultyIo::new();
    io.create_dir_all(Path::new(DIR))
        .expect("a disk without faults");
    Arc::new(io)
}

/// Writes `strips` into a block under its final name.
pub(super) fn write(
    io: &Arc<FaultyIo>,
    id: u128,
    strips: &[Plain],
) -> Result<BlockMeta, crate::TsdbError> {
    let io: Arc<dyn Io> = Arc::<FaultyIo>::clone(io);
    let mut writer = BlockWriter::new(Arc::clone(&io), Path::new(DIR), BlockId(id), 0, vec![])?;
    for strip in strips {
        writer.begin_strip(&strip.common, &strip.times_ms);
        for column in &strip.columns {
            let input = ColumnInput {
                set: &column.set,
                family: column.family.as_ref(),
                start_times: &column.start_times,
            };
            writer.add_column(input, &column.cells, &strip.histograms)?;
        }
        writer.end_strip()?;
    }
    finish(&*io, Path::new(DIR), writer)
}

/// Finishes a block and gives it its final name.
pub(super) fn finish(
    io: &dyn Io,
    dir: &Path,
    writer: BlockWriter,
) -> Result<BlockMeta, crate::TsdbError> {
    let temporary = writer.temporary().to_owned();
    let meta = writer.finish_pending()?;
    io.rename(&temporary, &dir.join(meta.file_name()))
        .map_err(io_error(&temporary, "rename"))?;
    io.sync_dir(dir).map_err(io_error(dir, "fsync"))?;
    Ok(meta)
}

pub(super) fn open(io: &Arc<FaultyIo>, meta: &BlockMeta) -> Result<Arc<Block>, crate::TsdbError> {
    let path = Path::new(DIR).join(meta.file_name());
    Block::open(&**io, &path, &Arc::new(BlockCache::new(1 << 20))).map(Arc::new)
}
