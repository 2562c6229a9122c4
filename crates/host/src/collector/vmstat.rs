//! `/proc/vmstat`: the fields that a pattern selects.
//!
//! Invariant: the pattern is matched once per field name; afterwards fields are selected by line number, and each line
//! is checked to begin with its name. The kernel's list of fields is fixed while it runs, and what follows the last
//! selected one is not read.

use regex::bytes::Regex;

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::scan::{label_text, next_field, next_line, number, trim};
use crate::sink::{Desc, Sink, Slot};

pub(crate) struct Vmstat {
    file: OpenFile,
    fields: Regex,
    wanted: Vec<Wanted>,
    /// Where the last wanted line ended, when all lines were read.
    prefix_bytes: usize,
}

struct Wanted {
    line: usize,
    /// The field's name and the blank after it.
    prefix: Box<[u8]>,
    slot: Slot,
}

impl Vmstat {
    pub(crate) fn new(file: OpenFile, fields: Regex) -> Self {
        Self {
            file,
            fields,
            wanted: Vec::new(),
            prefix_bytes: 0,
        }
    }
}

impl Collector for Vmstat {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        /// Counters grow by a digit now and then.
        const GROWTH_BYTES: usize = 64;
        let Self {
            file,
            fields,
            wanted,
            prefix_bytes,
        } = self;
        if let Some(last) = wanted.last().map(|field| field.line) {
            let end = End::Prefix(*prefix_bytes + GROWTH_BYTES);
            let text = file.read_enough(ctx.buf, end, |text| count_lines(text) > last)?;
            if set_known(text, wanted, out) {
                return Ok(());
            }
        }
        let text = file.read(ctx.buf, End::Below(2048))?;
        learn(text, fields, wanted, out).map_err(|source| file.malformed(source))?;
        let last = wanted.last().map_or(0, |field| field.line);
        let mut ends = memchr::memchr_iter(b'\n', text);
        *prefix_bytes = ends.nth(last).unwrap_or(text.len());
        Ok(())
    }
}

fn count_lines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// Sets every selected field if the text still has them at their lines.
fn set_known(text: &[u8], wanted: &[Wanted], out: &mut Sink) -> bool {
    let mut fields = wanted.iter().peekable();
    let mut start = 0;
    for (line, end) in memchr::memchr_iter(b'\n', text).enumerate() {
        if let Some(field) = fields.next_if(|field| field.line == line) {
            let value = text[start..end]
                .strip_prefix(&*field.prefix)
                .and_then(number);
            let Some(value) = value else { return false };
            out.set(field.slot, value as f64);
        }
        start = end + 1;
    }
    fields.peek().is_none()
}

/// Selects the lines and sets their values.
fn learn(
    mut text: &[u8],
    fields: &Regex,
    wanted: &mut Vec<Wanted>,
    out: &mut Sink,
) -> Result<(), ParseError> {
    let mut old = std::mem::take(wanted);
    let mut at = 0;
    let result = loop {
        let Some(line) = next_line(&mut text) else {
            break Ok(());
        };
        let error = |expected| {
            let line = u32::try_from(at + 1).unwrap_or(u32::MAX);
            Err(ParseError { line, expected })
        };
        let parsed = match parse_line(line) {
            Ok(parsed) => parsed.filter(|(key, _)| fields.is_match(key)),
            Err(expected) => break error(expected),
        };
        if let Some((key, value)) = parsed {
            let prefix = [key, b" "].concat();
            if wanted.iter().any(|field| *field.prefix == *prefix) {
                break error("each field once");
            }
            let known = old.iter().position(|field| *field.prefix == *prefix);
            let slot = match known {
                Some(at) => old.swap_remove(at).slot,
                None => new_slot(key, out),
            };
            wanted.push(Wanted {
                line: at,
                prefix: prefix.into(),
                slot,
            });
            match number(value) {
                Some(value) => out.set(slot, value as f64),
                None => break error("a number after the field's name"),
            }
        }
        at += 1;
    };
    if result.is_ok() {
        old.into_iter().for_each(|field| out.retire(field.slot));
    } else {
        // The series stay, absent, until the file is complete again.
        wanted.extend(old);
    }
    result
}

/// A field's name and the text of its value.
type Field<'a> = (&'a [u8], &'a [u8]);

/// Splits a line; `None` for an empty one.
fn parse_line(line: &[u8]) -> Result<Option<Field<'_>>, &'static str> {
    let mut rest = line;
    let Some(key) = next_field(&mut rest) else {
        return Ok(None);
    };
    match trim(rest) {
        b"" => Err("a value after the field's name"),
        value => Ok(Some((key, value))),
    }
}

fn new_slot(key: &[u8], out: &mut Sink) -> Slot {
    let key = label_text(key);
    let help = format!("/proc/vmstat information field {key}.");
    let name = format!("node_vmstat_{key}");
    out.add(&Desc::unknown(&name, &help), &[])
}

/// Learns from one text and parses another, for fuzzing.
pub(crate) fn learn_and_read(text: &[u8]) {
    let fields = Regex::new("^(oom_kill|pgpg|pswp|pg.*fault).*").expect("a constant");
    let mut out = Sink::new(narthex_model::LabelSet::empty());
    let mut wanted = Vec::new();
    out.begin();
    let (first, second) = text.split_at(text.len() / 2);
    for text in [first, second, text, text] {
        let _ = learn(text, &fields, &mut wanted, &mut out);
        set_known(text, &wanted, &mut out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Meter;
    use crate::open_file::ReadBuf;
    use narthex_testkit::TempDir;

    fn read(text: &str, wanted: &mut Vec<Wanted>, out: &mut Sink) -> bool {
        out.begin();
        let known = !wanted.is_empty() && set_known(text.as_bytes(), wanted, out);
        if !known {
            let fields = Regex::new("^pg").expect("a constant");
            learn(text.as_bytes(), &fields, wanted, out).expect("well formed");
        }
        known
    }

    #[test]
    fn other_fields_are_learnt_again_and_keep_their_slots() {
        let mut out = Sink::new(narthex_model::LabelSet::empty());
        let mut wanted = Vec::new();
        assert!(!read("a 1\npgx 2\nb 3\npgy 4\n", &mut wanted, &mut out));
        assert!(read("a 7\npgx 5\nb 3\npgy 6\n", &mut wanted, &mut out));
        assert_eq!(out.finish(0).values(), [5.0, 6.0]);

        assert!(!read("pgx 8\na 7\nb 3\npgz 9\n", &mut wanted, &mut out));
        let frame = out.finish(0);
        assert_eq!(frame.values()[0], 8.0);
        assert_eq!(frame.present().iter().collect::<Vec<_>>(), [0, 2]);
        assert!(
            !read("pgx 8\na 7\nb 3\n", &mut wanted, &mut out),
            "a line is missing"
        );
        assert!(
            !read("pgxy 8\na 7\nb 3\n", &mut wanted, &mut out),
            "another name"
        );
    }

    #[test]
    fn lines_after_the_last_wanted_one_are_not_read() {
        let dir = TempDir::new("vmstat");
        let (few, many) = ("b 1\n".repeat(50), "b 1\n".repeat(2000));
        let path = dir.write("vmstat", format!("{few}pgx 7\n{many}"));
        let fields = Regex::new("^pg").expect("a constant");
        let mut vmstat = Vmstat::new(OpenFile::new(path), fields);
        let mut out = Sink::new(narthex_model::LabelSet::empty());
        let mut buf = ReadBuf::new();
        let mut read = || {
            out.begin();
            let mut ctx = Ctx {
                buf: &mut buf,
                round: 1,
                refresh: false,
                udp_sockets: [None; 2],
            };
            let meter = Meter::start();
            vmstat.collect(&mut ctx, &mut out).expect("there is a file");
            let bytes = meter.stop().read_bytes as usize;
            (bytes, out.finish(0).values().to_vec())
        };
        assert_eq!(read().1, [7.0]);
        // Numbers that grew by more than the room for it cost another read.
        let grown = few.replace('1', "1000000");
        for text in [
            format!("{few}pgx 8\n{many}"),
            format!("{grown}pgx 8\n{many}"),
        ] {
            dir.write("vmstat", &text);
            let (bytes, values) = read();
            assert_eq!(values, [8.0]);
            assert!(bytes < 2 * grown.len(), "{bytes} bytes");
        }
        dir.write("vmstat", format!("pgx 9\n{few}{many}"));
        assert_eq!(read().1, [9.0]);
    }
}
