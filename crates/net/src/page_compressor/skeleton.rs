//! The text of a page around its numbers.
//!
//! **Invariant:** pieces and numbers take turns: a page is the first piece, a number, the next piece, and so on to the last piece.

use std::ops::Range;

/// Bytes of numbers and times; a line that ends in anything else has no place in a skeleton.
pub(super) const NUMBER: &[u8; 21] = b"0123456789.+-eENaInf ";

/// The text that pages share.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Skeleton {
    /// All pieces, one after the other.
    pub(super) text: Vec<u8>,
    /// Where each piece ends in the text.
    pub(super) ends: Vec<u32>,
}

impl Skeleton {
    /// Reads the text of a page; `None` if its lines are not those of metrics.
    pub(super) fn read(page: &[u8]) -> Option<Self> {
        let mut skeleton = Self {
            text: Vec::with_capacity(page.len()),
            ends: Vec::new(),
        };
        // Where the page has been copied to.
        let (mut copied, mut at) = (0, 0);
        for line in page.split_inclusive(|byte| *byte == b'\n') {
            if !matches!(line, [b'#', ..] | b"\n") {
                let (name, number) = line.split_at(number_start(line)?);
                let number = number.strip_suffix(b"\n").unwrap_or(number);
                if number.iter().any(|byte| !NUMBER.contains(byte)) {
                    return None;
                }
                let from = at + name.len();
                skeleton.text.extend_from_slice(&page[copied..from]);
                skeleton.ends.push(u32::try_from(skeleton.text.len()).ok()?);
                copied = from + number.len();
            }
            at += line.len();
        }
        skeleton.text.extend_from_slice(&page[copied..]);
        skeleton.ends.push(u32::try_from(skeleton.text.len()).ok()?);
        Some(skeleton)
    }

    /// Returns where a piece lies in the text.
    pub(super) fn piece(&self, at: usize) -> Range<usize> {
        let end = |at: usize| self.ends[at] as usize;
        at.checked_sub(1).map_or(0, end)..end(at)
    }

    /// Returns the piece with the text's byte at this position.
    pub(super) fn piece_at(&self, position: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= position)
    }
}

/// Returns where the number of a line with a sample begins.
fn number_start(line: &[u8]) -> Option<usize> {
    let mut quoted = false;
    let mut labels = false;
    let mut bytes = line.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if quoted => drop(bytes.next()),
            b'"' => quoted = !quoted,
            b'{' if !quoted => labels = true,
            b'}' if !quoted => labels = false,
            b' ' if !quoted && !labels => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_left_out() {
        let page = b"# TYPE a gauge\na 12\n\na{b=\"}\\\" \"} -1.5e+06 1700\n# EOF\n";
        let skeleton = Skeleton::read(page).unwrap();
        let pieces: Vec<&[u8]> = (0..skeleton.ends.len())
            .map(|at| &skeleton.text[skeleton.piece(at)])
            .collect();
        let expected: [&[u8]; 3] = [b"# TYPE a gauge\na ", b"\n\na{b=\"}\\\" \"} ", b"\n# EOF\n"];
        assert_eq!(pieces, expected);
        assert_eq!(skeleton.piece_at(0), 0);
        assert_eq!(skeleton.piece_at(17), 1);
    }

    #[test]
    fn other_lines_are_refused() {
        for page in [
            &b"a 1 # {b=\"c\"} 1\n"[..],
            b"a\n",
            b"a{b=\"c} 1\n",
            b"{\"a\": 1}\n",
        ] {
            assert_eq!(Skeleton::read(page), None);
        }
        let empty = Skeleton::read(b"").unwrap();
        assert_eq!((empty.text.len(), &empty.ends[..]), (0, &[0][..]));
        let cut = Skeleton::read(b"a 1").unwrap();
        assert_eq!((&cut.text[..], &cut.ends[..]), (&b"a "[..], &[2, 2][..]));
    }
}
