//! An open block: footer in memory, everything else on demand through the cache.
//!
//! **Invariant:** opening reads only the header and the footer; an open block can still have damaged parts, which
//! fail when they are needed.

use super::cache::{BlockCache, Part};
use super::dictionary::Dictionary;
use super::file::BlockFile;
use super::format::{Footer, MAX_ROWS, SectionKind, SectionPlace};
use super::meta::BlockMeta;
use super::page::Page;
use super::pool::FilePool;
use super::postings::Postings;
use super::sets::Sets;
use super::strips::{Cells, PagePlace, Pages, StripEntry, Strips};
use crate::bytes::{Malformed, Reader};
use crate::damage::DamageLog;
use crate::error::{Damage, TsdbError};
use crate::io::Io;
use narthex_chunks::times::decode_times;
use narthex_model::storage::{Context, Lease, StorageError};
use narthex_model::{Family, Label, LabelSet, MetricType};
use roaring::RoaringBitmap;
use std::any::Any;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// An immutable block, open for reading from any thread.
#[derive(Debug)]
pub struct Block {
    file: BlockFile,
    footer: Footer,
    cache: Arc<BlockCache>,
    /// Log of damage that costs no more than the part it touches.
    damage: Arc<DamageLog>,
    /// Identifies this block in the cache.
    number: u64,
    /// Number of label sets, once requested.
    set_count: OnceLock<u32>,
}

/// Bytes of one section with their position.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    bytes: Arc<[u8]>,
    offset: u64,
}

impl Section {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sections that identify the block's series; kept alive by whatever was resolved with them.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) dictionary: Section,
    pub(crate) sets: Section,
    pub(crate) strips: Section,
}

/// A strip that has the pages of strips after it too.
#[derive(Debug, Default)]
pub(crate) struct PageOwner {
    strip: Option<u32>,
    width: u32,
    places: Arc<[PagePlace]>,
}

impl PageOwner {
    fn new(strip: u32, width: u32, places: &[PagePlace]) -> Self {
        Self {
            strip: Some(strip),
            width,
            places: places.into(),
        }
    }
}

impl Block {
    /// Opens the block at `path`.
    ///
    /// # Errors
    /// Fails when the file cannot be read, was never finished, or its header or footer is damaged.
    pub fn open(io: &dyn Io, path: &Path, cache: &Arc<BlockCache>) -> Result<Self, TsdbError> {
        Ok(Self::new(
            BlockFile::open(io, path)?,
            cache,
            &Arc::default(),
        ))
    }

    /// Opens the block at `path`; `pool` closes and reopens its file, and `damage` records damage found from here on.
    ///
    /// # Errors
    /// As `open`.
    pub(crate) fn open_in(
        pool: &Arc<FilePool>,
        path: &Path,
        cache: &Arc<BlockCache>,
        damage: &Arc<DamageLog>,
    ) -> Result<Self, TsdbError> {
        Ok(Self::new(BlockFile::open_in(pool, path)?, cache, damage))
    }

    fn new(
        (file, footer, bad_header): (BlockFile, Footer, Option<TsdbError>),
        cache: &Arc<BlockCache>,
        damage: &Arc<DamageLog>,
    ) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        if let Some(Ok(bad)) = bad_header.map(|error| Damage::from_error(error.into())) {
            damage.note(&bad);
        }
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self {
            file,
            footer,
            cache: Arc::clone(cache),
            damage: Arc::clone(damage),
            number,
            set_count: OnceLock::new(),
        }
    }

    /// Returns the log that records damage.
    #[cfg(test)]
    pub(crate) fn damage(&self) -> &DamageLog {
        &self.damage
    }

    /// Leaves an unreadable, damaged part out of an answer: logs it once and warns the query.
    ///
    /// # Errors
    /// Returns errors other than damage.
    pub(crate) fn leave_out(&self, error: StorageError, ctx: &Context) -> Result<(), StorageError> {
        let damage = Damage::from_unreadable(error)?;
        ctx.warnings
            .note(format!("{damage}; what was there is left out"));
        self.damage.note(&damage);
        Ok(())
    }

    /// Logs damage that costs the answer nothing.
    ///
    /// # Errors
    /// Returns errors other than damage.
    pub(crate) fn note(&self, error: StorageError) -> Result<(), StorageError> {
        self.damage.note(&Damage::from_error(error)?);
        Ok(())
    }

    /// Returns the block's identity, extent and sources.
    #[must_use]
    pub fn meta(&self) -> &BlockMeta {
        &self.footer.meta
    }

    /// Returns the number of label sets in the index, 0 when it is damaged.
    pub(crate) fn set_count(&self) -> u32 {
        let count = || {
            let section = self.section(SectionKind::Sets)?;
            let sets = Sets::new(section.bytes()).map_err(|bad| self.malformed(&section, &bad))?;
            Ok::<u32, TsdbError>(sets.count())
        };
        *self.set_count.get_or_init(|| count().unwrap_or(0))
    }

    /// Returns the block's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Lists the families of the block's series, sorted by name.
    ///
    /// # Errors
    /// Fails when the section is damaged.
    pub fn families(&self) -> Result<Vec<Family>, TsdbError> {
        let section = self.section(SectionKind::Families)?;
        let read = || -> Result<Vec<Family>, Malformed> {
            let mut r = Reader::new(&section.bytes);
            let mut families = Vec::new();
            for _ in 0..r.varint()? {
                let (name, metric_type) = (r.text()?.into(), r.text()?);
                let metric_type =
                    MetricType::from_name(metric_type).ok_or_else(|| r.malformed("metric type"))?;
                families.push(Family {
                    name,
                    metric_type,
                    unit: r.text()?.into(),
                    help: r.text()?.into(),
                });
            }
            Ok(families)
        };
        read().map_err(|bad| self.malformed(&section, &bad))
    }

    /// Checks every checksum of the file; returns the damage found.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub fn verify(&self) -> Result<Vec<Damage>, TsdbError> {
        let mut damage = Vec::new();
        let mut note = |result: Result<(), TsdbError>| match result {
            Err(TsdbError::Corrupt {
                path,
                offset,
                detail,
            }) => {
                damage.push(Damage {
                    path,
                    offset,
                    detail,
                });
                Ok(())
            }
            other => other,
        };
        note(self.file.check_header())?;
        for place in &self.footer.sections {
            let name = SectionKind::ALL
                .iter()
                .find(|kind| **kind as u8 == place.kind);
            let name = name.map_or("section", |kind| kind.name());
            note(self.file.section(*place, name).map(|_| ()))?;
        }
        if let Ok(index) = self.index() {
            let mut owner = PageOwner::default();
            for at in 0..self.strips(&index)?.count() {
                let entry = self.strip_entry(&index, at);
                let checked = entry.and_then(|entry| {
                    self.times(&index, &entry.times, entry.rows)?;
                    Ok((self.pages(&index, at, &entry, &mut owner)?, entry))
                });
                let pages = match checked {
                    // Shared pages are checked with the strip that has them.
                    Ok((pages, entry)) if matches!(entry.cells, Cells::Own(_)) => pages,
                    checked => {
                        note(checked.map(|_| ()))?;
                        continue;
                    }
                };
                for place in pages.places() {
                    note(self.file.page(*place).map(|_| ()))?;
                }
            }
        }
        Ok(damage)
    }

    /// Returns the error for damage at an offset of the file that no checksum revealed.
    pub(crate) fn corrupt(&self, offset: u64, detail: String) -> TsdbError {
        self.file.corrupt(offset, detail)
    }

    pub(crate) fn malformed(&self, section: &Section, bad: &Malformed) -> TsdbError {
        self.file.malformed(section.offset, bad)
    }

    fn place(&self, kind: SectionKind) -> Result<SectionPlace, TsdbError> {
        let found = self
            .footer
            .sections
            .iter()
            .find(|place| place.kind == kind as u8);
        found.copied().ok_or_else(|| {
            self.file
                .corrupt(0, format!("there is no section of {}", kind.name()))
        })
    }

    pub(crate) fn has_section(&self, kind: SectionKind) -> bool {
        self.footer
            .sections
            .iter()
            .any(|place| place.kind == kind as u8)
    }

    pub(crate) fn section(&self, kind: SectionKind) -> Result<Section, TsdbError> {
        let place = self.place(kind)?;
        let load = || self.file.section(place, kind.name()).map(Part::Section);
        match self.cache.get((self.number, place.offset), load)? {
            Part::Section(bytes) => Ok(Section {
                bytes,
                offset: place.offset,
            }),
            _ => Err(self
                .file
                .corrupt(place.offset, "a page lies where a section should")),
        }
    }

    pub(crate) fn page(&self, place: PagePlace) -> Result<Arc<Page>, TsdbError> {
        let load = || self.file.page(place).map(|page| Part::Page(Arc::new(page)));
        match self.cache.get((self.number, place.offset), load)? {
            Part::Page(page) => Ok(page),
            _ => Err(self
                .file
                .corrupt(place.offset, "a section lies where a page should")),
        }
    }

    /// Returns what an earlier query decoded and kept as `key`, which is above all offsets.
    pub(crate) fn known<T: Any + Send + Sync>(&self, key: u64) -> Option<Arc<T>> {
        match self.cache.find((self.number, key))? {
            Part::Decoded(known, ..) => known.downcast().ok(),
            _ => None,
        }
    }

    /// Reports whether the cache has room for several parts of so many bytes.
    pub(crate) fn keeps_among_others(&self, bytes: usize) -> bool {
        /// Parts of half the cache.
        const OTHERS: u64 = 4;
        self.cache.keeps((bytes as u64).saturating_mul(OTHERS))
    }

    /// Keeps what was decoded for later queries; returns whether the cache takes that many bytes.
    pub(crate) fn keep<T: Any + Send + Sync>(&self, key: u64, known: Arc<T>, bytes: usize) -> bool {
        let is_kept = self.cache.keeps(bytes as u64);
        if is_kept {
            let part = Part::Decoded(known, bytes, 0);
            self.cache.replace((self.number, key), part);
        }
        is_kept
    }

    /// Reads a page, bypassing the cache.
    pub(crate) fn uncached_page(&self, place: PagePlace) -> Result<Page, TsdbError> {
        self.file.page(place)
    }

    pub(crate) fn index(&self) -> Result<Index, TsdbError> {
        Ok(Index {
            dictionary: self.section(SectionKind::Dictionary)?,
            sets: self.section(SectionKind::Sets)?,
            strips: self.section(SectionKind::Strips)?,
        })
    }

    /// Returns the index, and a lease of what of it the cache does not keep.
    ///
    /// # Errors
    /// Fails when a part of the index is damaged, or over budget.
    pub(crate) fn leased_index(&self, ctx: &Context) -> Result<(Index, Lease), StorageError> {
        let kinds = [
            SectionKind::Dictionary,
            SectionKind::Sets,
            SectionKind::Strips,
        ];
        let lease = self.lease_sections(&kinds, ctx)?;
        Ok((self.index()?, lease))
    }

    /// Leases the bytes of those sections that the cache does not keep.
    pub(crate) fn lease_sections(
        &self,
        kinds: &[SectionKind],
        ctx: &Context,
    ) -> Result<Lease, StorageError> {
        let mut bytes = 0u64;
        for kind in kinds {
            let len = self.place(*kind)?.len;
            bytes = bytes.saturating_add(if self.cache.keeps(len) { 0 } else { len });
        }
        Ok(ctx.budget.lease(bytes)?)
    }

    pub(crate) fn dictionary<'i>(&self, index: &'i Index) -> Result<Dictionary<'i>, TsdbError> {
        self.dictionary_of(&index.dictionary)
    }

    pub(crate) fn dictionary_of<'i>(
        &self,
        section: &'i Section,
    ) -> Result<Dictionary<'i>, TsdbError> {
        Dictionary::new(&section.bytes).map_err(|bad| self.malformed(section, &bad))
    }

    pub(crate) fn sets<'i>(&self, index: &'i Index) -> Result<Sets<'i>, TsdbError> {
        Sets::new(&index.sets.bytes).map_err(|bad| self.malformed(&index.sets, &bad))
    }

    pub(crate) fn strips<'i>(&self, index: &'i Index) -> Result<Strips<'i>, TsdbError> {
        Strips::new(&index.strips.bytes, self.footer.version)
            .map_err(|bad| self.malformed(&index.strips, &bad))
    }

    pub(crate) fn postings<'i>(&self, section: &'i Section) -> Result<Postings<'i>, TsdbError> {
        Postings::new(&section.bytes).map_err(|bad| self.malformed(section, &bad))
    }

    pub(crate) fn strip_entry(&self, index: &Index, at: u32) -> Result<StripEntry, TsdbError> {
        let entry = self
            .strips(index)?
            .get(at)
            .map_err(|bad| self.malformed(&index.strips, &bad))?;
        // Sizes are trusted only as far as the file has bytes for them.
        let fits = |page: &PagePlace| {
            let end = page.offset.checked_add(u64::from(page.len));
            end.is_some_and(|end| end <= self.meta().bytes)
                && page.chunks() <= u64::from(page.len) * 32
        };
        let pages = match &entry.cells {
            Cells::Own(pages) => pages.as_slice(),
            Cells::Shared { .. } => &[],
        };
        if entry.rows > MAX_ROWS || !pages.iter().all(fits) {
            return Err(self.corrupt(
                index.strips.offset,
                format!("strip {at} claims more than the file holds"),
            ));
        }
        Ok(entry)
    }

    /// Returns the pages of strip `at`, whose entry is given; `owner` had those of the strip before.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn pages(
        &self,
        index: &Index,
        at: u32,
        entry: &StripEntry,
        owner: &mut PageOwner,
    ) -> Result<Pages, TsdbError> {
        let (back, slot) = match &entry.cells {
            Cells::Own(pages) => {
                *owner = PageOwner::new(at, entry.width(), pages);
                return Ok(Pages::new(Arc::clone(&owner.places), 0));
            }
            Cells::Shared { back, slot } => (*back, *slot),
        };
        let wrong = || {
            let detail = format!("strip {at} shares pages that no other strip has");
            self.corrupt(index.strips.offset, detail)
        };
        let number = at.checked_sub(back).ok_or_else(wrong)?;
        if owner.strip != Some(number) {
            let found = self.strip_entry(index, number)?;
            let Cells::Own(pages) = &found.cells else {
                return Err(wrong());
            };
            *owner = PageOwner::new(number, found.width(), pages);
        }
        let has_slot = owner.places.iter().all(|page| slot < page.strips);
        if owner.width != entry.width() || !has_slot {
            return Err(wrong());
        }
        Ok(Pages::new(Arc::clone(&owner.places), slot))
    }

    /// Decodes the times of a strip's rows.
    ///
    /// # Errors
    /// Fails when they are damaged.
    pub(crate) fn times(
        &self,
        index: &Index,
        encoded: &[u8],
        rows: u32,
    ) -> Result<Arc<[i64]>, TsdbError> {
        let mut times_ms: Arc<[i64]> = std::iter::repeat_n(0, rows as usize).collect();
        let times = Arc::get_mut(&mut times_ms).expect("nobody else has it");
        self.decode_times(index, encoded, times)?;
        Ok(times_ms)
    }

    /// Decodes the times of a strip with as many rows as `times_ms` has places.
    ///
    /// # Errors
    /// Fails when they are damaged; `times_ms` is then undefined.
    pub(crate) fn decode_times(
        &self,
        index: &Index,
        encoded: &[u8],
        times_ms: &mut [i64],
    ) -> Result<(), TsdbError> {
        decode_times(encoded, times_ms).map_err(|bad| {
            self.corrupt(
                index.strips.offset,
                format!("unreadable times of a strip: {bad}"),
            )
        })?;
        if times_ms.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        Err(self.corrupt(index.strips.offset, "times of a strip do not ascend".into()))
    }

    /// Returns the label sets that consist of `pairs`, decoding each label once.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn label_sets<'p>(
        &self,
        index: &Index,
        pairs: impl Iterator<Item = &'p [u32]> + Clone,
    ) -> Result<Vec<LabelSet>, TsdbError> {
        let used: RoaringBitmap = pairs.clone().flatten().collect();
        let labels = self.of_pairs(index, &used, Label::new)?;
        let set = |pairs: &[u32]| {
            let labels = pairs.iter().map(|pair| labels[pair].clone());
            LabelSet::from_labels(labels)
        };
        Ok(pairs.map(set).collect())
    }

    /// Returns what `make` makes of the name and value of each of `pairs`.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn of_pairs<T>(
        &self,
        index: &Index,
        pairs: &RoaringBitmap,
        make: impl Fn(&str, &str) -> T,
    ) -> Result<HashMap<u32, T, foldhash::fast::RandomState>, TsdbError> {
        let mut made = HashMap::default();
        self.dictionary(index)?
            .each(pairs, &mut |pair, name, value| {
                made.insert(pair, make(name, value));
            })
            .map_err(|bad| self.malformed(&index.dictionary, &bad))?;
        Ok(made)
    }

    pub(crate) fn label_set(&self, index: &Index, set: u32) -> Result<LabelSet, TsdbError> {
        let mut pairs = Vec::new();
        self.sets(index)?
            .get(set, &mut pairs)
            .map_err(|bad| self.malformed(&index.sets, &bad))?;
        let dictionary = self.dictionary(index)?;
        let labels = pairs
            .into_iter()
            .map(|pair| dictionary.label(pair))
            .collect::<Result<Vec<_>, _>>();
        labels
            .map(LabelSet::from_labels)
            .map_err(|bad| self.malformed(&index.dictionary, &bad))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.cache.forget(self.number);
    }
}
