//! Writing strips into blocks, a little at a time.
//!
//! A job takes the sealed segments and loose samples of strips that are due, encodes them within a time budget per
//! call, and becomes visible at once at its end: blocks and marks in one manifest.
//!
//! **Invariant:** of a strip always a prefix is in blocks; memory is given back only after the manifest that names
//! the blocks is durable and no view needs the memory.

use super::blocks::dir_of;
use crate::{
    block::{BlockId, BlockMeta, BlockWriter, ColumnInput, SeriesExemplar},
    error::TsdbError,
    head::{exemplars::Entry, loose::Value, read::decode_segment, segment::Segment, strip::Strip},
    io::Io,
    wal::StripMark,
};
use narthex_chunks::histogram::encode_histogram;
use narthex_model::{
    ColumnId, Histogram, LabelSet, Schema, cell,
    storage::{Context, StorageError, Tile},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// Blocks being written.
pub(super) struct FlushJob {
    io: Arc<dyn Io>,
    dir: PathBuf,
    window_ms: i64,
    now_ms: i64,
    queue: VecDeque<Arc<Strip>>,
    /// By window, so that no block crosses one.
    writers: BTreeMap<i64, BlockWriter>,
    done: Vec<FlushedStrip>,
    /// Those that no block has, with their numbers.
    exemplars: Vec<(u64, Entry)>,
    unique: u128,
    /// The strip being written, page by page.
    current: Option<Current>,
    started: Instant,
}

/// One segment on its way, so that wide strips do not take long in one call.
struct Current {
    strip: Arc<Strip>,
    schema: Schema,
    segments: VecDeque<Arc<Segment>>,
    page: usize,
    begun: bool,
    mark: StripMark,
    max_ms: i64,
}

/// How far a strip is in blocks now.
pub(super) struct FlushedStrip {
    pub(super) strip: Arc<Strip>,
    pub(super) mark: StripMark,
    /// No sample before the mark is newer.
    pub(super) max_ms: i64,
}

/// What a finished job leaves.
pub(super) struct Flushed {
    pub(super) metas: Vec<BlockMeta>,
    pub(super) strips: Vec<FlushedStrip>,
    /// The numbers of the exemplars that are in the blocks.
    pub(super) exemplars: HashSet<u64>,
    pub(super) took: Duration,
}

/// What can go wrong while flushing.
pub(super) enum FlushError {
    Tsdb(TsdbError),
    /// The head's own bytes could not be decoded.
    Decode(StorageError),
}

impl From<TsdbError> for FlushError {
    fn from(error: TsdbError) -> Self {
        Self::Tsdb(error)
    }
}

impl From<FlushError> for TsdbError {
    fn from(error: FlushError) -> Self {
        match error {
            FlushError::Tsdb(error) => error,
            FlushError::Decode(error) => Self::Internal {
                operation: "read a strip for its block",
                cause: error.to_string(),
            },
        }
    }
}

impl FlushJob {
    /// Begins a job for `strips`, whose open segments the caller has sealed as far as they are due.
    pub(super) fn new(
        io: Arc<dyn Io>,
        root: &std::path::Path,
        window_ms: i64,
        now_ms: i64,
        strips: Vec<Arc<Strip>>,
        exemplars: Vec<(u64, Entry)>,
        unique: u128,
    ) -> Self {
        Self {
            io,
            dir: dir_of(root),
            window_ms,
            now_ms,
            queue: strips.into(),
            writers: BTreeMap::new(),
            done: Vec::new(),
            exemplars,
            unique,
            current: None,
            started: Instant::now(),
        }
    }

    /// Works for about `budget`; returns whether all is encoded.
    ///
    /// # Errors
    /// Fails when a block cannot be written or a strip cannot be decoded; the job is to be dropped then.
    pub(super) fn work(&mut self, budget: Duration) -> Result<bool, FlushError> {
        let started = Instant::now();
        loop {
            let more = match self.current.take() {
                Some(current) => {
                    self.current = self.step(current)?;
                    true
                }
                None => match self.queue.pop_front() {
                    Some(strip) => {
                        self.begin(strip)?;
                        true
                    }
                    None => false,
                },
            };
            if !more {
                return Ok(true);
            }
            if started.elapsed() >= budget {
                return Ok(false);
            }
        }
    }

    /// Finishes the blocks; nothing refers to them before the manifest does.
    ///
    /// # Errors
    /// Fails when a block cannot be made durable.
    pub(super) fn finish(mut self) -> Result<Flushed, FlushError> {
        let mut exemplars = HashSet::new();
        for (number, entry) in std::mem::take(&mut self.exemplars) {
            let window = entry.time_ms.div_euclid(self.window_ms);
            // Where no block of its window is written, the one before or behind takes it: the log may go after this.
            let before = self.writers.range(..=window).next_back();
            let nearest = before.or_else(|| self.writers.iter().next());
            let Some(window) = nearest.map(|(window, _)| *window) else {
                continue;
            };
            if let Some(writer) = self.writers.get_mut(&window) {
                exemplars.insert(number);
                writer.add_exemplar(SeriesExemplar {
                    common: entry.common,
                    local: entry.local,
                    time_ms: entry.time_ms,
                    exemplar: entry.exemplar,
                });
            }
        }
        let mut metas = Vec::new();
        for writer in self.writers.into_values() {
            metas.push(writer.finish()?);
        }
        metas.retain(|meta| meta.samples > 0);
        Ok(Flushed {
            metas,
            strips: self.done,
            exemplars,
            took: self.started.elapsed(),
        })
    }

    /// Takes up a strip: its loose samples at once, its segments page by page.
    fn begin(&mut self, strip: Arc<Strip>) -> Result<(), FlushError> {
        let flushed = strip.flushed();
        let state = strip.lock();
        let schema = state.schema.clone();
        let segments: VecDeque<Arc<Segment>> = state
            .sealed
            .iter()
            .filter(|segment| segment.first_row >= flushed.rows)
            .cloned()
            .collect();
        let mark = StripMark {
            rows: segments.back().map_or(flushed.rows, |last| last.end_row()),
            loose: state.loose.arrived(),
        };
        let mut axes: HashMap<Axis, Vec<LooseColumn>> = HashMap::new();
        for column in state.loose.columns() {
            let mut by_window: BTreeMap<i64, LooseColumn> = BTreeMap::new();
            state.loose.visit(
                column,
                flushed.loose,
                mark.loose,
                |time_ms, value, start_ms| {
                    let window = time_ms.div_euclid(self.window_ms);
                    by_window
                        .entry(window)
                        .or_insert_with(|| LooseColumn::new(column))
                        .push(time_ms, value, start_ms);
                },
            );
            for (window, mut column) in by_window {
                let times_ms = std::mem::take(&mut column.times_ms);
                axes.entry(Axis { window, times_ms })
                    .or_default()
                    .push(column);
            }
        }
        drop(state);
        let mut axes: Vec<(Axis, Vec<LooseColumn>)> = axes.into_iter().collect();
        axes.sort_by_key(|(_, columns)| columns.iter().map(|column| column.column).min());
        for (axis, columns) in &mut axes {
            columns.sort_by_key(|column| column.column);
            self.put_loose(&strip, &schema, axis, columns)?;
        }
        let of_loose = axes
            .iter()
            .filter_map(|(axis, _)| axis.times_ms.last().copied());
        let of_rows = segments
            .iter()
            .filter_map(|segment| segment.time_range())
            .map(|(_, max_ms)| max_ms);
        let max_ms = of_loose.chain(of_rows).max().unwrap_or(i64::MIN);
        self.current = Some(Current {
            strip,
            schema,
            segments,
            page: 0,
            begun: false,
            mark,
            max_ms,
        });
        Ok(())
    }

    fn put_loose(
        &mut self,
        strip: &Strip,
        schema: &Schema,
        axis: &Axis,
        columns: &[LooseColumn],
    ) -> Result<(), FlushError> {
        let writer = self.writer(axis.window)?;
        writer.begin_strip(&strip.common, &axis.times_ms);
        for column in columns {
            let encoded = encode_all(&column.histograms);
            let histograms: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
            writer.add_column(
                input(schema, column.column, &column.starts),
                &column.cells,
                &histograms,
            )?;
        }
        Ok(writer.end_strip()?)
    }

    /// Writes one page of the current segment.
    fn step(&mut self, mut current: Current) -> Result<Option<Current>, FlushError> {
        let Some(segment) = current.segments.front().cloned() else {
            let Current {
                strip,
                mark,
                max_ms,
                ..
            } = current;
            self.done.push(FlushedStrip {
                strip,
                mark,
                max_ms,
            });
            return Ok(None);
        };
        let window = segment.time_ms(0).div_euclid(self.window_ms);
        let starts = current.strip.lock().starts.clone();
        let writer = self.writer(window)?;
        if !current.begun {
            let times_ms: Vec<i64> = (0..segment.rows())
                .map(|row| segment.time_ms(row))
                .collect();
            writer.begin_strip(&current.strip.common, &times_ms);
            current.begun = true;
        }
        if current.page < segment.pages.len() {
            let mut tile = Tile::default();
            let columns = decode_segment(&segment, current.page, &mut tile, &Context::unlimited())
                .map_err(FlushError::Decode)?;
            let encoded = encode_all(&tile.histograms);
            let histograms: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
            let mut transposed = Transposed::default();
            for (at, column) in columns.enumerate() {
                let own = starts.entries(column, segment.first_row, segment.rows());
                let cells = transposed.column(&tile, at);
                writer.add_column(input(&current.schema, column, &own), cells, &histograms)?;
            }
            current.page += 1;
        }
        if current.page >= segment.pages.len() {
            writer.end_strip()?;
            current.segments.pop_front();
            current.page = 0;
            current.begun = false;
        }
        Ok(Some(current))
    }

    fn writer(&mut self, window: i64) -> Result<&mut BlockWriter, FlushError> {
        if !self.writers.contains_key(&window) {
            self.unique = self.unique.wrapping_add(1);
            let id = BlockId::new(self.now_ms, self.unique);
            let writer = BlockWriter::new(Arc::clone(&self.io), &self.dir, id, 0, Vec::new())?;
            self.writers.insert(window, writer);
        }
        Ok(self.writers.get_mut(&window).expect("a writer was made"))
    }
}

fn input<'a>(schema: &'a Schema, column: u32, start_times: &'a [(u32, i64)]) -> ColumnInput<'a> {
    let id = ColumnId(column);
    let family = schema.family(id);
    let set: &LabelSet = &schema.column(id).set;
    ColumnInput {
        set,
        family: (!family.name.is_empty()).then_some(family),
        start_times,
    }
}

fn encode_all(histograms: &[Arc<Histogram>]) -> Vec<Vec<u8>> {
    let encode = |histogram: &Arc<Histogram>| {
        let mut bytes = Vec::new();
        encode_histogram(histogram, &mut bytes);
        bytes
    };
    histograms.iter().map(encode).collect()
}

/// Columns of a time-major tile, some at a time so that every row's cache line is used whole.
#[derive(Default)]
struct Transposed {
    first: usize,
    cells: Vec<f64>,
}

impl Transposed {
    const ABREAST: usize = 8;

    fn column(&mut self, tile: &Tile, at: usize) -> &[f64] {
        let rows = tile.times_ms.len();
        if self.cells.is_empty() || at >= self.first + Self::ABREAST {
            self.first = at;
            let count = Self::ABREAST.min(tile.series - at);
            self.cells.clear();
            self.cells.resize(rows * Self::ABREAST, 0.0);
            for row in 0..rows {
                for (column, value) in tile.row(row)[at..at + count].iter().enumerate() {
                    self.cells[column * rows + row] = *value;
                }
            }
        }
        let from = (at - self.first) * rows;
        &self.cells[from..from + rows]
    }
}

/// Times that several loose series may share.
#[derive(Eq, Hash, PartialEq)]
struct Axis {
    window: i64,
    times_ms: Vec<i64>,
}

/// The loose samples of one series within one window.
struct LooseColumn {
    column: u32,
    times_ms: Vec<i64>,
    cells: Vec<f64>,
    histograms: Vec<Arc<Histogram>>,
    starts: Vec<(u32, i64)>,
}

impl LooseColumn {
    fn new(column: u32) -> Self {
        Self {
            column,
            times_ms: Vec::new(),
            cells: Vec::new(),
            histograms: Vec::new(),
            starts: Vec::new(),
        }
    }

    fn push(&mut self, time_ms: i64, value: Value, start_ms: i64) {
        let row = u32::try_from(self.times_ms.len()).expect("fewer than 2^32 loose samples");
        if self.starts.last().map_or(0, |last| last.1) != start_ms {
            self.starts.push((row, start_ms));
        }
        self.times_ms.push(time_ms);
        self.cells.push(match value {
            Value::Cell(cell) => cell,
            Value::Histogram(histogram) => {
                self.histograms.push(histogram);
                cell::histogram(
                    u32::try_from(self.histograms.len() - 1).expect("fewer than 2^32 histograms"),
                )
            }
        });
    }
}
