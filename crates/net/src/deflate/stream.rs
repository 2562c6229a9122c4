//! A gzip member of text whose author knows what it repeats.
//!
//! A page of many sources has the same lines from source to source, with other values of some labels and other numbers.
//! Whoever writes such a page knows where the like of a line was; comparing with that place is a fraction of what
//! searching for it costs. The codes are made from the first part of the text.
//!
//! **Invariant:** what is returned decompresses to the text, whatever the hints: a repetition is written for bytes that
//! were compared.

use super::code::{self, BitWriter, Bits};
use super::symbols::{
    DISTANCES, END, FARTHEST, HEAD, LITERALS, LONGEST, distance, distance_symbol, length_symbol,
};

/// Text that is kept beside what may be repeated: until it is this long, nothing is moved.
const FRESH_BYTES: usize = 192 << 10;
/// Shorter repetitions are written as they are: a distance takes as many bits.
const SHORTEST: usize = 4;
/// Tokens from which the codes are made.
const SAMPLE: usize = 16 << 10;
/// Least room for tokens: the head of a block is shorter.
const ROOM_BYTES: usize = 1 << 10;

/// Compresses text as it comes.
pub struct GzipStream {
    /// The text that may still be repeated, then what has come since.
    window: Vec<u8>,
    /// Position in the text of the window's first byte.
    base: u64,
    /// The window up to here is in tokens.
    coded: usize,
    /// The last repetition, which becomes longer while the text goes on alike; its distance is 0 if there is none.
    open: Repeat,
    /// The window up to here is in the checksum.
    summed: usize,
    crc: libdeflater::Crc,
    tokens: Tokens,
}

#[derive(Debug, Clone, Copy, Default)]
struct Repeat {
    start: usize,
    end: usize,
    distance: usize,
}

impl GzipStream {
    /// The longest distance of a repetition, in bytes.
    pub const FARTHEST: usize = FARTHEST;

    /// Begins a member.
    #[must_use]
    pub fn new() -> Self {
        Self {
            window: Vec::with_capacity(FARTHEST + FRESH_BYTES + FRESH_BYTES / 4),
            base: 0,
            coded: 0,
            open: Repeat::default(),
            summed: 0,
            crc: libdeflater::Crc::new(),
            tokens: Tokens::Sample(Vec::with_capacity(SAMPLE)),
        }
    }

    /// Returns the number of bytes appended so far.
    #[must_use]
    #[inline]
    pub fn position(&self) -> u64 {
        self.base + self.window.len() as u64
    }

    /// Appends what `write` does.
    #[inline]
    pub fn append_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let from = self.window.len();
        write(&mut self.window);
        self.go_on(from);
        self.make_room();
    }

    /// Appends text that is probably like what begins at the position `before`.
    #[inline]
    pub fn append_like(&mut self, text: &[u8], before: u64) {
        let from = self.window.len();
        self.window.extend_from_slice(text);
        self.go_on(from);
        self.compare(from, before);
        self.make_room();
    }

    /// Makes the open repetition longer if the text goes on alike.
    #[inline]
    fn go_on(&mut self, from: usize) {
        let Repeat { end, distance, .. } = self.open;
        if distance > 0 && end == from {
            self.open.end += common(&self.window, from, from - distance);
        }
    }

    /// Compares the text from here on with what is at a position.
    #[inline]
    fn compare(&mut self, from: usize, before: u64) {
        let distance = (self.base + from as u64).saturating_sub(before);
        let distance = usize::try_from(distance).unwrap_or(usize::MAX);
        let is_known = distance == self.open.distance && self.open.end > from;
        if !(1..=FARTHEST.min(from)).contains(&distance) || is_known {
            return;
        }
        let end = from + common(&self.window, from, from - distance);
        let mut start = from.max(self.open.end);
        if end <= start {
            return;
        }
        // The text before it may be alike too, as far as it is not in tokens.
        let least = self.open.end.max(self.coded);
        while start > least.max(distance)
            && self.window[start - 1] == self.window[start - 1 - distance]
        {
            start -= 1;
        }
        if end - start < SHORTEST {
            return;
        }
        self.close();
        self.open = Repeat {
            start,
            end,
            distance,
        };
    }

    /// Codes the open repetition and what is before it.
    #[inline]
    fn close(&mut self) {
        let Repeat {
            start,
            end,
            distance,
        } = std::mem::take(&mut self.open);
        if distance > 0 {
            let literals = &self.window[self.coded..start];
            self.tokens
                .push(literals, (end - start) as u32, distance as u32);
            self.coded = end;
        }
    }

    /// Forgets the text that is too far away once there is much of it.
    #[inline]
    fn make_room(&mut self) {
        if self.window.len() >= FARTHEST + FRESH_BYTES {
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.code_all();
        let gone = self.window.len() - FARTHEST;
        self.window.copy_within(gone.., 0);
        self.window.truncate(FARTHEST);
        self.base += gone as u64;
        (self.coded, self.summed) = (FARTHEST, FARTHEST);
        self.open = Repeat::default();
    }

    fn code_all(&mut self) {
        self.close();
        self.tokens.push(&self.window[self.coded..], 0, 0);
        self.coded = self.window.len();
        self.crc.update(&self.window[self.summed..]);
        self.summed = self.window.len();
    }

    /// Returns how many bytes [`take`](Self::take) would return.
    #[must_use]
    pub fn ready_bytes(&self) -> usize {
        match &self.tokens {
            Tokens::Sample(_) => 0,
            Tokens::Coded(coder) => coder.at,
        }
    }

    /// Returns what is compressed, and forgets it.
    #[must_use]
    pub fn take_output(&mut self) -> Vec<u8> {
        match &mut self.tokens {
            Tokens::Sample(_) => Vec::new(),
            Tokens::Coded(coder) => coder.take_output(),
        }
    }

    /// Ends the member; returns what was not taken of it.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.code_all();
        let mut coder = match self.tokens {
            Tokens::Sample(sample) => Coder::new(&sample),
            Tokens::Coded(coder) => coder,
        };
        coder.write_bits(coder.literals[END]);
        let mut out = coder.end();
        out.extend_from_slice(&self.crc.sum().to_le_bytes());
        let length = self.base + self.window.len() as u64;
        out.extend_from_slice(&(length as u32).to_le_bytes());
        out
    }
}

impl Default for GzipStream {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for GzipStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GzipStream")
            .field("position", &self.position())
            .field("ready_bytes", &self.ready_bytes())
            .finish_non_exhaustive()
    }
}

/// Returns for how many bytes a text is the same from two places on.
#[inline]
fn common(text: &[u8], from: usize, other: usize) -> usize {
    let (one, other) = (&text[from..], &text[other..]);
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let mut at = 0;
    for (one, other) in words {
        let different = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if different != 0 {
            return at + different.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = one[at..].iter().zip(&other[at..]);
    at + rest.take_while(|(one, other)| one == other).count()
}

/// A byte, or a repetition: its length above its distance.
type Token = u32;

/// Distances take less than this many bits.
const DISTANCE_BITS: u32 = 16;

#[derive(Debug)]
enum Tokens {
    /// The first tokens.
    Sample(Vec<Token>),
    Coded(Box<Coder>),
}

impl Tokens {
    /// Codes bytes, and a repetition behind them unless its length is 0.
    #[inline]
    fn push(&mut self, literals: &[u8], length: u32, distance: u32) {
        match self {
            Self::Coded(coder) => coder.write_tokens(literals, length, distance),
            Self::Sample(_) => self.sample(literals, length, distance),
        }
    }

    #[cold]
    fn sample(&mut self, literals: &[u8], mut length: u32, distance: u32) {
        let Self::Sample(sample) = self else { return };
        sample.extend(literals.iter().map(|byte| u32::from(*byte)));
        while length > 0 {
            let part = part_of(length);
            sample.push(part << DISTANCE_BITS | distance);
            length -= part;
        }
        if sample.len() >= SAMPLE {
            *self = Self::Coded(Coder::new(sample));
        }
    }
}

/// Returns how much of a long repetition is named at once: what is left is not too short to be one.
#[inline]
fn part_of(length: u32) -> u32 {
    let most = LONGEST as u32;
    if length <= most {
        length
    } else {
        most.min(length - SHORTEST as u32)
    }
}

/// Writes tokens as bits.
#[derive(Debug)]
struct Coder {
    literals: Vec<Bits>,
    /// Codes of lengths, with the bits behind them.
    lengths: Vec<Bits>,
    distances: Vec<Bits>,
    room: Vec<u8>,
    at: usize,
    begun: Bits,
}

impl Coder {
    /// Makes codes from the first tokens, and writes these.
    fn new(sample: &[Token]) -> Box<Self> {
        // Everything may occur later.
        let (mut literals, mut distances) = (vec![1; LITERALS], vec![1; DISTANCES]);
        for token in sample {
            let (length, distance) = (token >> DISTANCE_BITS, token & ((1 << DISTANCE_BITS) - 1));
            if length == 0 {
                literals[*token as usize] += WEIGHT;
            } else {
                literals[length_symbol(length).0] += WEIGHT;
                distances[distance_symbol(distance).0] += WEIGHT;
            }
        }
        let literals = code::codes(&literals);
        let lengths = (0..=LONGEST as u32).map(|length| match length {
            0..3 => Bits::default(),
            _ => {
                let (symbol, more) = length_symbol(length);
                literals[symbol].then(more)
            }
        });
        let mut coder = Box::new(Self {
            lengths: lengths.collect(),
            distances: code::codes(&distances),
            literals,
            room: HEAD.to_vec(),
            at: HEAD.len(),
            begun: Bits::default(),
        });
        coder.room.resize(HEAD.len() + ROOM_BYTES, 0);
        let mut out = BitWriter::new(&mut coder.room, coder.at, coder.begun);
        code::write_block_start(&coder.literals, &coder.distances, &mut out)
            .expect("a kilobyte is enough");
        (coder.at, coder.begun) = out.end();
        for token in sample {
            let (length, distance) = (token >> DISTANCE_BITS, token & ((1 << DISTANCE_BITS) - 1));
            if length == 0 {
                coder.write_bits(coder.literals[*token as usize]);
            } else {
                coder.write_tokens(&[], length, distance);
            }
        }
        coder
    }

    /// Makes room for this many bits.
    #[inline]
    fn reserve(&mut self, bits: usize) {
        let bytes = bits / 8 + 16;
        if self.room.len() - self.at < bytes {
            let more = self.room.len().max(bytes).max(ROOM_BYTES);
            self.room.resize(self.room.len() + more, 0);
        }
    }

    fn write_bits(&mut self, bits: Bits) {
        self.reserve(Bits::MOST as usize);
        let mut out = BitWriter::new(&mut self.room, self.at, self.begun);
        let _ = out.write(bits);
        (self.at, self.begun) = out.end();
    }

    /// Writes bytes, and a repetition behind them unless its length is 0.
    #[inline]
    fn write_tokens(&mut self, bytes: &[u8], mut length: u32, far: u32) {
        // No code takes more than 15 bits, and no repetition more than 48.
        self.reserve(16 * bytes.len() + 48 * (1 + length as usize / LONGEST * 2));
        let mut out = BitWriter::new(&mut self.room, self.at, self.begun);
        let (threes, rest) = bytes.as_chunks::<3>();
        for three in threes {
            let [one, two, three] = three.map(|byte| self.literals[usize::from(byte)]);
            let _ = out.write(one.then(two).then(three));
        }
        for byte in rest {
            let _ = out.write(self.literals[usize::from(*byte)]);
        }
        if length > 0 {
            let far = distance(&self.distances, far);
            while length > LONGEST as u32 {
                let part = part_of(length);
                let _ = out.write(self.lengths[part as usize].then(far));
                length -= part;
            }
            let _ = out.write(self.lengths[length as usize].then(far));
        }
        (self.at, self.begun) = out.end();
    }

    fn take_output(&mut self) -> Vec<u8> {
        let taken = self.room[..self.at].to_vec();
        self.at = 0;
        taken
    }

    /// Fills the last byte.
    fn end(&mut self) -> Vec<u8> {
        self.write_bits(Bits { bits: 0, count: 7 });
        self.take_output()
    }
}

/// How much more a symbol that occurred counts than one that did not.
const WEIGHT: u32 = 16;

#[cfg(test)]
mod tests;
