//! The Python client's file of values.
//!
//! ```text
//! FILE  := used i32, 4 bytes, ENTRY*           in the machine's byte order; used counts all bytes in use
//! ENTRY := length i32, key, 1 to 8 blanks up to a multiple of 8 bytes, value f64 [ , timestamp f64 ]
//! ```
//! Versions before 0.20 have no timestamps. Nothing in a file says which it is: the form in which all of it can be read
//! counts.
//!
//! **Invariant:** no length in a file is trusted: what is read is in the file, and the rest is left out.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

const HEADER_BYTES: usize = 8;

/// A value under its key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: f64,
    /// When it was set, as a Unix time; 0 if that is not known.
    pub(crate) timestamp: f64,
}

/// Reads the used part of a file.
pub(super) fn read(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut data = Vec::new();
    file.by_ref()
        .take(HEADER_BYTES as u64)
        .read_to_end(&mut data)?;
    let rest = used(&data).saturating_sub(HEADER_BYTES) as u64;
    file.take(rest.min(limit_bytes)).read_to_end(&mut data)?;
    Ok(data)
}

/// Returns how many bytes a file says are in use; 0 before its first value.
fn used(data: &[u8]) -> usize {
    let used = data
        .first_chunk()
        .map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    usize::try_from(used).unwrap_or_default()
}

/// Returns the values of a file up to the first damage, and whether there is none.
pub(crate) fn entries(data: &[u8]) -> (Vec<Entry<'_>>, bool) {
    let (entries, is_whole) = entries_of(data, 16);
    if is_whole {
        return (entries, true);
    }
    match entries_of(data, 8) {
        (older, true) => (older, true),
        _ => (entries, false),
    }
}

/// Returns the entries with so many bytes of numbers behind the key.
fn entries_of(data: &[u8], number_bytes: usize) -> (Vec<Entry<'_>>, bool) {
    let end = used(data);
    let mut entries = Vec::new();
    let mut rest = data
        .get(HEADER_BYTES..end.min(data.len()))
        .unwrap_or_default();
    let is_cut = end > data.len();
    while !rest.is_empty() {
        let Some((entry, behind)) = entry(rest, number_bytes) else {
            return (entries, false);
        };
        entries.push(entry);
        rest = behind;
    }
    (entries, !is_cut)
}

fn entry(data: &[u8], number_bytes: usize) -> Option<(Entry<'_>, &[u8])> {
    let (length, rest) = data.split_first_chunk()?;
    let length = usize::try_from(i32::from_ne_bytes(*length)).ok()?;
    let padding = 8 - (length.checked_add(4)?) % 8;
    let (key, rest) = rest.split_at_checked(length)?;
    let (blanks, rest) = rest.split_at_checked(padding)?;
    let (numbers, rest) = rest.split_at_checked(number_bytes)?;
    // A key is a JSON array; blanks tell whether an entry begins where it was looked for.
    if !key.starts_with(b"[") || blanks.iter().any(|byte| *byte != b' ') {
        return None;
    }
    let number = |at: usize| {
        let bytes = numbers.get(at..)?.first_chunk()?;
        Some(f64::from_ne_bytes(*bytes))
    };
    let entry = Entry {
        key: str::from_utf8(key).ok()?,
        value: number(0)?,
        timestamp: number(8).unwrap_or_default(),
    };
    Some((entry, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(entries: &[(&str, &[f64])]) -> Vec<u8> {
        let mut data = vec![0; HEADER_BYTES];
        for (key, numbers) in entries {
            data.extend_from_slice(&i32::try_from(key.len()).unwrap().to_ne_bytes());
            data.extend_from_slice(key.as_bytes());
            data.resize(data.len() + 8 - (key.len() + 4) % 8, b' ');
            for number in *numbers {
                data.extend_from_slice(&number.to_ne_bytes());
            }
        }
        let used = i32::try_from(data.len()).unwrap();
        data[..4].copy_from_slice(&used.to_ne_bytes());
        data
    }

    fn shown(data: &[u8]) -> String {
        let (entries, is_whole) = entries(data);
        let each = entries.iter();
        let each = each.map(|entry| format!("{}={}@{}", entry.key, entry.value, entry.timestamp));
        format!("{} {is_whole}", each.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn both_forms_are_read() {
        for key in [
            "[]",
            "[1]",
            "[12]",
            "[123]",
            "[1234]",
            "[12345]",
            "[123456]",
            "[1234567]",
        ] {
            let timed = file(&[(key, &[1.5, 7.0]), ("[\"b\"]", &[2.0, 0.0])]);
            assert_eq!(shown(&timed), format!("{key}=1.5@7 [\"b\"]=2@0 true"));
            let plain = file(&[(key, &[1.5]), ("[\"b\"]", &[2.0])]);
            assert_eq!(shown(&plain), format!("{key}=1.5@0 [\"b\"]=2@0 true"));
        }
        assert_eq!(shown(&file(&[])), " true");
    }

    #[test]
    fn a_damaged_file_gives_what_is_before_the_damage() {
        // Created and not written yet, or cut to nothing.
        assert_eq!(shown(&[]), " true");
        assert_eq!(shown(&[0; 64]), " true");
        let whole = file(&[("[\"a\"]", &[1.0, 0.0]), ("[\"b\"]", &[2.0, 0.0])]);
        for len in HEADER_BYTES + 1..whole.len() {
            let said = shown(&whole[..len]);
            let expected = if len < HEADER_BYTES + 32 {
                " false"
            } else {
                "[\"a\"]=1@0 false"
            };
            assert_eq!(said, expected, "{len}");
        }
        let mut lying = whole.clone();
        lying[HEADER_BYTES + 32..HEADER_BYTES + 36].copy_from_slice(&i32::MAX.to_ne_bytes());
        assert_eq!(shown(&lying), "[\"a\"]=1@0 false");
        lying[HEADER_BYTES + 32..HEADER_BYTES + 36].copy_from_slice(&(-1i32).to_ne_bytes());
        assert_eq!(shown(&lying), "[\"a\"]=1@0 false");
        let mut garbled = whole;
        garbled[HEADER_BYTES + 36] = 0xff;
        assert_eq!(shown(&garbled), "[\"a\"]=1@0 false");
    }
}
