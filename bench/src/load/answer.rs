//! Answers of HTTP/1.1 read in whatever pieces they arrive; bodies are counted, not kept.
//!
//! **Invariant:** how bytes are cut into pieces changes nothing. An answer takes bounded memory whatever it announces.

use std::fmt;

/// Longest head, and longest line between chunks.
const LONGEST_HEAD: usize = 64 << 10;

/// What is known of a whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Bytes of the body, without its framing.
    pub(crate) body_bytes: u64,
    /// Whether the connection takes another request.
    pub(crate) keeps_alive: bool,
}

/// Why bytes are no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotHttp(&'static str);

impl fmt::Display for NotHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Reads the answers of one connection, one after another.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    state: State,
    /// The head, or a line between chunks, as far as it has come.
    line: Vec<u8>,
    answer: Option<Answer>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Head,
    /// So many bytes of the body are missing.
    Body(u64),
    ChunkSize,
    /// So many bytes of a chunk are missing, its line end included.
    Chunk(u64),
    Trailer,
    /// The body goes on until the connection ends.
    UntilEnd,
}

impl AnswerReader {
    /// Takes bytes as they come and returns an answer when they complete one.
    /// An answer's bytes end with the call that completes it: requests are not pipelined.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<Answer>, NotHttp> {
        while !bytes.is_empty() {
            let is_done = match self.state {
                State::Head => self.head(&mut bytes)?,
                State::Body(left) => {
                    let left = self.skip(left, &mut bytes);
                    self.state = State::Body(left);
                    left == 0
                }
                State::Chunk(left) => {
                    let left = self.skip_framed(left, &mut bytes);
                    self.state = if left == 0 {
                        State::ChunkSize
                    } else {
                        State::Chunk(left)
                    };
                    false
                }
                State::ChunkSize => self.chunk_size(&mut bytes)?,
                State::Trailer => self.take_line(&mut bytes)?.is_some_and(|line| line == 0),
                State::UntilEnd => {
                    self.count(bytes.len() as u64);
                    bytes = &[];
                    false
                }
            };
            if is_done {
                if !bytes.is_empty() {
                    return Err(NotHttp("bytes follow the answer"));
                }
                return Ok(self.complete());
            }
        }
        Ok(None)
    }

    /// Takes the end of the connection; an answer may end with it.
    pub(crate) fn end(&mut self) -> Option<Answer> {
        match self.state {
            State::UntilEnd => self.complete(),
            _ => None,
        }
    }

    fn complete(&mut self) -> Option<Answer> {
        self.state = State::Head;
        self.line.clear();
        self.answer.take()
    }

    fn count(&mut self, bytes: u64) {
        if let Some(answer) = &mut self.answer {
            answer.body_bytes += bytes;
        }
    }

    /// Skips up to `left` bytes of the body and returns how many are still missing.
    fn skip(&mut self, left: u64, bytes: &mut &[u8]) -> u64 {
        let now = left.min(bytes.len() as u64);
        self.count(now);
        *bytes = &bytes[now as usize..];
        left - now
    }

    /// As `skip`, of which the last two are the line end.
    fn skip_framed(&mut self, left: u64, bytes: &mut &[u8]) -> u64 {
        let now = left.min(bytes.len() as u64);
        let body = left.saturating_sub(2).min(now);
        self.count(body);
        *bytes = &bytes[now as usize..];
        left - now
    }

    /// Adds to the line up to its end; returns its length without line end once it is whole.
    fn take_line(&mut self, bytes: &mut &[u8]) -> Result<Option<usize>, NotHttp> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |at| at + 1);
        self.line.extend_from_slice(&bytes[..taken]);
        *bytes = &bytes[taken..];
        if self.line.len() > LONGEST_HEAD {
            return Err(NotHttp("a line is longer than 64 KiB"));
        }
        if end.is_none() {
            return Ok(None);
        }
        let length = self.line.trim_ascii_end().len();
        if !matches!(self.state, State::Head) && self.state != State::ChunkSize {
            self.line.clear();
        }
        Ok(Some(length))
    }

    fn head(&mut self, bytes: &mut &[u8]) -> Result<bool, NotHttp> {
        let before = self.line.len();
        if self.take_line(bytes)?.is_none() {
            return Ok(false);
        }
        let start_of_line = self.line[..before]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        if !self.line[start_of_line..].trim_ascii().is_empty() {
            return Ok(false);
        }
        let head = Head::parse(&self.line)?;
        self.line.clear();
        if (100..200).contains(&head.status) {
            return Ok(false);
        }
        self.answer = Some(Answer {
            status: head.status,
            body_bytes: 0,
            keeps_alive: head.keeps_alive && !matches!(head.state, State::UntilEnd),
        });
        self.state = head.state;
        Ok(head.state == State::Body(0))
    }

    fn chunk_size(&mut self, bytes: &mut &[u8]) -> Result<bool, NotHttp> {
        if self.take_line(bytes)?.is_none() {
            return Ok(false);
        }
        let text = self.line.split(|byte| *byte == b';').next();
        let digits = std::str::from_utf8(text.unwrap_or_default())
            .map_err(|_| NotHttp("a chunk's size is no number"))?;
        let size = u64::from_str_radix(digits.trim(), 16)
            .map_err(|_| NotHttp("a chunk's size is no number"))?;
        self.line.clear();
        self.state = match size {
            0 => State::Trailer,
            size => State::Chunk(
                size.checked_add(2)
                    .ok_or(NotHttp("a chunk's size is no number"))?,
            ),
        };
        Ok(false)
    }
}

/// What a head says of the body that follows.
struct Head {
    status: u16,
    state: State,
    keeps_alive: bool,
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self, NotHttp> {
        let text = std::str::from_utf8(bytes).map_err(|_| NotHttp("a head is not UTF-8"))?;
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.").and_then(|rest| {
            let (minor, rest) = rest.split_once(' ')?;
            Some((minor, rest.get(..3)?.parse::<u16>().ok()?))
        });
        let (minor, status) = status.ok_or(NotHttp("no status line"))?;
        let mut head = Self {
            status,
            state: State::UntilEnd,
            keeps_alive: minor != "0",
        };
        let mut is_chunked = false;
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                let length = value.parse().map_err(|_| NotHttp("no length"))?;
                head.state = State::Body(length);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked |= value.eq_ignore_ascii_case("chunked");
            } else if name.eq_ignore_ascii_case("connection") {
                if value.eq_ignore_ascii_case("close") {
                    head.keeps_alive = false;
                } else if value.eq_ignore_ascii_case("keep-alive") {
                    head.keeps_alive = true;
                }
            }
        }
        if is_chunked {
            head.state = State::ChunkSize;
        }
        if matches!(status, 204 | 304) {
            head.state = State::Body(0);
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::{mutate, rng::SplitMix64};

    const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
        3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\n";
    const EMPTY: &[u8] =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nServer: x\r\n\r\n";
    const OLD: &[u8] = b"HTTP/1.0 200 OK\r\n\r\nuntil the end";

    /// Reads an answer in pieces whose lengths `cut` gives.
    fn read(bytes: &[u8], mut cut: impl FnMut() -> usize) -> Result<Option<Answer>, NotHttp> {
        let mut reader = AnswerReader::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = cut().clamp(1, rest.len());
            if let Some(answer) = reader.feed(&rest[..piece])? {
                return match &rest[piece..] {
                    [] => Ok(Some(answer)),
                    _ => Err(NotHttp("bytes follow the answer")),
                };
            }
            rest = &rest[piece..];
        }
        Ok(reader.end())
    }

    #[test]
    fn every_framing_has_its_length_and_fate() {
        let answer = |status, body_bytes, keeps_alive| {
            Ok(Some(Answer {
                status,
                body_bytes,
                keeps_alive,
            }))
        };
        assert_eq!(read(LENGTH, || 1 << 20), answer(200, 5, true));
        assert_eq!(read(CHUNKED, || 1 << 20), answer(503, 19, false));
        assert_eq!(read(EMPTY, || 1 << 20), answer(204, 0, true));
        assert_eq!(read(OLD, || 1 << 20), answer(200, 13, false));
        let (cut, long) = (&LENGTH[..LENGTH.len() - 1], [LENGTH, b"x"].concat());
        assert_eq!(read(cut, || 1 << 20), Ok(None));
        assert_eq!(
            read(&long, || 1 << 20),
            Err(NotHttp("bytes follow the answer"))
        );
        assert_eq!(
            read(b"SSH-2.0-x\r\n\r\n", || 3),
            Err(NotHttp("no status line"))
        );
    }

    #[test]
    fn a_connection_gives_one_answer_after_another() {
        let mut reader = AnswerReader::default();
        for _ in 0..3 {
            assert_eq!(reader.feed(LENGTH).unwrap().unwrap().body_bytes, 5);
            assert_eq!(reader.feed(EMPTY).unwrap().unwrap().status, 204);
            assert_eq!(reader.feed(CHUNKED).unwrap().unwrap().body_bytes, 19);
        }
    }

    #[test]
    fn pieces_change_nothing() {
        let mut rng = SplitMix64::new(3);
        for whole in [LENGTH, CHUNKED, EMPTY, OLD] {
            let expected = read(whole, || 1 << 20);
            for longest in [1, 2, 3, 7, 40] {
                for _ in 0..20 {
                    let got = read(whole, || 1 + rng.index(longest));
                    assert_eq!(got, expected, "in pieces of at most {longest}");
                }
            }
        }
    }

    #[test]
    fn damaged_answers_are_read_or_refused_and_alike_in_pieces() {
        let mut rng = SplitMix64::new(12);
        let iterations = narthex_testkit::scaled(5_000);
        mutate::Mutator::new(11).run(&[LENGTH, CHUNKED, EMPTY, OLD], iterations, |bytes| {
            let whole = read(bytes, || usize::MAX);
            let pieces = read(bytes, || 1 + rng.index(9));
            // Bytes behind a damaged place may be seen by one and not by the other; answers are the same.
            if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
                assert_eq!(whole, pieces);
            }
        });
    }
}
