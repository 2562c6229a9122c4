//! Writes a block: strip by strip, column by column, then the index and the footer.
//!
//! **Invariant:** the block's final name appears only when all its bytes are durable, and in a database only when a
//! durable manifest lists it; until then only a temporary file exists, which the start of the database removes.

use super::exemplars::{BySets, SeriesExemplar};
use super::format::{Footer, MAX_ROWS, SectionKind, SectionPlace, VERSION, checksum, header};
use super::groups::{Chunks, Group, Groups};
use super::meta::{BlockId, BlockMeta};
use super::page::PageBuilder;
use super::pool::{PENDING, with_suffix};
use super::set_table::{SetSections, SetTable};
use super::strips::{Cells, PagePlace, StripEntry, push_run};
use super::{exemplars, strips};
use crate::bytes::{put_bytes, put_varint};
use crate::error::{TsdbError, io_error};
use crate::io::{AppendFile, Io};
use narthex_chunks::column::ColumnEncoder;
use narthex_chunks::times::encode_times;
use narthex_model::storage::Account;
use narthex_model::{Family, Histogram, LabelSet, cell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes buffered before they are written to the file.
const BUFFER_BYTES: usize = 256 << 10;

/// One series of a strip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnInput<'a> {
    /// Labels of the series other than the strip's common ones.
    pub(crate) set: &'a LabelSet,
    /// Metric family of the series, if known.
    pub(crate) family: Option<&'a Family>,
    /// First row of each start time of its counter (row, ms), rows ascending; empty when unknown.
    pub(crate) start_times: &'a [(u32, i64)],
}

/// Writes one block.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    io: Arc<dyn Io>,
    temporary: PathBuf,
    file: Arc<dyn AppendFile>,
    buffer: Vec<u8>,
    written: u64,
    meta: BlockMeta,
    sets: SetTable,
    families: BTreeSet<Family>,
    exemplars: BySets,
    strips: Vec<StripEntry>,
    open: Option<StripEntry>,
    /// Pages of the open strip, a wide one.
    pages: Vec<PagePlace>,
    /// Columns of the open strip that are in no page.
    chunks: Chunks,
    groups: Groups,
    encoder: ColumnEncoder,
    held: Option<Account>,
}

impl BlockWriter {
    /// Starts a block in `dir`, which must exist; `sources` are the blocks it replaces.
    ///
    /// # Errors
    /// Fails when the temporary file cannot be created.
    pub(crate) fn new(
        io: Arc<dyn Io>,
        dir: &Path,
        id: BlockId,
        level: u8,
        sources: Vec<BlockId>,
    ) -> Result<Self, TsdbError> {
        let sources = if sources.is_empty() {
            vec![id]
        } else {
            sources
        };
        let meta = BlockMeta {
            id,
            level,
            sources,
            ..BlockMeta::default()
        };
        let temporary = with_suffix(&dir.join(meta.file_name()), PENDING);
        let file = io
            .create(&temporary)
            .map_err(io_error(&temporary, "create"))?;
        Ok(Self {
            io,
            temporary,
            file,
            buffer: header().to_vec(),
            written: 0,
            meta,
            sets: SetTable::default(),
            families: BTreeSet::new(),
            exemplars: BySets::new(),
            strips: Vec::new(),
            open: None,
            pages: Vec::new(),
            chunks: Chunks::default(),
            groups: Groups::default(),
            encoder: ColumnEncoder::new(),
            held: None,
        })
    }

    /// Makes `account` count the writer's memory whenever it writes.
    pub(crate) fn counted_by(mut self, account: Account) -> Self {
        self.held = Some(account);
        self
    }

    /// Returns the bytes written so far, including buffered ones.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Starts a strip; its columns are added one by one, so that a wide one need not be in memory at once.
    ///
    /// # Panics
    /// Panics when times do not ascend strictly, there are more than 2^20, or the previous strip was not ended.
    pub(crate) fn begin_strip(&mut self, common: &LabelSet, times_ms: &[i64]) {
        assert!(self.open.is_none(), "one strip at a time");
        assert!(times_ms.is_sorted_by(|a, b| a < b), "times ascend");
        let mut times = Vec::new();
        encode_times(times_ms, &mut times);
        self.open = Some(StripEntry {
            common: self.sets.set(common),
            rows: u32::try_from(times_ms.len())
                .ok()
                .filter(|rows| *rows <= MAX_ROWS)
                .expect("a strip has at most 2^20 rows"),
            min_time_ms: times_ms.first().copied().unwrap_or_default(),
            max_time_ms: times_ms.last().copied().unwrap_or_default(),
            times,
            ..StripEntry::default()
        });
    }

    /// Adds a column to the open strip, unless it has no cell.
    ///
    /// # Errors
    /// Fails when bytes cannot be written; the writer must then be dropped.
    ///
    /// # Panics
    /// Panics when there is not one cell per row.
    pub(crate) fn add_column(
        &mut self,
        column: ColumnInput<'_>,
        cells: &[f64],
        histograms: &[Arc<Histogram>],
    ) -> Result<(), TsdbError> {
        if cells.iter().all(|cell| cell::is_absent(*cell)) {
            return Ok(());
        }
        if let Some(family) = column.family {
            self.families.insert(family.clone());
        }
        let set = self.sets.set(column.set);
        self.add_column_of(set, column.start_times, cells, histograms)
    }

    /// Adds a column to the open strip by its set's number in the table, unless it has no cell.
    ///
    /// # Errors
    /// As `add_column`.
    pub(crate) fn add_column_of(
        &mut self,
        set: u32,
        start_times: &[(u32, i64)],
        cells: &[f64],
        histograms: &[Arc<Histogram>],
    ) -> Result<(), TsdbError> {
        let samples = cells.iter().filter(|c| !cell::is_absent(**c)).count() as u64;
        if samples == 0 {
            return Ok(());
        }
        let strip = self.open.as_mut().expect("a strip was begun");
        assert_eq!(cells.len(), strip.rows as usize, "one cell a row");
        push_run(&mut strip.columns, set);
        strip.samples += samples;
        self.meta.samples += samples;
        self.meta.series += 1;
        let encoder = &mut self.encoder;
        self.chunks.add(start_times, |out| {
            encoder.encode(cells, histograms, out);
        });
        if self.chunks.is_wide() {
            self.write_wide()?;
        }
        Ok(())
    }

    /// Ends the open strip, leaving it out if it has no columns.
    ///
    /// # Errors
    /// Fails when bytes cannot be written; the writer must then be dropped.
    pub(crate) fn end_strip(&mut self) -> Result<(), TsdbError> {
        let is_wide = !self.pages.is_empty();
        if is_wide && !self.chunks.is_empty() {
            self.write_wide()?;
        }
        let mut strip = self.open.take().expect("a strip was begun");
        if strip.columns.is_empty() {
            return Ok(());
        }
        let meta = &mut self.meta;
        let first = meta.strips == 0;
        meta.min_time_ms = if first {
            strip.min_time_ms
        } else {
            meta.min_time_ms.min(strip.min_time_ms)
        };
        meta.max_time_ms = if first {
            strip.max_time_ms
        } else {
            meta.max_time_ms.max(strip.max_time_ms)
        };
        meta.strips += 1;
        let number = self.strips.len();
        strip.cells = Cells::Own(std::mem::take(&mut self.pages));
        self.strips.push(strip);
        if is_wide {
            return Ok(());
        }
        let chunks = std::mem::take(&mut self.chunks);
        match self.groups.add(number, chunks) {
            Some(group) => self.write_group(&group),
            None => Ok(()),
        }
    }

    /// Writes the index and makes all bytes durable under the temporary name, itself durable in its directory.
    ///
    /// # Errors
    /// Fails when bytes cannot be written or made durable.
    pub(crate) fn finish_pending(mut self) -> Result<BlockMeta, TsdbError> {
        assert!(self.open.is_none(), "the last strip was ended");
        while let Some(group) = self.groups.next() {
            self.write_group(&group)?;
        }
        self.flush()?;
        let sections = self.put_index()?;
        let footer = Footer {
            version: VERSION,
            meta: self.meta.clone(),
            sections,
        };
        self.buffer.extend_from_slice(&footer.encode());
        self.flush()?;
        self.file
            .sync()
            .map_err(io_error(&self.temporary, "fsync"))?;
        self.meta.bytes = self.written;
        Ok(self.meta)
    }

    /// Returns the file's path until the block counts.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Removes the unfinished file; if that fails, the start of the database removes it.
    pub(crate) fn abandon(self) {
        let _ = self.io.remove(&self.temporary);
    }

    /// Adds families besides those of the added columns.
    pub(crate) fn add_families(&mut self, families: &[Family]) {
        self.families.extend(families.iter().cloned());
    }

    /// Adds an exemplar unless it is already there.
    pub(crate) fn add_exemplar(&mut self, entry: SeriesExemplar) {
        let sets = (self.sets.set(&entry.common), self.sets.set(&entry.local));
        let of_series = self.exemplars.entry(sets).or_default();
        exemplars::insert(of_series, entry.time_ms, entry.exemplar);
    }

    /// Returns the labels and sets of the block.
    pub(crate) fn sets(&mut self) -> &mut SetTable {
        &mut self.sets
    }

    /// Writes the columns of the open strip, a wide one, so far.
    fn write_wide(&mut self) -> Result<(), TsdbError> {
        let (mut chunks, mut pages) = (
            std::mem::take(&mut self.chunks),
            std::mem::take(&mut self.pages),
        );
        self.write_pages(&[&chunks], &mut pages)?;
        chunks.clear();
        (self.chunks, self.pages) = (chunks, pages);
        Ok(())
    }

    /// Writes the pages that some strips share.
    fn write_group(&mut self, group: &Group) -> Result<(), TsdbError> {
        let chunks: Vec<&Chunks> = group.strips().iter().map(|(_, chunks)| chunks).collect();
        let mut pages = Vec::new();
        self.write_pages(&chunks, &mut pages)?;
        let mut numbers = group.strips().iter().map(|(number, _)| *number);
        let first = numbers.next().expect("a group has strips");
        self.strips[first].cells = Cells::Own(pages);
        for (slot, number) in (1..).zip(numbers) {
            let back = (number - first) as u32;
            self.strips[number].cells = Cells::Shared { back, slot };
        }
        Ok(())
    }

    /// Writes the next pages of strips of the same width.
    fn write_pages(
        &mut self,
        strips: &[&Chunks],
        pages: &mut Vec<PagePlace>,
    ) -> Result<(), TsdbError> {
        let width = strips.first().map_or(0, |chunks| chunks.columns());
        let mut page = PageBuilder::default();
        let before = pages.last().map_or(0, |last| last.first + last.columns);
        let mut first = 0;
        for column in 0..width {
            for chunks in strips {
                chunks.copy_into(column, &mut page);
            }
            let next = column + 1;
            if page.is_full() || next == width {
                let offset = self.bytes();
                let len = page.finish(&mut self.buffer);
                pages.push(PagePlace {
                    offset,
                    len: u32::try_from(len).expect("a page has less than 4 GiB"),
                    first: before + first as u32,
                    columns: (next - first) as u32,
                    strips: strips.len() as u32,
                });
                first = next;
                if self.buffer.len() >= BUFFER_BYTES {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TsdbError> {
        self.count(0);
        self.file
            .append(&self.buffer)
            .map_err(io_error(&self.temporary, "write"))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Counts the held memory plus `more_bytes`.
    fn count(&self, more_bytes: usize) {
        /// Bytes of a strip other than its lists.
        const STRIP_BYTES: usize = size_of::<StripEntry>() + 64;
        if let Some(held) = &self.held {
            let bytes = self.buffer.capacity()
                + self.chunks.bytes()
                + self.groups.bytes()
                + self.sets.heap_bytes()
                + self.strips.len() * STRIP_BYTES
                + self.meta.series as usize * size_of::<u32>()
                + more_bytes;
            held.set(bytes as u64);
        }
    }

    /// Writes the sections of the index, building each only when its turn comes, to bound memory.
    fn put_index(&mut self) -> Result<Vec<SectionPlace>, TsdbError> {
        let SetSections {
            dictionary,
            sets,
            postings,
        } = std::mem::take(&mut self.sets).encode();
        let beside = sets.len() + postings.len();
        let mut places = vec![self.put_section(SectionKind::Dictionary, dictionary, beside)?];
        let beside = postings.len();
        places.push(self.put_section(SectionKind::Sets, sets, beside)?);
        places.push(self.put_section(SectionKind::Postings, postings, 0)?);
        let strips = strips::encode(&self.strips);
        places.push(self.put_section(SectionKind::Strips, strips, 0)?);
        let families = self.encode_families();
        places.push(self.put_section(SectionKind::Families, families, 0)?);
        if !self.exemplars.is_empty() {
            let exemplars = exemplars::encode(&self.exemplars);
            places.push(self.put_section(SectionKind::Exemplars, exemplars, 0)?);
        }
        Ok(places)
    }

    /// Writes a section without copying it: one may be as long as all labels.
    fn put_section(
        &mut self,
        kind: SectionKind,
        bytes: Vec<u8>,
        beside_bytes: usize,
    ) -> Result<SectionPlace, TsdbError> {
        let place = SectionPlace {
            kind: kind as u8,
            offset: self.written,
            len: bytes.len() as u64,
            crc: checksum(&bytes),
        };
        self.count(bytes.len() + beside_bytes);
        self.file
            .append(&bytes)
            .map_err(io_error(&self.temporary, "write"))?;
        self.written += bytes.len() as u64;
        Ok(place)
    }

    fn encode_families(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.families.len() as u64);
        for family in &self.families {
            let metric_type = family.metric_type.as_str();
            for text in [&family.name, metric_type, &family.unit, &family.help] {
                put_bytes(&mut out, text.as_bytes());
            }
        }
        out
    }
}
