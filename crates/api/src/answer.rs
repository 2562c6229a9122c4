//! Response envelopes: data, warnings and errors.
//!
//! **Invariant:** long data is written piece by piece while it is sent, so a response costs its source and one piece of
//! text. The source stays leased, and its permit taken, until the last piece has been sent. A list of many small items is
//! written by several threads before that, if its text is at most `MOST_WRITTEN` bytes; then that is leased instead.

use crate::{
    error::ApiError,
    json::{self, LabelNames},
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use narthex_model::{
    LabelSet,
    storage::{Context, Helpers, Lease, StorageError},
    sync::Whole as _,
};
use narthex_net::{
    axum::{
        body::Body,
        response::{IntoResponse as _, Response},
    },
    body_of, respond_json,
};
use serde_json::Value;
use std::sync::Mutex;

/// Approximate length of a piece; shorter responses are sent whole.
const PIECE_BYTES: usize = 64 << 10;

/// Least items, and most bytes of text, of a list that helpers write.
const LEAST_ITEMS: usize = 1024;
const MOST_WRITTEN: usize = 8 << 20;
/// Items that are written at once.
const ITEMS_AT_ONCE: usize = 256;

/// What precedes the data.
const BEGIN: &[u8] = br#"{"status":"success","data":"#;

/// Writes some more of the data and returns whether there is more.
pub(crate) type Write = Box<dyn FnMut(&mut Vec<u8>) -> bool + Send>;

/// A response's data with its warnings.
pub(crate) struct Answer {
    /// JSON.
    pub(crate) data: Data,
    pub(crate) warnings: Vec<String>,
    pub(crate) infos: Vec<String>,
    /// Leases and permits held until the data has been sent.
    pub(crate) holds: Holds,
}

/// Leases and permits of a response, released when it has been sent or the client has gone.
#[derive(Default)]
pub(crate) struct Holds(Vec<Box<dyn Send>>);

impl Holds {
    pub(crate) fn add(&mut self, hold: impl Send + 'static) {
        self.0.push(Box::new(hold));
    }
}

/// The source of a long response and its leases. Freeing a million series takes a while, so it happens on a blocking
/// thread and delays no connection.
struct Source(Option<(Write, Holds)>);

impl Source {
    fn write(&mut self, piece: &mut Vec<u8>) -> bool {
        self.0.as_mut().is_some_and(|(write, _)| fill(piece, write))
    }

    fn free(&mut self) {
        let Some((write, holds)) = self.0.take() else {
            return;
        };
        let free = move || {
            drop(write);
            drop(holds);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(free)),
            Err(_outside) => free(),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.free();
    }
}

/// JSON, written or to be written.
pub(crate) enum Data {
    Whole(Vec<u8>),
    /// With its envelope.
    Enveloped(Bytes),
    Pieces(Write),
    /// Lines of JSON without an envelope.
    Lines(Write),
    /// An absent result.
    Nothing,
}

impl Answer {
    pub(crate) fn whole(data: Vec<u8>) -> Self {
        Self::new(Data::Whole(data))
    }

    pub(crate) fn json(data: &Value) -> Self {
        Self::whole(data.to_string().into_bytes())
    }

    /// Returns a response with a text that `envelop` made.
    pub(crate) fn enveloped(text: Bytes) -> Self {
        Self::new(Data::Enveloped(text))
    }

    /// Returns the text of the response, if it comes without notes and is no longer than `most`; otherwise the response that
    /// goes on with what was written.
    pub(crate) fn envelop(self, most: usize) -> Result<Vec<u8>, Self> {
        let Data::Pieces(mut write) = self.data else {
            return Err(self);
        };
        let mut text = BEGIN.to_vec();
        if !self.warnings.is_empty() || !self.infos.is_empty() {
            return Err(Self {
                data: Data::Pieces(write),
                ..self
            });
        }
        while text.len() < most {
            if !write(&mut text) {
                text.push(b'}');
                return Ok(text);
            }
        }
        let written = text.split_off(BEGIN.len());
        Err(Self {
            data: Data::Pieces(Box::new(framed(written, [], write))),
            ..self
        })
    }

    /// Returns a response whose data `write` produces.
    pub(crate) fn made(write: impl FnMut(&mut Vec<u8>) -> bool + Send + 'static) -> Self {
        Self::new(Data::Pieces(Box::new(write)))
    }

    /// Returns a response whose data is a list.
    pub(crate) fn list<T: Send + 'static>(
        items: Vec<T>,
        write: impl FnMut(&mut Vec<u8>, T) + Send + 'static,
    ) -> Self {
        Self::made(items_of(*b"[]", items.into_iter(), write))
    }

    /// Returns a response with a list between two texts: one of many small items is written here, with helpers, others while
    /// they are sent.
    ///
    /// # Errors
    /// Fails when stopped.
    pub(crate) fn of_list<T: Item>(
        [head, end]: [Vec<u8>; 2],
        items: Vec<T>,
        helpers: &Helpers,
        ctx: &Context,
    ) -> Result<Self, StorageError> {
        let Some(lease) = room_for_text(&items, helpers, ctx) else {
            let mut names = LabelNames::default();
            let write = move |out: &mut Vec<u8>, item: T| item.write(&mut names, out);
            let list = items_of(*b"[]", items.into_iter(), write);
            return Ok(Self::made(framed(head, end, list)));
        };
        let mut texts = written(items, helpers, ctx)?.into_iter();
        let list = move |out: &mut Vec<u8>| {
            let next = texts.next();
            match &next {
                Some(text) => out.extend_from_slice(text),
                None => out.push(b']'),
            }
            next.is_some()
        };
        let mut answer = Self::made(framed(head, end, list));
        answer.holds.add(lease);
        Ok(answer)
    }

    pub(crate) fn new(data: Data) -> Self {
        Self {
            data,
            warnings: Vec::new(),
            infos: Vec::new(),
            holds: Holds::default(),
        }
    }
}

/// Returns what writes the next item of a list or an object, between its brackets.
pub(crate) fn items_of<T>(
    [open, close]: [u8; 2],
    mut items: impl Iterator<Item = T> + Send + 'static,
    mut write: impl FnMut(&mut Vec<u8>, T) + Send + 'static,
) -> impl FnMut(&mut Vec<u8>) -> bool + Send + 'static {
    let mut begun = false;
    move |out| {
        let next = items.next();
        if !std::mem::replace(&mut begun, true) {
            out.push(open);
        } else if next.is_some() {
            out.push(b',');
        }
        let more = next.map(|item| write(out, item)).is_some();
        if !more {
            out.push(close);
        }
        more
    }
}

/// An item of a list.
pub(crate) trait Item: Send + Sync + 'static {
    /// Returns about how many bytes it takes, written; `None` if nobody knows.
    fn text_bytes(&self) -> Option<usize>;

    /// Writes the item.
    fn write(&self, names: &mut LabelNames, out: &mut Vec<u8>);
}

impl Item for String {
    fn text_bytes(&self) -> Option<usize> {
        Some(self.len() + 3)
    }

    fn write(&self, _names: &mut LabelNames, out: &mut Vec<u8>) {
        json::string(out, self);
    }
}

impl Item for LabelSet {
    fn text_bytes(&self) -> Option<usize> {
        Some(LABEL_BYTES * self.len())
    }

    fn write(&self, names: &mut LabelNames, out: &mut Vec<u8>) {
        names.labels(out, self);
    }
}

/// About what a label takes, written.
pub(crate) const LABEL_BYTES: usize = 40;

/// Returns the texts of the parts of a list, all but its last bracket.
fn written<T: Item>(
    items: Vec<T>,
    helpers: &Helpers,
    ctx: &Context,
) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut items = items.into_iter().peekable();
    let mut parts = Vec::new();
    while items.peek().is_some() {
        let part: Vec<T> = items.by_ref().take(ITEMS_AT_ONCE).collect();
        parts.push(Mutex::new(part));
    }
    let texts = helpers.map(&parts, |part| {
        ctx.stop.check()?;
        // Whoever writes them frees them.
        let items = std::mem::take(&mut *part.lock().whole());
        let (mut names, mut out) = (LabelNames::default(), Vec::new());
        for item in items {
            out.push(b',');
            item.write(&mut names, &mut out);
        }
        Ok::<_, StorageError>(out)
    });
    let mut texts = texts.into_iter().collect::<Result<Vec<_>, _>>()?;
    if let Some(begin) = texts.first_mut().and_then(|first| first.first_mut()) {
        *begin = b'[';
    }
    Ok(texts)
}

/// Leases the text of a list if helpers are to write it.
fn room_for_text<T: Item>(items: &[T], helpers: &Helpers, ctx: &Context) -> Option<Lease> {
    if items.len() < LEAST_ITEMS || helpers.try_acquire().is_none() {
        return None;
    }
    let bytes: Option<usize> = items.iter().map(Item::text_bytes).sum();
    let bytes = bytes.filter(|bytes| *bytes <= MOST_WRITTEN)?;
    // What grows takes up to twice its length.
    ctx.budget.lease(2 * bytes as u64).ok()
}

/// Returns what writes a text between two others.
pub(crate) fn framed(
    head: impl AsRef<[u8]> + Send + 'static,
    end: impl AsRef<[u8]> + Send + 'static,
    mut write: impl FnMut(&mut Vec<u8>) -> bool + Send + 'static,
) -> impl FnMut(&mut Vec<u8>) -> bool + Send + 'static {
    let mut head = Some(head);
    move |out| {
        if let Some(head) = head.take() {
            out.extend_from_slice(head.as_ref());
        }
        let more = write(out);
        if !more {
            out.extend_from_slice(end.as_ref());
        }
        more
    }
}

/// Wraps a call's outcome in the envelope of the API.
pub(crate) fn respond(outcome: Result<Answer, ApiError>, headers: &HeaderMap) -> Response {
    match outcome {
        Ok(answer) => respond_answer(answer, headers),
        Err(error) => {
            let mut body = Vec::with_capacity(64 + error.message.len());
            body.extend_from_slice(br#"{"status":"error","errorType":""#);
            body.extend_from_slice(error.kind.as_str().as_bytes());
            body.extend_from_slice(br#"","error":"#);
            json::string(&mut body, &error.message);
            body.push(b'}');
            let mut response = respond_json(body, headers);
            *response.status_mut() = error.kind.status();
            response
        }
    }
}

fn respond_answer(answer: Answer, headers: &HeaderMap) -> Response {
    let Answer {
        data,
        warnings,
        infos,
        holds,
    } = answer;
    let mut body = BEGIN.to_vec();
    let mut end = Vec::new();
    notes(&mut end, "warnings", &warnings);
    notes(&mut end, "infos", &infos);
    end.push(b'}');
    let mut write = match data {
        Data::Whole(data) => {
            body.extend_from_slice(&data);
            body.extend_from_slice(&end);
            return respond_json(body, headers);
        }
        Data::Enveloped(text) if text.len() < PIECE_BYTES => return respond_json(text, headers),
        // Like a long text that is made while it is sent.
        Data::Enveloped(text) => return typed("application/json", Body::from(text)),
        Data::Pieces(write) => write,
        Data::Lines(write) => {
            let pieces = pieces(Vec::new(), write, Vec::new(), holds);
            return typed("application/x-ndjson; charset=utf-8", body_of(pieces));
        }
        Data::Nothing => return StatusCode::NO_CONTENT.into_response(),
    };
    if !fill(&mut body, &mut write) {
        body.extend_from_slice(&end);
        return respond_json(body, headers);
    }
    typed("application/json", body_of(pieces(body, write, end, holds)))
}

fn typed(content_type: &'static str, body: Body) -> Response {
    ([(CONTENT_TYPE, content_type)], body).into_response()
}

/// Returns the pieces of a long response: `first`, the output of `write`, `end`.
pub(crate) fn pieces(
    first: Vec<u8>,
    write: Write,
    end: Vec<u8>,
    holds: Holds,
) -> impl FnMut() -> Option<Bytes> + Send + 'static {
    let mut first = Some(first).filter(|first| !first.is_empty());
    let mut source = Source(Some((write, holds)));
    let mut more = true;
    move || {
        if let Some(first) = first.take() {
            return Some(Bytes::from(first));
        }
        if !more {
            // The connection has taken the last piece.
            source.free();
            return None;
        }
        let mut piece = Vec::with_capacity(PIECE_BYTES + 1024);
        more = source.write(&mut piece);
        if !more {
            piece.extend_from_slice(&end);
        }
        Some(Bytes::from(piece)).filter(|piece| !piece.is_empty())
    }
}

/// Writes a piece; returns whether there is more.
fn fill(piece: &mut Vec<u8>, write: &mut Write) -> bool {
    while piece.len() < PIECE_BYTES {
        if !write(piece) {
            return false;
        }
    }
    true
}

fn notes(body: &mut Vec<u8>, key: &str, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    body.extend_from_slice(b",\"");
    body.extend_from_slice(key.as_bytes());
    body.extend_from_slice(b"\":");
    json::list(body, notes.iter().map(String::as_str), json::string);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(answer: Answer) -> (bool, String) {
        let response = respond(Ok(answer), &HeaderMap::new());
        let whole = {
            use narthex_net::axum::body::HttpBody;
            response.body().size_hint().exact().is_some()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let body = narthex_net::axum::body::to_bytes(response.into_body(), usize::MAX);
        let bytes = runtime.block_on(body).unwrap();
        (whole, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn long_lists_are_sent_in_pieces_and_short_ones_whole() {
        let number = |out: &mut Vec<u8>, item: u32| json::string(out, &item.to_string());
        let mut short = Answer::list(vec![1, 2], number);
        short.warnings.push("w".to_owned());
        assert_eq!(
            text(short),
            (
                true,
                r#"{"status":"success","data":["1","2"],"warnings":["w"]}"#.to_owned()
            )
        );
        assert_eq!(
            text(Answer::list(Vec::new(), number)).1,
            r#"{"status":"success","data":[]}"#
        );
        let mut long = Answer::list((0..100_000).collect(), number);
        long.infos.push("i".to_owned());
        let (whole, text) = text(long);
        assert!(!whole);
        let items: Vec<String> = (0..100_000).map(|item| format!("\"{item}\"")).collect();
        let expected = format!(
            r#"{{"status":"success","data":[{}],"infos":["i"]}}"#,
            items.join(",")
        );
        assert!(text == expected, "{} bytes", text.len());
    }
}
