//! Recorded scrapes of one target as a file: blocks of rounds, each a difference to the round before.
//!
//! Bytes: [docs/format/scrapes.md](../../../../docs/format/scrapes.md). **Invariant:** what was put in comes back byte
//! for byte and in order; every byte is under a checksum that is compared before the byte is used, and whatever is
//! wrong is said with its offset in the file.

use super::delta::{Damage, DeltaReader, DeltaWriter, Place, Streams, push, varint};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    sync::Arc,
};

/// What every file begins with.
const MAGIC: &[u8; 8] = b"NRTHXSCR";
const VERSION: u32 = 1;
/// Magic, version, length of the description.
const HEAD: usize = 16;
/// Six numbers and a checksum.
const BLOCK_HEAD: usize = 28;
/// Rounds of a block: more compress better, and are lost together when a recording is killed.
const ROUNDS: u32 = 64;
/// A block is closed when its streams are this long.
const FULL: usize = 4 << 20;
/// Longest streams of a block, which one round may go beyond `FULL`.
const LONGEST: usize = 256 << 20;
/// Longest description.
const LONGEST_HEAD: usize = 1 << 16;
/// As small as zstd gets within its usual memory; a block a quarter of an hour has time for it.
const LEVEL: i32 = 19;

/// What a file says about its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) interval_ms: u64,
}

/// One scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round<'a> {
    /// When it was asked for, since the epoch.
    pub(crate) at_ms: i64,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) offset: usize,
    pub(crate) what: &'static str,
}

/// Writes a file.
#[derive(Debug)]
pub(crate) struct CorpusWriter<W> {
    out: W,
    delta: DeltaWriter,
    block: Block,
    rounds: u32,
    state: State,
}

/// What rounds are told relative to.
#[derive(Debug, Default, Clone)]
struct State {
    at_ms: i64,
    step_ms: i64,
    content_type: String,
}

#[derive(Debug, Default)]
struct Block {
    rounds: u32,
    times: Vec<u8>,
    streams: Streams,
}

impl<W: Write> CorpusWriter<W> {
    /// Writes the head.
    pub(crate) fn new(mut out: W, about: &About) -> io::Result<Self> {
        let text = json!({"name": about.name, "interval_ms": about.interval_ms}).to_string();
        let mut head = Vec::with_capacity(HEAD + text.len() + 4);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&length(text.len())?.to_le_bytes());
        head.extend_from_slice(text.as_bytes());
        head.extend_from_slice(&crc(&[&head]).to_le_bytes());
        out.write_all(&head)?;
        Ok(Self {
            out,
            delta: DeltaWriter::default(),
            block: Block::default(),
            rounds: 0,
            state: State::default(),
        })
    }

    /// Appends a round.
    pub(crate) fn push(&mut self, round: Round<'_>) -> io::Result<()> {
        let state = &mut self.state;
        let step = round.at_ms.wrapping_sub(state.at_ms);
        let change = step.wrapping_sub(state.step_ms);
        let times = &mut self.block.times;
        push(((change << 1) ^ (change >> 63)).cast_unsigned(), times);
        if state.content_type == round.content_type {
            push(0, times);
        } else {
            push(round.content_type.len() as u64 + 1, times);
            times.extend_from_slice(round.content_type.as_bytes());
            round.content_type.clone_into(&mut state.content_type);
        }
        (state.at_ms, state.step_ms) = (round.at_ms, step);
        self.delta.write(round.body, &mut self.block.streams);
        self.block.rounds += 1;
        self.rounds += 1;
        if self.block.rounds == ROUNDS || self.block.len() >= FULL {
            self.close_block()?;
        }
        Ok(())
    }

    /// Writes what is left and the end; returns what was written to.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if self.block.rounds > 0 {
            self.close_block()?;
        }
        self.write_block([0, self.rounds, 0, 0, 0, 0], &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn close_block(&mut self) -> io::Result<()> {
        let block = std::mem::take(&mut self.block);
        if block.len() > LONGEST {
            return Err(io::Error::other("a round is too long to be recorded"));
        }
        let parts = block.parts();
        let packed = zstd::bulk::compress(&parts.concat(), LEVEL)?;
        let [times, ops, numbers, texts] = parts.map(|part| length(part.len()));
        let head = [
            length(packed.len())?,
            block.rounds,
            times?,
            ops?,
            numbers?,
            texts?,
        ];
        self.write_block(head, &packed)?;
        self.out.flush()
    }

    fn write_block(&mut self, head: [u32; 6], packed: &[u8]) -> io::Result<()> {
        let head: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
        self.out.write_all(&head)?;
        self.out.write_all(&crc(&[&head, packed]).to_le_bytes())?;
        self.out.write_all(packed)
    }
}

impl Block {
    fn parts(&self) -> [&[u8]; 4] {
        let Streams {
            ops,
            numbers,
            texts,
        } = &self.streams;
        [&self.times, ops, numbers, texts]
    }

    fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }
}

/// A file in memory, whose checksums have been compared.
#[derive(Debug)]
pub(crate) struct Corpus {
    bytes: Vec<u8>,
    about: About,
    /// Where the first block begins.
    blocks: usize,
    rounds: u32,
    is_whole: bool,
}

impl Corpus {
    /// Checks a file from beginning to end.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, Broken> {
        let (about, blocks) = parse_head(&bytes)?;
        let (mut at, mut rounds, mut is_whole) = (blocks, 0_u32, false);
        while at < bytes.len() {
            let head = BlockHead::parse(&bytes, at)?;
            if head.is_end() {
                if head.rounds != rounds {
                    return Err(broken(at, "the end counts other rounds than there are"));
                }
                is_whole = true;
                at += BLOCK_HEAD;
                if at < bytes.len() {
                    return Err(broken(at, "bytes behind the end"));
                }
                break;
            }
            rounds += head.rounds;
            at = head.packed.end;
        }
        Ok(Self {
            bytes,
            about,
            blocks,
            rounds,
            is_whole,
        })
    }

    /// Returns what the file says about its target.
    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    /// Returns the number of rounds.
    pub(crate) fn len(&self) -> usize {
        self.rounds as usize
    }

    /// Returns whether the recording came to its end.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the rounds from the first on.
    pub(crate) fn rounds(self: &Arc<Self>) -> Rounds {
        Rounds {
            corpus: Arc::clone(self),
            next_block: self.blocks,
            block_at: self.blocks,
            block: Block::default(),
            times_at: 0,
            place: Place::default(),
            delta: DeltaReader::default(),
            state: State::default(),
        }
    }
}

/// Reads a corpus round by round.
#[derive(Debug)]
pub(crate) struct Rounds {
    corpus: Arc<Corpus>,
    next_block: usize,
    block_at: usize,
    block: Block,
    times_at: usize,
    place: Place,
    delta: DeltaReader,
    state: State,
}

impl Rounds {
    /// Returns the next round, nothing behind the last one.
    pub(crate) fn next(&mut self) -> Result<Option<Round<'_>>, Broken> {
        if self.block.rounds == 0 && !self.open_block()? {
            return Ok(None);
        }
        let damaged = |what| broken(self.block_at, what);
        let (times, at) = (&self.block.times, &mut self.times_at);
        let change = varint(times, at).ok_or(damaged("a block's times end early"))?;
        let change = (change >> 1).cast_signed() ^ -(change & 1).cast_signed();
        let state = &mut self.state;
        state.step_ms = state.step_ms.wrapping_add(change);
        state.at_ms = state.at_ms.wrapping_add(state.step_ms);
        let length = varint(times, at).ok_or(damaged("a block's times end early"))?;
        if let Some(length) = length.checked_sub(1) {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let rest = times.get(*at..).unwrap_or_default();
            let text = rest.get(..length).map(str::from_utf8);
            let Some(Ok(text)) = text else {
                return Err(damaged("a content type is cut off or no text"));
            };
            text.clone_into(&mut state.content_type);
            *at += length;
        }
        self.block.rounds -= 1;
        let is_last = self.block.rounds == 0;
        let (streams, place) = (&self.block.streams, &mut self.place);
        let body = self.delta.read(streams, place).map_err(|damage| {
            let what = match damage {
                Damage::Short(_) => "a stream of a block ends early",
                Damage::Operation(_) => "a block has an impossible operation",
            };
            broken(self.block_at, what)
        })?;
        let left = [
            times.len() - *at,
            streams.ops.len() - place.ops,
            streams.numbers.len() - place.numbers,
            streams.texts.len() - place.texts,
        ];
        if is_last && left != [0; 4] {
            return Err(broken(self.block_at, "a block has more than its rounds"));
        }
        Ok(Some(Round {
            at_ms: state.at_ms,
            content_type: &state.content_type,
            body,
        }))
    }

    /// Unpacks the next block; returns whether there is one.
    fn open_block(&mut self) -> Result<bool, Broken> {
        let bytes = &self.corpus.bytes;
        if self.next_block >= bytes.len() {
            return Ok(false);
        }
        let head = BlockHead::parse(bytes, self.next_block)?;
        if head.is_end() {
            return Ok(false);
        }
        self.block_at = self.next_block;
        let length: usize = head.lengths.iter().sum();
        let packed = bytes.get(head.packed.clone()).unwrap_or_default();
        let parts = zstd::bulk::decompress(packed, length)
            .ok()
            .filter(|parts| parts.len() == length)
            .ok_or(broken(self.block_at, "a block cannot be unpacked"))?;
        let [times, ops, numbers, texts] = head.lengths;
        let mut rest = parts.as_slice();
        let mut take = |length: usize| {
            let (part, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            part.to_vec()
        };
        self.block = Block {
            rounds: head.rounds,
            times: take(times),
            streams: Streams {
                ops: take(ops),
                numbers: take(numbers),
                texts: take(texts),
            },
        };
        (self.times_at, self.place) = (0, Place::default());
        self.next_block = head.packed.end;
        Ok(true)
    }
}

struct BlockHead {
    rounds: u32,
    /// Of times, operations, numbers and texts.
    lengths: [usize; 4],
    packed: std::ops::Range<usize>,
}

impl BlockHead {
    /// Reads the head at `at` and compares the block's checksum.
    fn parse(bytes: &[u8], at: usize) -> Result<Self, Broken> {
        let rest = bytes.get(at..).unwrap_or_default();
        let head = rest
            .get(..BLOCK_HEAD)
            .ok_or(broken(at, "the file ends inside a block"))?;
        let [packed, rounds, times, ops, numbers, texts, crc_then] =
            std::array::from_fn(|field| number(head, field * 4));
        let start = at + BLOCK_HEAD;
        let end = start + packed as usize;
        let body = bytes
            .get(start..end)
            .ok_or(broken(at, "the file ends inside a block"))?;
        if crc(&[&head[..BLOCK_HEAD - 4], body]) != crc_then {
            return Err(broken(at, "a block's checksum is wrong"));
        }
        let lengths = [times, ops, numbers, texts].map(|length| length as usize);
        let is_possible = lengths.iter().sum::<usize>() <= LONGEST && rounds <= ROUNDS;
        if packed != 0 && (!is_possible || rounds == 0) {
            return Err(broken(at, "a block's head is impossible"));
        }
        Ok(Self {
            rounds,
            lengths,
            packed: start..end,
        })
    }

    fn is_end(&self) -> bool {
        self.packed.is_empty()
    }
}

fn parse_head(bytes: &[u8]) -> Result<(About, usize), Broken> {
    if bytes.get(..8) != Some(MAGIC) {
        return Err(broken(
            0,
            "no recorded scrapes: the file does not begin with NRTHXSCR",
        ));
    }
    let head = bytes
        .get(..HEAD)
        .ok_or(broken(8, "the file ends inside its head"))?;
    if number(head, 8) != VERSION {
        return Err(broken(8, "of a version this program does not know"));
    }
    let length = number(head, 12) as usize;
    if length > LONGEST_HEAD {
        return Err(broken(12, "an impossible length of the description"));
    }
    let end = HEAD + length;
    let checked = bytes
        .get(..end + 4)
        .ok_or(broken(12, "the file ends inside its head"))?;
    if crc(&[&checked[..end]]) != number(checked, end) {
        return Err(broken(end, "the head's checksum is wrong"));
    }
    let about = serde_json::from_slice(&checked[HEAD..end]).unwrap_or(Value::Null);
    let (name, interval_ms) = (about["name"].as_str(), about["interval_ms"].as_u64());
    let (Some(name), Some(interval_ms @ 1..)) = (name, interval_ms) else {
        return Err(broken(HEAD, "the description has no name or no interval"));
    };
    let name = name.to_owned();
    Ok((About { name, interval_ms }, end + 4))
}

fn broken(offset: usize, what: &'static str) -> Broken {
    Broken { offset, what }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn length(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(io::Error::other)
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

/// Reads `data` as a file, to its end or to what is wrong.
#[cfg(test)]
pub(crate) fn try_corpus(data: &[u8]) {
    let Ok(corpus) = Corpus::parse(data.to_vec()) else {
        return;
    };
    let mut rounds = Arc::new(corpus).rounds();
    while let Ok(Some(round)) = rounds.next() {
        assert!(
            round.body.len() <= data.len().max(1) << 20,
            "a body grew out of nothing"
        );
    }
}

#[cfg(test)]
mod tests;
