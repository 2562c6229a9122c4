//! Labels as version 1 sends them: messages with a name and a value each.

use crate::{error::RemoteError, wire::Reader};
use std::ops::Range;

/// The tag of a label within a series.
pub(crate) const LABEL_TAG: u8 = 1 << 3 | 2;

/// Label messages of version 1.
#[derive(Debug, Default)]
pub(crate) struct BlockLabels<'a> {
    pub(crate) body: &'a [u8],
    /// Copies of labels that are not contiguous in the body; ranges past the body's end refer to these.
    pub(crate) moved: Vec<u8>,
}

impl BlockLabels<'_> {
    pub(crate) fn bytes(&self, range: &Range<u32>) -> &[u8] {
        let (from, to) = (range.start as usize, range.end as usize);
        match from.checked_sub(self.body.len()) {
            None => self.body.get(from..to).unwrap_or_default(),
            Some(from) => self
                .moved
                .get(from..to - self.body.len())
                .unwrap_or_default(),
        }
    }
}

/// Returns the number of tagged label messages.
pub(crate) fn count_labels(block: &[u8]) -> Result<usize, RemoteError> {
    let mut reader = Reader::new(block);
    let mut count = 0;
    loop {
        count += reader.skip_run(LABEL_TAG)?;
        if reader.next()?.is_none() {
            return Ok(count);
        }
        count += 1;
    }
}

/// Visits the names and values of tagged label messages.
pub(crate) fn visit_labels<'b>(
    block: &'b [u8],
    mut visit: impl FnMut(&'b [u8], &'b [u8]),
) -> Result<(), RemoteError> {
    let mut reader = Reader::new(block);
    while !reader.rest().is_empty() {
        let message = match reader.bytes_tagged(LABEL_TAG)? {
            Some(message) => message,
            None => match reader.next()? {
                Some((_, field)) => field.bytes()?,
                None => break,
            },
        };
        let (name, value) = label(message)?;
        visit(name, value);
    }
    Ok(())
}

#[inline]
pub(crate) fn label(message: &[u8]) -> Result<(&[u8], &[u8]), RemoteError> {
    let mut reader = Reader::new(message);
    let mut name = reader.bytes_tagged(1 << 3 | 2)?.unwrap_or_default();
    let mut value = reader.bytes_tagged(2 << 3 | 2)?.unwrap_or_default();
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => name = field.bytes()?,
            2 => value = field.bytes()?,
            _ => {}
        }
    }
    Ok((name, value))
}
