//! Bodies as differences to the body before, line by line: what changed is mostly a number at a line's end.
//!
//! Three streams, because each compresses better alone: what happens to lines, differences of numbers, and texts.
//! Bytes: [docs/format/scrapes.md](../../../../docs/format/scrapes.md). **Invariant:** a body comes back byte for
//! byte, whatever it contains; streams from outside give an error, and a body no longer than the one before it and the
//! texts together.

use super::number::{Decimal, Layout};
use std::collections::HashMap;

/// What happens to lines; the low three bits of a tag, the rest is a count.
mod op {
    /// The next n lines are as before.
    pub(super) const SAME: u64 = 0;
    /// The last word of the next n lines is another number, laid out as before.
    pub(super) const NUMBERS: u64 = 1;
    /// The last word of the next line is another number, laid out as `n` says.
    pub(super) const NUMBER: u64 = 2;
    /// The last word of the next line is the next n bytes of text.
    pub(super) const WORD: u64 = 3;
    /// A line of n bytes of text is put in.
    pub(super) const LINE: u64 = 4;
    /// The next n lines are gone.
    pub(super) const GONE: u64 = 5;
    /// The body ends; lines that are left are gone.
    pub(super) const END: u64 = 6;
}

/// The three streams.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Streams {
    pub(crate) ops: Vec<u8>,
    pub(crate) numbers: Vec<u8>,
    pub(crate) texts: Vec<u8>,
}

/// Why streams are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// A stream ends early: its name.
    Short(&'static str),
    /// An operation that does not exist or that the body before does not allow, at this offset of the operations.
    Operation(usize),
}

/// Writes bodies into streams.
#[derive(Debug, Default)]
pub(crate) struct DeltaWriter {
    before: Vec<u8>,
}

/// Reads bodies from streams.
#[derive(Debug, Default)]
pub(crate) struct DeltaReader {
    body: Vec<u8>,
}

/// Offsets in the three streams.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) ops: usize,
    pub(crate) numbers: usize,
    pub(crate) texts: usize,
}

impl DeltaWriter {
    /// Appends `body` to the streams.
    pub(crate) fn write(&mut self, body: &[u8], out: &mut Streams) {
        let before: Vec<&[u8]> = lines(&self.before).collect();
        let mut places: HashMap<&[u8], Vec<usize>> = HashMap::with_capacity(before.len());
        for (at, line) in before.iter().enumerate().rev() {
            places.entry(split(line).0).or_default().push(at);
        }
        let (mut at, mut same, mut numbers) = (0, 0_u64, 0_u64);
        for line in lines(body) {
            if before.get(at) == Some(&line) {
                flush(&mut numbers, op::NUMBERS, out);
                same += 1;
                at += 1;
                continue;
            }
            let (key, word) = split(line);
            let place = match before.get(at) {
                Some(expected) if split(expected).0 == key => Some(at),
                // The latest entries of the list are the earliest lines.
                _ => places.get_mut(key).and_then(|list| {
                    while list.last().is_some_and(|place| *place < at) {
                        list.pop();
                    }
                    list.last().copied()
                }),
            };
            let Some(place) = place else {
                flush(&mut numbers, op::NUMBERS, out);
                flush(&mut same, op::SAME, out);
                push_tag(op::LINE, line.len() as u64, out);
                out.texts.extend_from_slice(line);
                continue;
            };
            if place > at {
                flush(&mut numbers, op::NUMBERS, out);
                flush(&mut same, op::SAME, out);
                push_tag(op::GONE, (place - at) as u64, out);
                at = place;
                if before[at] == line {
                    same += 1;
                    at += 1;
                    continue;
                }
            }
            flush(&mut same, op::SAME, out);
            if let Some((difference, layout)) = difference(split(before[at]).1, word) {
                match layout {
                    None => numbers += 1,
                    Some(layout) => {
                        flush(&mut numbers, op::NUMBERS, out);
                        push_tag(op::NUMBER, pack(layout), out);
                    }
                }
                push(zigzag(difference), &mut out.numbers);
            } else {
                flush(&mut numbers, op::NUMBERS, out);
                push_tag(op::WORD, word.len() as u64, out);
                out.texts.extend_from_slice(word);
            }
            at += 1;
        }
        flush(&mut numbers, op::NUMBERS, out);
        flush(&mut same, op::SAME, out);
        push_tag(op::END, 0, out);
        self.before.clear();
        self.before.extend_from_slice(body);
    }
}

impl DeltaReader {
    /// Reads the next body.
    pub(crate) fn read(&mut self, streams: &Streams, place: &mut Place) -> Result<&[u8], Damage> {
        let before = std::mem::take(&mut self.body);
        let mut before = lines(&before);
        let mut body = Vec::with_capacity(self.body.len());
        loop {
            let start = place.ops;
            let damage = Damage::Operation(start);
            let tag = varint(&streams.ops, &mut place.ops).ok_or(Damage::Short("operations"))?;
            let count = tag >> 3;
            match tag & 7 {
                op::SAME => {
                    for _ in 0..count {
                        push_line(before.next().ok_or(damage)?, &mut body);
                    }
                }
                op::NUMBERS => {
                    for _ in 0..count {
                        let line = before.next().ok_or(damage)?;
                        number(line, None, streams, place, &mut body).map_err(|e| e.at(start))?;
                    }
                }
                op::NUMBER => {
                    let line = before.next().ok_or(damage)?;
                    let layout = Some(unpack(count).ok_or(damage)?);
                    number(line, layout, streams, place, &mut body).map_err(|e| e.at(start))?;
                }
                op::WORD => {
                    let line = before.next().ok_or(damage)?;
                    body.extend_from_slice(split(line).0);
                    push_line(text(streams, place, count)?, &mut body);
                }
                op::LINE => push_line(text(streams, place, count)?, &mut body),
                op::GONE => {
                    for _ in 0..count {
                        before.next().ok_or(damage)?;
                    }
                }
                op::END if count == 0 => break,
                _ => return Err(damage),
            }
        }
        // Every line put one break too many behind itself; a body without lines does not exist.
        body.pop().ok_or(Damage::Operation(place.ops))?;
        self.body = body;
        Ok(&self.body)
    }
}

impl Damage {
    fn at(self, offset: usize) -> Self {
        match self {
            Self::Operation(_) => Self::Operation(offset),
            short @ Self::Short(_) => short,
        }
    }
}

/// Appends `line` with its last word replaced by the next number.
fn number(
    line: &[u8],
    layout: Option<Layout>,
    streams: &Streams,
    place: &mut Place,
    body: &mut Vec<u8>,
) -> Result<(), Damage> {
    let (key, word) = split(line);
    let before = Decimal::parse(word).ok_or(Damage::Operation(0))?;
    let packed = varint(&streams.numbers, &mut place.numbers).ok_or(Damage::Short("numbers"))?;
    let number = before.plus(unzigzag(packed), layout.unwrap_or(before.layout));
    body.extend_from_slice(key);
    number.ok_or(Damage::Operation(0))?.write(body);
    body.push(b'\n');
    Ok(())
}

/// Returns the difference of two words and the later one's layout, when it is another one; nothing unless both are
/// numbers.
fn difference(before: &[u8], after: &[u8]) -> Option<(i64, Option<Layout>)> {
    let (before, after) = (Decimal::parse(before)?, Decimal::parse(after)?);
    let difference = after.minus(before)?;
    // What a difference cannot lead back to is written as text.
    before.plus(difference, after.layout)?;
    Some((
        difference,
        (after.layout != before.layout).then_some(after.layout),
    ))
}

fn text<'a>(streams: &'a Streams, place: &mut Place, length: u64) -> Result<&'a [u8], Damage> {
    let rest = streams.texts.get(place.texts..).unwrap_or_default();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let text = rest.get(..length).ok_or(Damage::Short("texts"))?;
    place.texts += length;
    Ok(text)
}

/// Splits a body at its line breaks; one behind the last line gives an empty line.
fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'\n')
}

/// Splits a line into what comes before its last word, with the space, and that word.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let at = line.iter().rposition(|byte| *byte == b' ');
    line.split_at(at.map_or(0, |at| at + 1))
}

fn push_line(line: &[u8], body: &mut Vec<u8>) {
    body.extend_from_slice(line);
    body.push(b'\n');
}

fn flush(count: &mut u64, op: u64, out: &mut Streams) {
    if *count > 0 {
        push_tag(op, *count, out);
        *count = 0;
    }
}

fn push_tag(op: u64, count: u64, out: &mut Streams) {
    push(count << 3 | op, &mut out.ops);
}

/// Layout as a count: decimals, whether there is an exponent, and it.
fn pack(layout: Layout) -> u64 {
    let exponent = layout.exponent.map_or(0, |e| zigzag(i64::from(e)) << 1 | 1);
    exponent << 5 | u64::from(layout.decimals)
}

fn unpack(packed: u64) -> Option<Layout> {
    let decimals = (packed & 31) as u8;
    let rest = packed >> 5;
    let exponent = match rest & 1 {
        0 if rest != 0 => return None,
        0 => None,
        _ => Some(i16::try_from(unzigzag(rest >> 1)).ok()?),
    };
    let is_possible = decimals < 18 && exponent.is_none_or(|exponent| exponent.abs() <= 999);
    is_possible.then_some(Layout { decimals, exponent })
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Appends a LEB128 number.
pub(crate) fn push(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a LEB128 number; nothing when it is cut off or too long.
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (shift < 63 || byte <= 1).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::{mutate::Mutator, rng::SplitMix64, scaled};

    fn write(bodies: &[Vec<u8>]) -> Streams {
        let (mut writer, mut streams) = (DeltaWriter::default(), Streams::default());
        for body in bodies {
            writer.write(body, &mut streams);
        }
        streams
    }

    fn check(bodies: &[Vec<u8>]) -> Streams {
        let streams = write(bodies);
        let (mut reader, mut place) = (DeltaReader::default(), Place::default());
        for body in bodies {
            let read = reader.read(&streams, &mut place).unwrap();
            assert_eq!(String::from_utf8_lossy(read), String::from_utf8_lossy(body));
        }
        assert_eq!(place.ops, streams.ops.len());
        assert_eq!(place.numbers, streams.numbers.len());
        assert_eq!(place.texts, streams.texts.len());
        streams
    }

    fn bodies(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_round_whose_numbers_alone_change_costs_a_byte_each() {
        let rounds = bodies(&[
            "# TYPE a counter\na{x=\"1\"} 10\na{x=\"2\"} 20\nb 1.5\n",
            "# TYPE a counter\na{x=\"1\"} 12\na{x=\"2\"} 21\nb 1.25\n",
        ]);
        let (one, both) = (write(&rounds[..1]), check(&rounds));
        assert_eq!(both.texts, one.texts);
        assert_eq!(both.numbers.len(), 3);
        // As before, two numbers, one laid out otherwise, as before, the end.
        assert_eq!(both.ops.len() - one.ops.len(), 5);
    }

    #[test]
    fn lines_come_and_go() {
        check(&bodies(&[
            "a 1\nb 2\nc 3\n",
            "b 2\nc 4\n",
            "a 1\nb NaN\nnew line\nc 4\n",
            "c 4\nb 5\na 1\n",
            "",
            "no break at the end",
            "\n\n",
            "a 1\na 1\na 2\n",
            "a 2\na 1\na 1\na 1e+09\n",
        ]));
    }

    #[test]
    fn any_bodies_come_back() {
        let mut rng = SplitMix64::new(5);
        let words = [
            "a",
            "b{x=\"1\"}",
            "# HELP",
            "0",
            "1",
            "-1",
            "12.50",
            "1e+09",
            "1.7e+09",
            "NaN",
            "",
            "+Inf",
            "\n",
            "999999999999999999",
            "1e-07",
            "c d",
        ];
        for _ in 0..scaled(400) {
            let mut round = Vec::new();
            let mut rounds = Vec::new();
            for _ in 0..6 {
                for _ in 0..rng.index(30) {
                    let line = format!("{} {}\n", rng.pick(&words), rng.pick(&words));
                    let at = rng.index(round.len() + 1);
                    match rng.index(3) {
                        0 => round.insert(at, line),
                        1 if at < round.len() => drop(round.remove(at)),
                        _ if at < round.len() => round[at] = line,
                        _ => {}
                    }
                }
                rounds.push(round.concat().into_bytes());
            }
            check(&rounds);
        }
    }

    #[test]
    fn a_number_has_64_bits_at_most() {
        let mut bytes = Vec::new();
        push(u64::MAX, &mut bytes);
        assert_eq!((bytes.len(), varint(&bytes, &mut 0)), (10, Some(u64::MAX)));
        bytes[9] = 2;
        assert_eq!(varint(&bytes, &mut 0), None);
        assert_eq!(varint(&bytes[..9], &mut 0), None);
    }

    #[test]
    fn damaged_streams_are_refused() {
        let streams = write(&bodies(&["a 1\nb 2\n", "a 2\nb 2.5\nc x\n"]));
        let read = |streams: &Streams| {
            let (mut reader, mut place) = (DeltaReader::default(), Place::default());
            reader.read(streams, &mut place)?;
            reader.read(streams, &mut place).map(<[u8]>::to_vec)
        };
        assert_eq!(read(&streams).unwrap(), b"a 2\nb 2.5\nc x\n");
        let cut = |stream: fn(&mut Streams) -> &mut Vec<u8>| {
            let mut cut = streams.clone();
            stream(&mut cut).pop();
            read(&cut).unwrap_err()
        };
        assert_eq!(cut(|streams| &mut streams.ops), Damage::Short("operations"));
        assert_eq!(
            cut(|streams| &mut streams.numbers),
            Damage::Short("numbers")
        );
        assert_eq!(cut(|streams| &mut streams.texts), Damage::Short("texts"));
        let mut unknown = streams.clone();
        unknown.ops[0] = 7;
        assert_eq!(read(&unknown), Err(Damage::Operation(0)));
    }

    #[test]
    fn streams_of_any_bytes_end() {
        let streams = write(&bodies(&["a 1\nb 2\n", "a 2\nb 2.5\nc x\n"]));
        let ops = streams.ops.clone();
        Mutator::new(3).run(&[&ops], 2_000, |data| {
            let damaged = Streams {
                ops: data.to_vec(),
                ..streams.clone()
            };
            let (mut reader, mut place) = (DeltaReader::default(), Place::default());
            while place.ops < damaged.ops.len() {
                if reader.read(&damaged, &mut place).is_err() {
                    break;
                }
            }
        });
    }
}
