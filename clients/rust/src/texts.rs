//! Texts that lie behind each other in one allocation, because they are read in order.

/// Some texts in order.
#[derive(Debug)]
pub struct Texts {
    bytes: Box<[u8]>,
    ends: Box<[u32]>,
}

impl Texts {
    /// Creates the texts that `write` appends for each item.
    pub(crate) fn new<T>(items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) -> Self {
        let mut bytes = Vec::new();
        let ends = items.iter().map(|item| {
            write(&mut bytes, item);
            u32::try_from(bytes.len()).expect("labels of less than 4 GiB")
        });
        let ends = ends.collect();
        let bytes = bytes.into_boxed_slice();
        Self { bytes, ends }
    }

    /// Returns the length of all texts.
    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the texts in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = *end as usize;
            let text = &self.bytes[start..end];
            start = end;
            text
        })
    }
}
