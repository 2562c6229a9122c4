//! Compression of pages that follow one another with other numbers in the same lines, as an exporter's do.
//!
//! Finding what repeats in a page is most of the work of compressing it, and the text around the numbers is the same
//! in page after page. It is searched once, more thoroughly than would pay for one page; the result is a
//! [`Template`] of bits that are copied, with distances and numbers filled in.
//!
//! **Invariant:** what is returned decompresses to the given page, whatever pages came before.

mod matches;
mod skeleton;
mod template;

use crate::respond::{COMPRESS_FROM_BYTES, gzip};
use skeleton::Skeleton;
use template::Template;

/// Longer pages are compressed one by one, because a template takes as much memory as its page, and so are shorter ones,
/// which are sent as they are.
const LONGEST_BYTES: usize = 4 << 20;

/// A gzip compressor for the pages of one source in one text format.
///
/// Keeps about the size of a page, twice, once two pages in a row differed in their numbers alone.
#[derive(Debug, Default)]
pub struct PageCompressor {
    template: Option<Template>,
    /// The text of the last page, if the template did not fit.
    last: Option<Skeleton>,
    scratch: Vec<u8>,
}

impl PageCompressor {
    /// Returns a compressor that has seen no page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a gzip member of `page`, or `None` if it would not be shorter.
    #[must_use]
    pub fn gzip(&mut self, page: &[u8]) -> Option<Vec<u8>> {
        if let Some(packed) = self.fill(page) {
            self.last = None;
            return Some(packed);
        }
        if self.learn(page)
            && let Some(packed) = self.fill(page)
        {
            return Some(packed);
        }
        gzip(page)
    }

    /// Fills the template with a page's numbers, if it is a template of that page.
    fn fill(&mut self, page: &[u8]) -> Option<Vec<u8>> {
        let template = self.template.as_mut()?;
        let length = template.fill(page, &mut self.scratch)?;
        let packed = self.scratch.get(..length)?;
        (packed.len() < page.len()).then(|| packed.to_vec())
    }

    /// Makes another template if the page before this one had the same text.
    fn learn(&mut self, page: &[u8]) -> bool {
        let skeleton = Some(page)
            .filter(|page| (COMPRESS_FROM_BYTES..=LONGEST_BYTES).contains(&page.len()))
            .and_then(Skeleton::read);
        if skeleton.is_none() || skeleton != self.last {
            self.last = skeleton;
            return false;
        }
        self.template = self.last.take().map(|text| Template::new(text, page));
        true
    }
}

#[cfg(test)]
mod tests;
