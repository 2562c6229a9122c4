//! The beginning of a request: version, session, place in the session.

use crate::queue::{Malformed, Reader};
use narthex_model::varint::put_varint;

/// Name of a session, which its sender chooses at random.
pub(crate) type SessionId = [u8; 16];

/// Version of the format.
const VERSION: u8 = 2;

/// Longest head.
pub(crate) const HEAD_BYTES: usize = 1 + 16 + 10 + 16 + 10;

/// What a request begins with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Head<'a> {
    pub(super) session: SessionId,
    /// Number of the request in its session, from 0.
    pub(super) sequence: u64,
    /// The session that this one takes the place of.
    pub(super) replaced: Option<SessionId>,
    pub(super) samples: u64,
    pub(super) records: &'a [u8],
}

/// Writes the beginning of a request; `replaced` is for the first of a session.
pub(crate) fn put_head(
    session: SessionId,
    sequence: u64,
    replaced: SessionId,
    samples: u64,
    out: &mut Vec<u8>,
) {
    out.push(VERSION);
    out.extend_from_slice(&session);
    put_varint(out, sequence);
    if sequence == 0 {
        out.extend_from_slice(&replaced);
    }
    put_varint(out, samples);
}

impl<'a> Head<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        if reader.byte()? != VERSION {
            return Err(Malformed("a version of the format that is not known"));
        }
        let session = session_id(&mut reader)?;
        let sequence = reader.varint()?;
        let replaced = match sequence {
            0 => Some(session_id(&mut reader)?).filter(|id| *id != [0; 16]),
            _ => None,
        };
        let samples = reader.varint()?;
        Ok(Self {
            session,
            sequence,
            replaced,
            samples,
            records: reader.rest(),
        })
    }
}

fn session_id(reader: &mut Reader<'_>) -> Result<SessionId, Malformed> {
    let bytes = reader.take_bytes(size_of::<SessionId>())?;
    bytes.try_into().map_err(|_| Malformed("a session's name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_short_ones_do_not() {
        for (sequence, replaced) in [(0, [0; 16]), (0, [7; 16]), (1 << 40, [0; 16])] {
            let mut body = Vec::new();
            put_head([3; 16], sequence, replaced, 5, &mut body);
            assert!(body.len() <= HEAD_BYTES);
            for len in 0..body.len() {
                assert!(Head::read(&body[..len]).is_err(), "{len}");
            }
            body.extend_from_slice(b"rest");
            let head = Head {
                session: [3; 16],
                sequence,
                replaced: Some(replaced).filter(|id| *id != [0; 16]),
                samples: 5,
                records: b"rest",
            };
            assert_eq!(Head::read(&body), Ok(head));
            body[0] = 9;
            assert!(Head::read(&body).is_err());
        }
    }
}
