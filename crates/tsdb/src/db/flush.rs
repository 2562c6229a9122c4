//! Writing strips into blocks, a little at a time.
//!
//! A job takes the sealed row chunks and out-of-order samples of the strips that are due, encodes them within a time
//! budget per call, and becomes visible at once at its end: blocks and marks in one manifest.
//!
//! **Invariant:** blocks always hold a prefix of a strip; memory is released only after the manifest that names
//! the blocks is durable and no view needs the memory.

mod run;

use super::blocks::dir_of;
use crate::{
    block::{BlockId, BlockMeta, BlockWriter, ColumnInput, MAX_ROWS, SeriesExemplar},
    error::TsdbError,
    head::{out_of_order::Value, row_chunk::RowChunk, strip::Strip},
    io::Io,
    label_order::StripExtent,
    wal::StripMark,
};
use narthex_model::{
    ColumnId, Histogram, LabelSet, Schema, cell,
    storage::{Budget, StorageError},
};
use run::Run;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    ops::{Range, RangeInclusive},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// Windows written at once; each takes a descriptor, a buffer and an encoder.
const MOST_WINDOWS: usize = 32;

/// Blocks being written.
///
/// Strips are surveyed first, to find the part of each that goes into blocks and its windows of time. Each pass then
/// writes some windows, from all strips.
pub(super) struct FlushJob {
    io: Arc<dyn Io>,
    dir: PathBuf,
    window_ms: i64,
    now_ms: i64,
    unsurveyed: VecDeque<Arc<Strip>>,
    surveyed: Vec<Surveyed>,
    windows: BTreeSet<i64>,
    /// Windows being written: first, last, whether others follow.
    pass: Option<(i64, i64, bool)>,
    /// Next strip of this pass.
    next: usize,
    /// Writers by window, so that no block spans two.
    writers: BTreeMap<i64, BlockWriter>,
    metas: Vec<BlockMeta>,
    /// Exemplars that no block has, with their numbers.
    exemplars: Vec<(u64, SeriesExemplar)>,
    written_exemplars: HashSet<u64>,
    unique: u128,
    /// Strip being written, page by page.
    current: Option<Current>,
    started: Instant,
    /// Budget that the writers' memory counts against.
    memory: Budget,
}

/// Part of a strip that goes into blocks.
struct Surveyed {
    strip: Arc<Strip>,
    row_chunks: Vec<Arc<RowChunk>>,
    /// Number of out-of-order samples already in blocks.
    out_of_order_from: u64,
    mark: StripMark,
    max_ms: i64,
    /// Its place in the blocks.
    place: (i64, i64, usize, u64),
}

/// A strip being written in steps, so that a wide one does not prolong a call.
struct Current {
    strip: Arc<Strip>,
    schema: Schema,
    runs: VecDeque<Run>,
    /// Next page of the first run.
    page: usize,
    begun: bool,
}

/// How far a strip is in blocks after the job.
pub(super) struct FlushedStrip {
    pub(super) strip: Arc<Strip>,
    pub(super) mark: StripMark,
    /// Upper bound of the times of samples before the mark.
    pub(super) max_ms: i64,
}

/// Result of a finished job.
pub(super) struct Flushed {
    pub(super) metas: Vec<BlockMeta>,
    pub(super) strips: Vec<FlushedStrip>,
    /// Numbers of the exemplars in the blocks.
    pub(super) exemplars: HashSet<u64>,
    pub(super) took: Duration,
}

/// Failure of a flush.
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
    /// Starts a job for `strips`, whose open row chunks the caller has sealed as far as they are due.
    pub(super) fn new(
        io: Arc<dyn Io>,
        root: &std::path::Path,
        window_ms: i64,
        now_ms: i64,
        strips: Vec<Arc<Strip>>,
        exemplars: Vec<(u64, SeriesExemplar)>,
        unique: u128,
    ) -> Self {
        Self {
            io,
            dir: dir_of(root),
            window_ms,
            now_ms,
            unsurveyed: strips.into(),
            surveyed: Vec::new(),
            windows: BTreeSet::new(),
            pass: None,
            next: 0,
            writers: BTreeMap::new(),
            metas: Vec::new(),
            exemplars,
            written_exemplars: HashSet::new(),
            unique,
            current: None,
            started: Instant::now(),
            memory: Budget::unlimited(),
        }
    }

    /// Counts the memory of writing blocks against `memory`.
    pub(super) fn counted_in(mut self, memory: &Budget) -> Self {
        self.memory = memory.clone();
        self
    }

    /// Works until `is_over`, but at least a little; returns whether all blocks are written.
    ///
    /// # Errors
    /// Fails when a block cannot be written or a strip cannot be decoded; the job must then be dropped.
    pub(super) fn work(&mut self, is_over: &dyn Fn() -> bool) -> Result<bool, FlushError> {
        loop {
            if self.advance()? {
                return Ok(true);
            }
            if is_over() {
                return Ok(false);
            }
        }
    }

    /// Does one step; returns whether the job is done.
    fn advance(&mut self) -> Result<bool, FlushError> {
        if let Some(strip) = self.unsurveyed.pop_front() {
            self.survey(strip);
            if self.unsurveyed.is_empty() {
                self.surveyed.sort_by_key(|surveyed| surveyed.place);
            }
        } else if let Some(current) = self.current.take() {
            self.current = self.step(current)?;
        } else if let Some((first, last, _)) = self.pass
            && self.next < self.surveyed.len()
        {
            self.next += 1;
            self.begin(self.next - 1, first..=last)?;
        } else if let Some((_, last, more)) = self.pass {
            self.put_exemplars(last, more);
            while let Some((_, writer)) = self.writers.pop_first() {
                self.metas.push(writer.finish_pending()?);
            }
            self.pass = None;
        } else if let Some(first) = self.windows.first().copied() {
            let last = self.windows.iter().take(MOST_WINDOWS).next_back();
            let last = last.copied().unwrap_or(first);
            self.windows = self.windows.split_off(&(last + 1));
            self.pass = Some((first, last, !self.windows.is_empty()));
            self.next = 0;
        } else {
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns the finished blocks; nothing refers to them before the manifest does.
    pub(super) fn finish(self) -> Flushed {
        let mut metas = self.metas;
        metas.retain(|meta| meta.samples > 0);
        let flushed = self.surveyed.into_iter().map(|surveyed| FlushedStrip {
            strip: surveyed.strip,
            mark: surveyed.mark,
            max_ms: surveyed.max_ms,
        });
        Flushed {
            metas,
            strips: flushed.collect(),
            exemplars: self.written_exemplars,
            took: self.started.elapsed(),
        }
    }

    /// Gives the blocks of this pass the exemplars of windows up to `last`, or all of them in the final pass.
    fn put_exemplars(&mut self, last: i64, more: bool) {
        for (number, entry) in std::mem::take(&mut self.exemplars) {
            let window = entry.time_ms.div_euclid(self.window_ms);
            if more && window > last {
                self.exemplars.push((number, entry));
                continue;
            }
            // Without a block for its window, the nearest one takes it: the WAL may be truncated after this.
            let before = self.writers.range(..=window).next_back();
            let nearest = before.or_else(|| self.writers.iter().next());
            let Some(window) = nearest.map(|(window, _)| *window) else {
                continue;
            };
            if let Some(writer) = self.writers.get_mut(&window) {
                self.written_exemplars.insert(number);
                writer.add_exemplar(entry);
            }
        }
    }

    /// Determines the part of a strip to be written, and its windows.
    fn survey(&mut self, strip: Arc<Strip>) {
        let flushed = strip.flushed();
        let state = strip.lock();
        let row_chunks: Vec<Arc<RowChunk>> = state
            .sealed
            .iter()
            .filter(|row_chunk| row_chunk.first_row >= flushed.rows)
            .cloned()
            .collect();
        let mark = StripMark {
            rows: row_chunks
                .last()
                .map_or(flushed.rows, |last| last.end_row()),
            // Later ones may yet be taken back.
            out_of_order: strip.mark().out_of_order,
        };
        let window_ms = self.window_ms;
        let window = |time_ms: i64| time_ms.div_euclid(window_ms);
        let windows = row_chunks
            .iter()
            .map(|row_chunk| window(row_chunk.time_ms(0)));
        self.windows.extend(windows);
        let out_of_order_range = state.out_of_order.time_range();
        match out_of_order_range {
            None => {}
            Some((min_ms, max_ms)) if window(min_ms) == window(max_ms) => {
                self.windows.insert(window(min_ms));
            }
            Some(_) => {
                for column in state.out_of_order.columns() {
                    let mut known = None;
                    let note = |time_ms: i64, _, _| {
                        if known != Some(window(time_ms)) {
                            known = Some(window(time_ms));
                            self.windows.insert(window(time_ms));
                        }
                    };
                    state
                        .out_of_order
                        .visit(column, flushed.out_of_order, mark.out_of_order, note);
                }
            }
        }
        let width = state.schema.len();
        drop(state);
        let of_rows = row_chunks
            .iter()
            .filter_map(|row_chunk| row_chunk.time_range())
            .map(|(_, max_ms)| max_ms);
        let max_ms = of_rows.chain(out_of_order_range.map(|range| range.1)).max();
        let ends = (row_chunks.first(), row_chunks.last());
        let extent = StripExtent {
            min_ms: ends.0.map_or(0, |first| first.time_ms(0)),
            max_ms: ends
                .1
                .and_then(|last| last.time_range())
                .map_or(0, |range| range.1),
            width,
        };
        self.surveyed.push(Surveyed {
            place: extent.place(strip.common_order, window_ms),
            strip,
            row_chunks,
            out_of_order_from: flushed.out_of_order,
            mark,
            max_ms: max_ms.unwrap_or(i64::MIN),
        });
    }

    /// Starts writing a strip's part in some windows: out-of-order samples at once, row chunks page by page.
    fn begin(&mut self, at: usize, windows: RangeInclusive<i64>) -> Result<(), FlushError> {
        let surveyed = &self.surveyed[at];
        let (strip, window_ms) = (Arc::clone(&surveyed.strip), self.window_ms);
        let of_pass = |row_chunk: &&Arc<RowChunk>| {
            windows.contains(&row_chunk.time_ms(0).div_euclid(window_ms))
        };
        let row_chunks = surveyed
            .row_chunks
            .iter()
            .filter(of_pass)
            .cloned()
            .collect();
        let (out_of_order_from, out_of_order_to) =
            (surveyed.out_of_order_from, surveyed.mark.out_of_order);
        let state = strip.lock();
        let schema = state.schema.clone();
        let mut axes: HashMap<Axis, Vec<OutOfOrderColumn>> = HashMap::new();
        for column in state.out_of_order.columns() {
            let mut by_window: BTreeMap<i64, OutOfOrderColumn> = BTreeMap::new();
            let take = |time_ms: i64, value, start_ms| {
                let window = time_ms.div_euclid(window_ms);
                if windows.contains(&window) {
                    by_window
                        .entry(window)
                        .or_insert_with(|| OutOfOrderColumn::new(column))
                        .push(time_ms, value, start_ms);
                }
            };
            state
                .out_of_order
                .visit(column, out_of_order_from, out_of_order_to, take);
            for (window, mut column) in by_window {
                let times_ms = std::mem::take(&mut column.times_ms);
                axes.entry(Axis { window, times_ms })
                    .or_default()
                    .push(column);
            }
        }
        drop(state);
        let mut axes: Vec<(Axis, Vec<OutOfOrderColumn>)> = axes.into_iter().collect();
        axes.sort_by_key(|(_, columns)| columns.iter().map(|column| column.column).min());
        for (axis, columns) in &mut axes {
            columns.sort_by_key(|column| column.column);
            self.write_out_of_order(&strip, &schema, axis, columns)?;
        }
        self.current = Some(Current {
            strip,
            schema,
            runs: Run::divide(row_chunks, window_ms),
            page: 0,
            begun: false,
        });
        Ok(())
    }

    fn write_out_of_order(
        &mut self,
        strip: &Strip,
        schema: &Schema,
        axis: &Axis,
        columns: &[OutOfOrderColumn],
    ) -> Result<(), FlushError> {
        let writer = self.writer(axis.window)?;
        // The rows of a strip are bounded. A series with more is split over several strips, as after a merge.
        let most = MAX_ROWS as usize;
        for (piece, times_ms) in axis.times_ms.chunks(most).enumerate() {
            let rows = piece * most..piece * most + times_ms.len();
            writer.begin_strip(&strip.common, times_ms);
            for column in columns {
                let starts = starts_within(&column.starts, &rows);
                writer.add_column(
                    input(schema, column.column, &starts),
                    &column.cells[rows.clone()],
                    &column.histograms,
                )?;
            }
            writer.end_strip()?;
        }
        Ok(())
    }

    /// Writes one page of the current run.
    fn step(&mut self, mut current: Current) -> Result<Option<Current>, FlushError> {
        let Some(run) = current.runs.front() else {
            return Ok(None);
        };
        let starts = current.strip.lock().starts.clone();
        let writer = self.writer(run.window())?;
        if !current.begun {
            writer.begin_strip(&current.strip.common, &run.times_ms());
            current.begun = true;
        }
        if current.page < run.pages() {
            let page = run.page(current.page)?;
            for (at, column) in page.columns.clone().enumerate() {
                let own = starts.entries(column, run.first_row(), run.rows());
                let input = input(&current.schema, column, &own);
                writer.add_column(input, page.column(at), &page.histograms)?;
            }
            current.page += 1;
        }
        if current.page >= run.pages() {
            writer.end_strip()?;
            current.runs.pop_front();
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
            let writer = writer.counted_by(self.memory.account());
            self.writers.insert(window, writer);
        }
        Ok(self.writers.get_mut(&window).expect("a writer was made"))
    }
}

/// Returns the start times that hold within `rows`, with row numbers counted from the first of them.
fn starts_within(starts: &[(u32, i64)], rows: &Range<usize>) -> Vec<(u32, i64)> {
    let first = starts.partition_point(|(row, _)| *row as usize <= rows.start);
    let before = first.checked_sub(1).map_or(0, |before| starts[before].1);
    let mut within = vec![(0, before)];
    let rest = starts[first..].iter();
    let rest = rest.take_while(|(row, _)| (*row as usize) < rows.end);
    within.extend(rest.map(|(row, start_ms)| (*row - rows.start as u32, *start_ms)));
    // Before the first entry the start time is unknown anyway.
    within.retain(|start| *start != (0, 0));
    within
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

/// Times that several out-of-order series may share.
#[derive(Eq, Hash, PartialEq)]
struct Axis {
    window: i64,
    times_ms: Vec<i64>,
}

/// The out-of-order samples of one series within one window.
struct OutOfOrderColumn {
    column: u32,
    times_ms: Vec<i64>,
    cells: Vec<f64>,
    histograms: Vec<Arc<Histogram>>,
    starts: Vec<(u32, i64)>,
}

impl OutOfOrderColumn {
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
        let row = u32::try_from(self.times_ms.len()).expect("fewer than 2^32 out-of-order samples");
        if self.starts.last().map_or(0, |last| last.1) != start_ms {
            self.starts.push((row, start_ms));
        }
        self.times_ms.push(time_ms);
        self.cells.push(match value {
            Value::Cell(cell) => cell,
            Value::Histogram(histogram) => cell::push_histogram(&mut self.histograms, histogram),
        });
    }
}
