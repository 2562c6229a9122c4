//! Reads the queue in order, from a place on, over damage and files that are gone.
//!
//! **Invariant:** damage is reported with file and offset, and costs the entries that it is in. A file that is being
//! written is read only up to what its writer has published.

use super::{
    Position, QueueError, Visit,
    bytes::{Malformed, Reader},
    decode::{EntryHead, FileDecoder},
    files::{Ahead, Queue},
    format::{ENTRY_HEAD_BYTES, HEADER_BYTES, Header, path_of},
    pieces::{Body, Piece, Pieces},
    symbols::Symbols,
};
use std::{fs::File, io, os::unix::fs::FileExt as _, path::PathBuf, sync::Arc};

/// A reader of a queue.
#[derive(Debug)]
pub(crate) struct QueueReader {
    queue: Arc<Queue>,
    /// The file that the reader ends before.
    until_file: Option<u64>,
    open: Option<OpenFile>,
    at: Position,
    /// Samples that could not be read since this was last asked.
    lost: u64,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    path: PathBuf,
    first_sample: u64,
    pieces: Pieces,
    decoder: FileDecoder,
    /// Whether damage was met since the last entry.
    is_damaged: bool,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Read {
    /// An entry was handed on.
    Entry,
    /// There is nothing more at the moment.
    Nothing,
    /// The file that the reader ends before is reached.
    End,
}

impl QueueReader {
    /// Returns a reader that begins with the file of `from`, at its beginning: what precedes a place is needed to decode
    /// what follows, and the visitor passes over it.
    pub(crate) fn new(queue: Arc<Queue>, from: Position, until_file: Option<u64>) -> Self {
        Self {
            queue,
            until_file,
            open: None,
            at: Position::start_of(from.file, from.sample),
            lost: 0,
        }
    }

    /// Makes the reader end before a file.
    pub(crate) fn end_before(&mut self, file: u64) {
        self.until_file = Some(file);
    }

    /// Returns the place behind the last entry.
    pub(crate) fn position(&self) -> Position {
        self.at
    }

    /// Returns the definitions of the file being read.
    pub(crate) fn symbols(&self) -> Option<&Symbols> {
        self.open.as_ref().map(|open| open.decoder.symbols())
    }

    /// Returns how many samples could not be read since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Reads the next entry and hands it to `visit`.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub(crate) fn read(&mut self, visit: &mut dyn Visit) -> Result<Read, QueueError> {
        loop {
            if self.until_file.is_some_and(|until| self.at.file >= until) {
                return Ok(Read::End);
            }
            match self.queue.ahead(self.at.file, self.at.offset) {
                // The files of a range that ends are not written any more.
                Ahead::Nothing if self.until_file.is_some() => return Ok(Read::End),
                Ahead::Nothing => return Ok(Read::Nothing),
                Ahead::File(number) => self.enter(number),
                Ahead::Bytes(end) => {
                    if self.read_up_to(end, visit)? {
                        return Ok(Read::Entry);
                    }
                }
            }
        }
    }

    /// Goes on to the beginning of a file.
    fn enter(&mut self, number: u64) {
        let first = self.queue.first_sample(number);
        self.open = None;
        let sample = first.unwrap_or(self.at.sample).max(self.at.sample);
        self.at = Position::start_of(number, sample);
    }

    /// Reads one entry that ends at or before `end`; returns `false` if there is none.
    fn read_up_to(&mut self, end: u64, visit: &mut dyn Visit) -> Result<bool, QueueError> {
        let Some(open) = self.opened()? else {
            // The file was given up just now.
            return Ok(false);
        };
        let path = open.path.clone();
        let piece = open.pieces.next(&open.file, end);
        match piece.map_err(QueueError::io(&path, "read"))? {
            Piece::End => {
                self.at.offset = end;
                Ok(false)
            }
            Piece::Damage { from, to, detail } => {
                let is_torn = to == end;
                tracing::warn!(
                    file = path.display().to_string(),
                    offset = from,
                    bytes = to - from,
                    detail,
                    is_torn,
                    "A part of a remote write queue cannot be read and is left out."
                );
                open.is_damaged = true;
                self.at.offset = to;
                Ok(false)
            }
            Piece::Entry { offset, body } => {
                let start = Position {
                    offset,
                    index: 0,
                    ..self.at
                };
                self.hand_on(start, &body, visit);
                Ok(true)
            }
        }
    }

    fn hand_on(&mut self, start: Position, body: &Body, visit: &mut dyn Visit) {
        let Some(open) = &mut self.open else { return };
        let bytes = open.pieces.body(body);
        let head = EntryHead::read(&mut Reader::new(bytes)).unwrap_or_default();
        let first = open.first_sample + head.first;
        if open.is_damaged {
            self.lost += first.saturating_sub(self.at.sample);
            open.is_damaged = false;
        }
        visit.entry(Position {
            sample: first,
            ..start
        });
        let offset = start.offset + (ENTRY_HEAD_BYTES + bytes.len()) as u64;
        let handed_on = match open.decoder.entry(bytes, visit) {
            Ok((_, handed_on)) => handed_on,
            Err(Malformed(what)) => {
                tracing::warn!(
                    file = open.path.display().to_string(),
                    offset = start.offset,
                    detail = what,
                    "An entry of a remote write queue cannot be decoded."
                );
                head.samples
            }
        };
        self.lost += head.samples.saturating_sub(handed_on);
        self.at = Position {
            file: start.file,
            offset,
            index: 0,
            sample: first + head.samples,
        };
    }

    fn opened(&mut self) -> Result<Option<&mut OpenFile>, QueueError> {
        if self.open.is_none() {
            let path = path_of(self.queue.dir(), self.at.file);
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(QueueError::io(path, "open")(error)),
            };
            let mut header = [0; HEADER_BYTES];
            let read = file.read_exact_at(&mut header, 0).is_ok();
            let header = read.then(|| Header::decode(&header).ok()).flatten();
            let known = self.queue.first_sample(self.at.file);
            let mut pieces = Pieces::default();
            if header.is_some() {
                pieces.begin_at(HEADER_BYTES as u64);
            }
            self.open = Some(OpenFile {
                file,
                path,
                first_sample: header
                    .map_or(known.unwrap_or(self.at.sample), |one| one.first_sample),
                pieces,
                decoder: FileDecoder::default(),
                is_damaged: false,
            });
        }
        Ok(self.open.as_mut())
    }
}

/// Reads bytes as entries, for fuzzing: lengths of two bytes, each followed by a body without checksum.
pub(super) fn fuzz(bytes: &[u8]) {
    struct Look(usize);
    impl Visit for Look {
        fn entry(&mut self, _: Position) {}
        fn item(&mut self, symbols: &Symbols, item: super::Item<'_>) {
            let labels = item.series.labels(symbols);
            for number in labels.into_iter().flatten() {
                self.0 += symbols
                    .label(*number)
                    .map_or(0, |(name, value)| name.len() + value.len());
            }
            self.0 += item.exemplars.len();
        }
    }
    let (mut decoder, mut look) = (FileDecoder::default(), Look(0));
    let mut rest = bytes;
    while let Some((len, behind)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(behind.len());
        let (body, behind) = behind.split_at(len);
        // An error leaves a decoder that goes on, as after damage.
        let _ = decoder.entry(body, &mut look);
        rest = behind;
    }
}
