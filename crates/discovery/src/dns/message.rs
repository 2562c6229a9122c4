//! DNS messages (RFC 1035, RFC 6891): writes one question, parses an answer's records.
//!
//! ```text
//! message = id:2 flags:2 qdcount:2 ancount:2 nscount:2 arcount:2 question* record*
//! record  = name type:2 class:2 ttl:4 length:2 data
//! name    = *( length:1 label ) ( 0 | pointer:2 )
//! ```
//! Invariant: every offset is checked; pointers only lead backwards, so every name ends.
//!
//! Not hickory-proto: it would take longer to build than the rest of this crate, for one question and five record
//! types.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::record_type::RecordType;

/// Datagram size that we advertise; Prometheus' value.
pub(crate) const MAX_DATAGRAM_BYTES: u16 = 4096;
/// Maximum length of a name; as text, only escapes make it longer.
const MAX_NAME_BYTES: usize = 255;
const CLASS_IN: u16 = 1;
const OPT: u16 = 41;

/// The parts of a record that discovery uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Srv { target: String, port: u16 },
    Mx(String),
    Ns(String),
    Cname,
    Other(u16),
}

/// An answer to our question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u8,
    pub(crate) truncated: bool,
    pub(crate) records: Vec<Record>,
}

pub(crate) const NO_ERROR: u8 = 0;
pub(crate) const NAME_ERROR: u8 = 3;

/// Encodes the question for a name that ends with a dot; `None` if the name is invalid.
pub(crate) fn question(id: u16, name: &str, kind: RecordType, edns: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns)]);
    let start = out.len();
    let labels = name.strip_suffix('.')?;
    if !labels.is_empty() {
        for label in labels.split('.') {
            let length = u8::try_from(label.len())
                .ok()
                .filter(|length| (1..=63).contains(length))?;
            out.push(length);
            out.extend_from_slice(label.as_bytes());
        }
    }
    out.push(0);
    if out.len() - start > MAX_NAME_BYTES {
        return None;
    }
    out.extend_from_slice(&(kind as u16).to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    if edns {
        out.push(0);
        out.extend_from_slice(&OPT.to_be_bytes());
        out.extend_from_slice(&MAX_DATAGRAM_BYTES.to_be_bytes());
        out.extend_from_slice(&[0; 6]);
    }
    Some(out)
}

/// Parses the answer to `question`; `None` if it is malformed or answers something else.
pub(crate) fn answer(bytes: &[u8], question: &[u8]) -> Option<Answer> {
    let mut reader = Reader { bytes, at: 0 };
    let (id, flags) = (reader.u16()?, reader.u16()?);
    let (questions, answers) = (reader.u16()?, reader.u16()?);
    let _authorities_and_more = reader.u32()?;
    let asked = question.get(..2)?;
    if id.to_be_bytes() != asked || flags & 0x8000 == 0 {
        return None;
    }
    for nth in 0..questions {
        let start = reader.at;
        let name = reader.name()?;
        let kind_and_class = reader.u32()?;
        if nth == 0 && !is_same_question(&name, kind_and_class, question) {
            return None;
        }
        debug_assert!(reader.at > start);
    }
    let truncated = flags & 0x0200 != 0;
    let code = u8::try_from(flags & 0x000f).ok()?;
    let mut records = Vec::new();
    // A truncated answer is requested again over TCP.
    for _nth in 0..if truncated { 0 } else { answers } {
        records.extend(reader.record()?);
    }
    Some(Answer {
        code,
        truncated,
        records,
    })
}

/// Compares questions ignoring case: servers may change the case of names.
fn is_same_question(name: &str, kind_and_class: u32, question: &[u8]) -> bool {
    let mut asked = Reader {
        bytes: question,
        at: 12,
    };
    let same = asked.name().is_some_and(|n| n.eq_ignore_ascii_case(name));
    same && asked.u32() == Some(kind_and_class)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take_bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take_bytes(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take_bytes(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take_bytes(4)?.try_into().ok()?))
    }

    /// Parses a name into the form of master files, including its last dot.
    fn name(&mut self) -> Option<String> {
        let mut out = String::new();
        let mut wire_bytes = 0;
        // Position after the first pointer, where reading resumes; `at` follows the name itself.
        let mut after = None;
        // Each pointer must lead before the previous one: no loop is possible.
        let mut lowest = self.at;
        loop {
            let length = self.u8()?;
            match length {
                0 => break,
                1..=63 => {
                    wire_bytes += usize::from(length) + 1;
                    if wire_bytes > MAX_NAME_BYTES {
                        return None;
                    }
                    push_label(&mut out, self.take_bytes(usize::from(length))?);
                }
                0xc0.. => {
                    let target = usize::from(length & 0x3f) << 8 | usize::from(self.u8()?);
                    if target >= lowest {
                        return None;
                    }
                    lowest = target;
                    after.get_or_insert(self.at);
                    self.at = target;
                }
                _ => return None,
            }
        }
        if let Some(after) = after {
            self.at = after;
        }
        if out.is_empty() {
            out.push('.');
        }
        Some(out)
    }

    /// Parses a record; the inner `None` is one of another class.
    fn record(&mut self) -> Option<Option<Record>> {
        self.name()?;
        let (kind, class) = (self.u16()?, self.u16()?);
        let _ttl = self.u32()?;
        let length = usize::from(self.u16()?);
        let end = self.at.checked_add(length)?;
        if end > self.bytes.len() {
            return None;
        }
        let record = match kind {
            1 => Record::A(Ipv4Addr::from(self.u32()?)),
            28 => {
                let octets: [u8; 16] = self.take_bytes(16)?.try_into().ok()?;
                Record::Aaaa(Ipv6Addr::from(octets))
            }
            2 => Record::Ns(self.name()?),
            5 => Record::Cname,
            15 => {
                let _preference = self.u16()?;
                Record::Mx(self.name()?)
            }
            33 => {
                let _priority_and_weight = self.u32()?;
                let port = self.u16()?;
                let target = self.name()?;
                Record::Srv { target, port }
            }
            other => Record::Other(other),
        };
        if self.at > end {
            return None;
        }
        self.at = end;
        Some((class == CLASS_IN).then_some(record))
    }
}

fn push_label(out: &mut String, label: &[u8]) {
    for byte in label {
        match byte {
            b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' | b' ' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            0x21..=0x7e => out.push(char::from(*byte)),
            other => out.push_str(&format!("\\{other:03}")),
        }
    }
    out.push('.');
}
