//! Buffers by column, without hashing: samples arrive one at a time for random columns, so each look-up counts.
//!
//! **Invariant:** a page without samples is not kept past `retain`; the last page exists.

use super::Buffer;

/// Columns of a page; few columns of a wide strip have out-of-order samples.
const PAGE: usize = 16;

type Page = [Buffer; PAGE];

/// One era's buffers.
#[derive(Debug, Default)]
pub(super) struct Table {
    pages: Vec<Option<Box<Page>>>,
}

impl Table {
    /// Returns a column's buffer if it has samples.
    #[inline]
    pub(super) fn get(&self, column: u32) -> Option<&Buffer> {
        let column = column as usize;
        let page = self.pages.get(column / PAGE)?.as_ref()?;
        Some(&page[column % PAGE]).filter(|buffer| !buffer.samples.is_empty())
    }

    /// Returns a column's buffer, which may be empty.
    #[inline]
    pub(super) fn get_mut(&mut self, column: u32) -> &mut Buffer {
        let column = column as usize;
        let number = column / PAGE;
        if number >= self.pages.len() {
            self.pages.resize_with(number + 1, || None);
        }
        &mut self.pages[number].get_or_insert_default()[column % PAGE]
    }

    /// Returns the buffers that have samples, ascending by column.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Buffer)> {
        let pages = self.pages.iter().enumerate();
        let buffers = pages.flat_map(|(number, page)| {
            let buffers = page.iter().flat_map(|page| page.iter());
            let numbered = buffers.enumerate();
            numbered.map(move |(at, buffer)| ((number * PAGE + at) as u32, buffer))
        });
        buffers.filter(|(_, buffer)| !buffer.samples.is_empty())
    }

    /// Changes every buffer that has samples, then drops empty ones.
    pub(super) fn retain(&mut self, mut change: impl FnMut(&mut Buffer)) {
        for page in &mut self.pages {
            let Some(buffers) = page else { continue };
            let filled = buffers
                .iter_mut()
                .filter(|buffer| !buffer.samples.is_empty());
            filled.for_each(&mut change);
            if buffers.iter().all(|buffer| buffer.samples.is_empty()) {
                *page = None;
            }
        }
        let end = self.pages.iter().rposition(Option::is_some);
        self.pages.truncate(end.map_or(0, |last| last + 1));
        self.pages.shrink_to_fit();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns the heap bytes of the pages, without those of their buffers.
    pub(super) fn heap_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().count();
        pages * size_of::<Page>() + self.pages.capacity() * size_of::<Option<Box<Page>>>()
    }
}
