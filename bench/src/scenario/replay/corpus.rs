//! Recorded scrapes of one target as a file: lines of JSON in one zstd frame whose window spans them all.
//!
//! Blocks of rounds are transposed before compression: each line of the text once, without its last word, followed by
//! all its last words. Bytes: [docs/format/scrapes.md](../../../../docs/format/scrapes.md).
//! **Invariant:** rounds come back byte for byte and in order; a file has been read to its end, and so to its checksum,
//! before its first round is used.

use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Cursor, ErrorKind, Read, Write},
    sync::Arc,
};
use zstd::stream::{read::Decoder, write::Encoder};

/// The version of the format.
const FORMAT: u32 = 2;
/// Rounds per block: more compress better, but are lost together if a recording is killed.
const ROUNDS: usize = 240;
/// Bytes of values at which a block is closed.
const FULL_BYTES: usize = 64 << 20;
/// Maximum length of a file's line, and of a body.
const LONGEST: usize = 1 << 30;
/// Window of 128 MiB: a block can refer to the ones before.
const WINDOW_LOG: u32 = 27;
/// The smallest output within zstd's usual memory; a block per hour leaves enough time.
const LEVEL: i32 = 19;

/// A file's description of its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    format: u32,
    pub(crate) name: String,
    pub(crate) interval_ms: u64,
}

impl About {
    /// Describes a target that is recorded in the present format.
    pub(crate) fn new(name: &str, interval_ms: u64) -> Self {
        Self {
            format: FORMAT,
            name: name.to_owned(),
            interval_ms,
        }
    }
}

/// One scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round<'a> {
    /// When it was requested, in milliseconds since the epoch.
    pub(crate) at_ms: i64,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a str,
}

/// One line of a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    About(About),
    Block(Block),
    /// Total number of rounds.
    End(usize),
}

/// A transposed block of rounds.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    /// Time, content type, and the order of lines: each key's distance from the successor of the previous key; `None`
    /// if that is as in the previous round.
    rounds: Vec<(i64, String, Option<Vec<i64>>)>,
    /// Lines without their last word.
    keys: Vec<String>,
    /// The last words of each key, each followed by a line feed.
    values: Vec<String>,
}

/// Writes a file.
pub(crate) struct CorpusWriter<W: Write> {
    out: Encoder<'static, W>,
    block: Block,
    /// Index of each line's key.
    places: HashMap<String, usize>,
    order: Vec<i64>,
    block_bytes: usize,
    rounds: usize,
}

impl<W: Write> CorpusWriter<W> {
    /// Writes the first line.
    pub(crate) fn new(out: W, about: &About) -> std::io::Result<Self> {
        let mut out = Encoder::new(out, LEVEL)?;
        out.include_checksum(true)?;
        out.long_distance_matching(true)?;
        out.window_log(WINDOW_LOG)?;
        let mut writer = Self {
            out,
            block: Block::default(),
            places: HashMap::new(),
            order: Vec::new(),
            block_bytes: 0,
            rounds: 0,
        };
        writer.write(&Line::About(about.clone()))?;
        Ok(writer)
    }

    /// Appends a round.
    pub(crate) fn push(&mut self, round: Round<'_>) -> std::io::Result<()> {
        let Block {
            rounds,
            keys,
            values,
        } = &mut self.block;
        let (mut order, mut expected) = (Vec::with_capacity(self.order.len()), 0);
        for line in round.body.split('\n') {
            let (key, word) = line.split_at(line.rfind(' ').map_or(0, |at| at + 1));
            let place = self.places.get(key).copied().unwrap_or_else(|| {
                self.places.insert(key.to_owned(), keys.len());
                keys.push(key.to_owned());
                values.push(String::new());
                keys.len() - 1
            });
            values[place].push_str(word);
            values[place].push('\n');
            self.block_bytes += word.len() + 1;
            order.push(place as i64 - expected);
            expected = place as i64 + 1;
        }
        let change = (rounds.is_empty() || order != self.order).then(|| order.clone());
        self.order = order;
        rounds.push((round.at_ms, round.content_type.to_owned(), change));
        self.rounds += 1;
        if rounds.len() == ROUNDS || self.block_bytes >= FULL_BYTES {
            self.close_block()?;
        }
        Ok(())
    }

    /// Writes the remaining rounds and the end; returns the writer.
    pub(crate) fn finish(mut self) -> std::io::Result<W> {
        if !self.block.rounds.is_empty() {
            self.close_block()?;
        }
        self.write(&Line::End(self.rounds))?;
        let mut out = self.out.finish()?;
        out.flush()?;
        Ok(out)
    }

    fn close_block(&mut self) -> std::io::Result<()> {
        self.places.clear();
        self.block_bytes = 0;
        let block = std::mem::take(&mut self.block);
        self.write(&Line::Block(block))?;
        // A killed recording keeps its complete blocks.
        self.out.flush()
    }

    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }
}

/// A file in memory, which was read once in full.
#[derive(Debug)]
pub(crate) struct Corpus {
    bytes: Arc<[u8]>,
    about: About,
    rounds: usize,
    is_whole: bool,
}

impl Corpus {
    /// Checks a file from beginning to end.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let bytes: Arc<[u8]> = bytes.into();
        let mut lines = Lines::new(&bytes)?;
        let Some(Line::About(about)) = lines.next()? else {
            return Err(
                "no recorded scrapes: the first line does not describe a target".to_owned(),
            );
        };
        if about.format != FORMAT || about.interval_ms == 0 {
            let found = about.format;
            return Err(format!(
                "format {found} is not known, only {FORMAT}, or there is no interval"
            ));
        }
        let mut corpus = Self {
            bytes,
            about,
            rounds: 0,
            is_whole: false,
        };
        while let Some(line) = lines.next()? {
            match line {
                _ if corpus.is_whole => return Err(lines.wrong("a line behind the end")),
                Line::Block(block) => corpus.rounds += block.rounds.len(),
                Line::End(rounds) if rounds == corpus.rounds => corpus.is_whole = true,
                Line::End(_) => {
                    return Err(lines.wrong("the end counts other rounds than there are"));
                }
                Line::About(_) => return Err(lines.wrong("a second description")),
            }
        }
        match corpus.is_whole && lines.is_cut {
            true => Err(lines.wrong("the frame goes on behind the end")),
            false => Ok(corpus),
        }
    }

    /// Returns the file's description of its target.
    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    /// Returns the number of rounds.
    pub(crate) fn len(&self) -> usize {
        self.rounds
    }

    /// Returns whether the recording was finished.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the rounds, starting with the first.
    pub(crate) fn rounds(&self) -> Result<Rounds, String> {
        Ok(Rounds {
            lines: Lines::new(&self.bytes)?,
            block: Block::default(),
            next: 0,
            read: Vec::new(),
            order: Vec::new(),
            body: String::new(),
        })
    }
}

/// The lines of a file.
struct Lines {
    from: BufReader<Decoder<'static, Cursor<Arc<[u8]>>>>,
    number: usize,
    /// Whether the frame is truncated.
    is_cut: bool,
}

impl Lines {
    fn new(bytes: &Arc<[u8]>) -> Result<Self, String> {
        let open = || {
            let mut decoder = Decoder::with_buffer(Cursor::new(Arc::clone(bytes)))?;
            decoder.window_log_max(WINDOW_LOG)?;
            Ok(BufReader::new(decoder))
        };
        let from = open().map_err(|e: std::io::Error| e.to_string())?;
        Ok(Self {
            from,
            number: 0,
            is_cut: false,
        })
    }

    /// Returns the next line, `None` after the last complete one.
    fn next(&mut self) -> Result<Option<Line>, String> {
        self.number += 1;
        let mut line = Vec::new();
        match self
            .from
            .by_ref()
            .take(LONGEST as u64)
            .read_until(b'\n', &mut line)
        {
            // A killed recording.
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                return Ok(None);
            }
            Err(e) => return Err(self.wrong(&e.to_string())),
            Ok(0) => return Ok(None),
            Ok(_) if !line.ends_with(b"\n") => return Err(self.wrong("is cut off")),
            Ok(_) => {}
        }
        let line = serde_json::from_slice(&line);
        line.map(Some).map_err(|e| self.wrong(&e.to_string()))
    }

    fn wrong(&self, what: &str) -> String {
        format!("line {}: {what}", self.number)
    }
}

/// Reads a corpus round by round.
pub(crate) struct Rounds {
    lines: Lines,
    block: Block,
    /// The next round of the block.
    next: usize,
    /// Bytes consumed of each key's values.
    read: Vec<usize>,
    order: Vec<i64>,
    body: String,
}

impl Rounds {
    /// Returns the next round, `None` after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<Round<'_>>, String> {
        while self.next == self.block.rounds.len() {
            match self.lines.next()? {
                Some(Line::Block(block)) => {
                    self.read = vec![0; block.values.len()];
                    (self.block, self.next) = (block, 0);
                }
                Some(Line::About(_)) => {}
                Some(Line::End(_)) | None => return Ok(None),
            }
        }
        let (_, _, change) = &mut self.block.rounds[self.next];
        if let Some(order) = change.take() {
            self.order = order;
        }
        self.fill().ok_or_else(|| {
            self.lines
                .wrong("a round has lines that its block does not have")
        })?;
        let (at_ms, content_type, _) = &self.block.rounds[self.next];
        self.next += 1;
        Ok(Some(Round {
            at_ms: *at_ms,
            content_type,
            body: &self.body,
        }))
    }

    /// Assembles the body; `None` if the block lacks something that its order refers to.
    fn fill(&mut self) -> Option<()> {
        self.body.clear();
        let mut place = 0_i64;
        for (line, distance) in self.order.iter().enumerate() {
            place = place.checked_add(*distance)?;
            let at = usize::try_from(place).ok()?;
            let (key, read) = (self.block.keys.get(at)?, self.read.get_mut(at)?);
            let (word, _) = self.block.values.get(at)?.get(*read..)?.split_once('\n')?;
            *read += word.len() + 1;
            if line > 0 {
                self.body.push('\n');
            }
            self.body.push_str(key);
            self.body.push_str(word);
            place += 1;
            if self.body.len() > LONGEST {
                return None;
            }
        }
        Some(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
