//! Long lists as responses, written while they are sent.
//!
//! Invariant: a list takes the memory of a piece and not of its whole text; what it holds besides is leased by its maker
//! until the last piece has been sent or the client is gone.

use crate::respond::{body_of, respond_json};
use axum::{
    body::Bytes,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, header::CONTENT_TYPE};

/// Approximate length of a piece of a list.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes by which the last item may exceed that.
const SLACK_BYTES: usize = 4 << 10;

/// A response written one item at a time.
pub trait Listing: Send + 'static {
    /// Writes the next item; reports whether there are more.
    fn write(&mut self, out: &mut Vec<u8>) -> bool;
}

/// Separator of a list's items.
#[derive(Debug, Default)]
pub struct Comma(bool);

impl Comma {
    /// Writes a comma, except before the first item.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.0, true) {
            out.push(b',');
        }
    }
}

/// The beginning of a response, with the writer of the rest.
pub struct ListingResponse {
    first: Vec<u8>,
    rest: Option<Rest>,
}

/// The rest of a list, with the lease of what it holds.
struct Rest {
    listing: Box<dyn Listing>,
    _memory: Box<dyn Send>,
}

impl ListingResponse {
    /// Longest piece, unless an item is longer than the slack: what a list takes beside what it holds.
    pub const MAX_PIECE_BYTES: usize = PIECE_BYTES + SLACK_BYTES;

    /// Writes the first piece; if there is more, keeps `memory`, the lease of what the list holds and of a piece.
    pub fn new(mut listing: impl Listing, memory: impl Send + 'static) -> Self {
        let mut first = Vec::with_capacity(4 << 10);
        let more = fill(&mut first, &mut listing);
        Self {
            first,
            rest: more.then(|| Rest {
                listing: Box::new(listing),
                _memory: Box::new(memory),
            }),
        }
    }

    /// Returns the response, as JSON.
    #[must_use]
    pub fn respond(self, headers: &HeaderMap) -> Response {
        if self.rest.is_none() {
            return respond_json(self.first, headers);
        }
        let mut pieces = self.into_pieces();
        let body = body_of(move || pieces.next());
        ([(CONTENT_TYPE, "application/json")], body).into_response()
    }

    /// Returns the pieces, each made when it is asked for; the memory is given back with the iterator.
    pub fn into_pieces(self) -> impl Iterator<Item = Bytes> + Send {
        let mut first = Some(self.first);
        let mut rest = self.rest;
        let mut more = rest.is_some();
        std::iter::from_fn(move || {
            if let Some(first) = first.take() {
                return Some(first.into());
            }
            let rest = rest.as_mut().filter(|_| more)?;
            let mut piece = Vec::with_capacity(Self::MAX_PIECE_BYTES);
            more = fill(&mut piece, &mut *rest.listing);
            (!piece.is_empty()).then(|| piece.into())
        })
    }
}

/// Writes a piece; reports whether there is more.
fn fill(piece: &mut Vec<u8>, listing: &mut (impl Listing + ?Sized)) -> bool {
    while piece.len() < PIECE_BYTES {
        if !listing.write(piece) {
            return false;
        }
    }
    true
}
