//! Prefix codes of deflate (RFC 1951, 3.2), and the writer of their bits.
//!
//! **Invariant:** codes are those that follow from their lengths, and lengths are within deflate's limits.

/// Lengths of codes of literals, repetitions and distances.
const LONGEST: usize = 15;
/// Lengths of the codes that lengths are written in.
const LONGEST_OF_LENGTHS: usize = 7;
/// The order in which the latter are written.
const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// Bits to write, the first one lowest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) bits: u64,
    pub(crate) count: u32,
}

impl Bits {
    /// The most that a writer takes at once: the last byte may be begun.
    pub(crate) const MOST: u32 = 56;

    /// Returns these bits followed by others; together they must be no more than [`Self::MOST`].
    #[inline]
    pub(crate) fn then(self, next: Self) -> Self {
        Self {
            bits: self.bits | next.bits << self.count,
            count: self.count + next.count,
        }
    }
}

/// Writes bits into room of a fixed size.
pub(crate) struct BitWriter<'a> {
    room: &'a mut [u8],
    at: usize,
    begun: Bits,
}

impl<'a> BitWriter<'a> {
    /// Returns a writer that goes on after `at` bytes and some bits.
    #[inline]
    pub(crate) fn new(room: &'a mut [u8], at: usize, begun: Bits) -> Self {
        Self { room, at, begun }
    }

    /// Writes at most [`Bits::MOST`] bits; `None` if there is no room.
    #[inline]
    pub(crate) fn write(&mut self, bits: Bits) -> Option<()> {
        let all = self.begun.then(bits);
        let room = self.room.get_mut(self.at..self.at + 8)?;
        room.copy_from_slice(&all.bits.to_le_bytes());
        let whole = all.count / 8;
        self.at += whole as usize;
        self.begun = Bits {
            bits: all.bits >> (whole * 8),
            count: all.count % 8,
        };
        Some(())
    }

    /// Returns how many whole bytes are written, and the bits after them.
    #[inline]
    pub(crate) fn end(self) -> (usize, Bits) {
        (self.at, self.begun)
    }
}

/// Returns the codes of an alphabet by how often its symbols occur; those that don't have none.
pub(crate) fn codes(counts: &[u32]) -> Vec<Bits> {
    of_lengths(&lengths(counts, LONGEST))
}

/// Writes the beginning of a last block with these codes.
pub(crate) fn write_block_start(
    literals: &[Bits],
    distances: &[Bits],
    out: &mut BitWriter<'_>,
) -> Option<()> {
    let all: Vec<u8> = [literals, distances]
        .concat()
        .iter()
        .map(|code| code.count as u8)
        .collect();
    let runs = runs(&all);
    let mut counts = [0; ORDER.len()];
    for (symbol, _) in &runs {
        counts[*symbol] += 1;
    }
    let code = of_lengths(&lengths(&counts, LONGEST_OF_LENGTHS));
    let written = ORDER.iter().rposition(|symbol| code[*symbol].count > 0);
    let written = written.map_or(0, |last| last + 1).max(4);
    let bits = |bits: usize, count| Bits {
        bits: bits as u64,
        count,
    };
    // The last block, with codes of its own.
    out.write(bits(0b101, 3))?;
    out.write(bits(literals.len() - 257, 5))?;
    out.write(bits(distances.len() - 1, 5))?;
    out.write(bits(written - 4, 4))?;
    for symbol in &ORDER[..written] {
        out.write(bits(code[*symbol].count as usize, 3))?;
    }
    for (symbol, repeats) in runs {
        out.write(code[symbol].then(repeats))?;
    }
    Some(())
}

/// Returns the lengths of a code that is shortest among those without longer lengths (package-merge).
fn lengths(counts: &[u32], longest: usize) -> Vec<u8> {
    let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let mut leaves: Vec<(u64, usize)> = used
        .map(|(symbol, count)| (u64::from(*count), symbol))
        .collect();
    leaves.sort_unstable();
    // Each row has the leaves and pairs of the row before, by weight; a row tells the leaves from the pairs.
    let mut rows = vec![vec![true; leaves.len()]];
    let mut weights: Vec<u64> = leaves.iter().map(|(count, _)| *count).collect();
    for _ in 1..longest {
        let pairs = weights.chunks_exact(2).map(|pair| pair[0] + pair[1]);
        let mut row: Vec<(u64, bool)> = pairs.map(|weight| (weight, false)).collect();
        row.extend(leaves.iter().map(|(count, _)| (*count, true)));
        row.sort_by_key(|(weight, _)| *weight);
        weights = row.iter().map(|(weight, _)| *weight).collect();
        rows.push(row.into_iter().map(|(_, is_leaf)| is_leaf).collect());
    }
    let mut lengths = vec![0; counts.len()];
    // A single symbol takes a bit too.
    let mut taken = (2 * leaves.len()).saturating_sub(2).max(1);
    for row in rows.iter().rev() {
        let of_leaves = row.iter().take(taken).filter(|is_leaf| **is_leaf).count();
        for (_, symbol) in leaves.iter().take(of_leaves) {
            lengths[*symbol] += 1;
        }
        taken = 2 * (taken.min(row.len()) - of_leaves);
    }
    lengths
}

/// Returns the codes with these lengths, first bit lowest.
fn of_lengths(lengths: &[u8]) -> Vec<Bits> {
    let mut next = 0_u16;
    let mut codes = vec![Bits::default(); lengths.len()];
    for length in 1..=LONGEST as u8 {
        next <<= 1;
        for (code, _) in codes
            .iter_mut()
            .zip(lengths)
            .filter(|(_, own)| **own == length)
        {
            *code = Bits {
                bits: u64::from(next.reverse_bits() >> (16 - length)),
                count: u32::from(length),
            };
            next += 1;
        }
    }
    codes
}

/// Returns lengths as symbols, repeated ones together, each with the bits that say how often.
fn runs(lengths: &[u8]) -> Vec<(usize, Bits)> {
    /// Symbols that repeat: fewest, most, and bits of their count.
    const OF_NONE: &[(usize, usize, usize, u32)] = &[(18, 11, 138, 7), (17, 3, 10, 3)];
    const OF_LAST: &[(usize, usize, usize, u32)] = &[(16, 3, 6, 2)];
    let mut runs = Vec::new();
    for run in lengths.chunk_by(|one, other| one == other) {
        let (length, mut rest) = (usize::from(run[0]), run.len());
        let mut kinds = OF_NONE;
        if length > 0 {
            runs.push((length, Bits::default()));
            rest -= 1;
            kinds = OF_LAST;
        }
        while let Some((symbol, fewest, most, count)) =
            kinds.iter().find(|(_, fewest, _, _)| rest >= *fewest)
        {
            let repeats = rest.min(*most);
            let bits = Bits {
                bits: (repeats - fewest) as u64,
                count: *count,
            };
            runs.push((*symbol, bits));
            rest -= repeats;
        }
        runs.extend((0..rest).map(|_| (length, Bits::default())));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of RFC 1951, 3.2.2.
    #[test]
    fn codes_follow_from_lengths() {
        let codes = of_lengths(&[3, 3, 3, 3, 3, 2, 4, 4]);
        let shown: Vec<String> = codes
            .iter()
            .map(|code| {
                let bits = (0..code.count).map(|at| char::from(b'0' + (code.bits >> at & 1) as u8));
                bits.collect()
            })
            .collect();
        assert_eq!(
            shown,
            ["010", "011", "100", "101", "110", "00", "1110", "1111"]
        );
    }

    #[test]
    fn lengths_are_optimal_within_their_limit() {
        assert_eq!(lengths(&[8, 0, 4, 2, 1, 1], 15), [1, 0, 2, 3, 4, 4]);
        assert_eq!(lengths(&[8, 0, 4, 2, 1, 1], 3), [1, 0, 3, 3, 3, 3]);
        assert_eq!(lengths(&[0, 7], 15), [0, 1]);
        assert_eq!(lengths(&[0, 0], 15), [0, 0]);
        // Without a limit, the rarest of these would have 29 bits.
        let doubled: Vec<u32> = (0..30).map(|at| 1 << at).collect();
        let limited = lengths(&doubled, LONGEST);
        let room: f64 = limited
            .iter()
            .map(|length| 0.5_f64.powi(i32::from(*length)))
            .sum();
        assert!(limited.iter().all(|length| (1..=15).contains(length)));
        assert_eq!(room, 1.0);
    }

    #[test]
    fn runs_say_each_length() {
        let lengths = [&[0; 150][..], &[5; 9], &[0; 2], &[7], &[0; 10], &[6; 3]].concat();
        let mut said: Vec<u8> = Vec::new();
        for (symbol, bits) in runs(&lengths) {
            let count = bits.bits as usize;
            let (length, times) = match symbol {
                16 => (*said.last().unwrap(), count + 3),
                17 => (0, count + 3),
                18 => (0, count + 11),
                one => (one as u8, 1),
            };
            said.extend(std::iter::repeat_n(length, times));
        }
        assert_eq!(said, lengths);
        assert_eq!(runs(&lengths).len(), 13);
    }

    #[test]
    fn a_full_room_is_reported() {
        let mut room = [0; 9];
        let mut out = BitWriter::new(&mut room, 0, Bits::default());
        let bits = Bits {
            bits: (1 << 9) - 1,
            count: 9,
        };
        assert!(out.write(bits).is_some());
        assert!(out.write(bits).is_some());
        assert!(out.write(bits).is_none());
    }
}
