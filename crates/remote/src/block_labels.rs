//! Labels as version 1 sends them: messages with a name and a value each.

use crate::{error::RemoteError, wire::Reader};
use std::ops::Range;

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

/// Visits the names and values of tagged label messages.
pub(crate) fn visit_labels(
    block: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]),
) -> Result<(), RemoteError> {
    let mut reader = Reader::new(block);
    while let Some((_, field)) = reader.next()? {
        let (name, value) = label(field.bytes()?)?;
        visit(name, value);
    }
    Ok(())
}

pub(crate) fn label(message: &[u8]) -> Result<(&[u8], &[u8]), RemoteError> {
    let (mut name, mut value) = (&[][..], &[][..]);
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => name = field.bytes()?,
            2 => value = field.bytes()?,
            _ => {}
        }
    }
    Ok((name, value))
}
