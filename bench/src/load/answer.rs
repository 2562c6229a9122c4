//! Parser of HTTP/1.1 responses in pieces of any size; bodies are counted, not kept.
//!
//! **Invariant:** how bytes are cut into pieces changes nothing. Memory is bounded whatever a response announces.

use httparse::{EMPTY_HEADER, Response, Status, parse_chunk_size};

/// Maximum length of a head, and of a line between chunks.
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 100;
/// Bytes of the line end after each chunk.
const LINE_END: u64 = 2;

/// Summary of a complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Bytes of the body, without its framing.
    pub(crate) body_bytes: u64,
    /// Whether the connection accepts another request.
    pub(crate) keeps_alive: bool,
}

/// Why bytes are not an HTTP response.
type NotHttp = &'static str;

/// Parses the responses of one connection, one after another.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    state: State,
    /// A head or a line between chunks, as far as received.
    pending: Vec<u8>,
    answer: Option<Answer>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Head,
    /// Remaining bytes of the body.
    Body(u64),
    ChunkSize,
    /// Remaining bytes of a chunk, including its line end.
    Chunk(u64),
    Trailer,
    /// The body extends until the connection ends.
    UntilEnd,
}

impl AnswerReader {
    /// Parses the next bytes and returns a response when they complete one. A response's bytes end with the call that
    /// completes it: requests are not pipelined.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Option<Answer>, NotHttp> {
        let mut all = std::mem::take(&mut self.pending);
        all.extend_from_slice(bytes);
        let mut rest = all.as_slice();
        // Every step consumes bytes or changes the state; otherwise more bytes are needed.
        while let Some(is_done) = self.step(&mut rest)? {
            if is_done && !rest.is_empty() {
                return Err("bytes follow the answer");
            }
            if is_done {
                return Ok(self.complete());
            }
        }
        if rest.len() > LONGEST_HEAD {
            return Err("a line is longer than 64 KiB");
        }
        self.pending = rest.to_vec();
        Ok(None)
    }

    /// Handles the end of the connection, which may complete a response.
    pub(crate) fn end(&mut self) -> Option<Answer> {
        match self.state {
            State::UntilEnd => self.complete(),
            _ => None,
        }
    }

    fn complete(&mut self) -> Option<Answer> {
        self.state = State::Head;
        self.answer.take()
    }

    /// Parses the next piece; returns whether it completes the response, `None` if more bytes are needed.
    fn step(&mut self, rest: &mut &[u8]) -> Result<Option<bool>, NotHttp> {
        match self.state {
            State::Head => return self.head(rest),
            State::Body(0) => return Ok(Some(true)),
            _ if rest.is_empty() => return Ok(None),
            State::Body(left) => self.state = State::Body(left - self.skip(left, 0, rest)),
            State::UntilEnd => drop(self.skip(u64::MAX, 0, rest)),
            State::Chunk(0) => self.state = State::ChunkSize,
            State::Chunk(left) => self.state = State::Chunk(left - self.skip(left, LINE_END, rest)),
            State::ChunkSize => match parse_chunk_size(rest) {
                Ok(Status::Partial) => return Ok(None),
                Ok(Status::Complete((length, size))) if size < u64::MAX - LINE_END => {
                    *rest = &rest[length..];
                    self.state = match size {
                        0 => State::Trailer,
                        size => State::Chunk(size + LINE_END),
                    };
                }
                _ => return Err("a chunk's size is no number"),
            },
            State::Trailer => {
                let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                    return Ok(None);
                };
                let is_last = rest[..end].trim_ascii().is_empty();
                *rest = &rest[end + 1..];
                return Ok(Some(is_last));
            }
        }
        Ok(Some(self.state == State::Body(0)))
    }

    /// Skips up to `left` bytes, of which the last `framing` are not part of the body; returns how many.
    fn skip(&mut self, left: u64, framing: u64, rest: &mut &[u8]) -> u64 {
        let now = left.min(rest.len() as u64);
        if let Some(answer) = &mut self.answer {
            answer.body_bytes += left.saturating_sub(framing).min(now);
        }
        *rest = &rest[now as usize..];
        now
    }

    fn head(&mut self, rest: &mut &[u8]) -> Result<Option<bool>, NotHttp> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut head = Response::new(&mut headers);
        let length = match head.parse(rest) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err("no head of HTTP/1"),
        };
        let status = head.code.unwrap_or_default();
        let (mut keeps_alive, mut state) = (head.version != Some(0), State::UntilEnd);
        for header in head.headers.iter() {
            let value = str::from_utf8(header.value).unwrap_or_default().trim();
            let is = |name: &str, text: &str| {
                header.name.eq_ignore_ascii_case(name) && value.eq_ignore_ascii_case(text)
            };
            if is("transfer-encoding", "chunked") {
                state = State::ChunkSize;
            } else if header.name.eq_ignore_ascii_case("content-length") {
                let length = value.parse().map_err(|_| "no length")?;
                if state != State::ChunkSize {
                    state = State::Body(length);
                }
            }
            keeps_alive =
                (keeps_alive || is("connection", "keep-alive")) && !is("connection", "close");
        }
        *rest = &rest[length..];
        if (100..200).contains(&status) {
            return Ok(Some(false));
        }
        if matches!(status, 204 | 304) {
            state = State::Body(0);
        }
        self.state = state;
        self.answer = Some(Answer {
            status,
            body_bytes: 0,
            keeps_alive: keeps_alive && state != State::UntilEnd,
        });
        Ok(Some(state == State::Body(0)))
    }
}

#[cfg(test)]
mod tests;
