//! A Pushgateway's persistence file: a Go gob stream with one value, a map of groups.
//!
//! ```text
//! stream := message*      message := length uint, type int, (type definition if type < 0, else value)
//! value  := map[string]struct{Labels map[string]string; Metrics map[string]struct{Timestamp GobEncoder; Family GobEncoder}}
//! ```
//! Only the parts of gob that such a file uses are read: structs, maps, strings, and values that encode themselves. A
//! family is a protobuf message `io.prometheus.client.MetricFamily`.
//!
//! **Invariant:** no allocation trusts a length in the file; memory grows with the bytes that are there.

use crate::{
    decode::{self, Allowed},
    gauges::{FAILED, PUSHED},
    grouping::Grouping,
    record::{Groups, Restored},
};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::{LabelSet, varint::put_varint};
use std::{collections::HashMap, fs, io, path::Path};

/// Deepest nesting of values.
const DEPTH: usize = 16;
/// Identifiers of predefined types.
const STRING: i64 = 6;
const BYTES: i64 = 5;

/// Reads a persistence file; `None` if there is no such file.
///
/// # Errors
/// Fails when it cannot be read or is malformed.
pub(crate) fn read_file(path: &Path) -> io::Result<Option<Groups>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let groups = read(&bytes).map_err(|reason| {
        let text = format!(
            "{}: not a persistence file of a Pushgateway: {reason}",
            path.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    Ok(Some(groups))
}

/// Parses a persistence file.
///
/// # Errors
/// Returns what is wrong with the bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<Groups, String> {
    let mut types = HashMap::new();
    let mut stream = Reader(bytes);
    while !stream.0.is_empty() {
        let len = stream.unsigned()?;
        let mut message = Reader(stream.take_bytes(len)?);
        let id = message.signed()?;
        if id < 0 {
            let definition = message.definition()?;
            types.insert(-id, definition);
            continue;
        }
        // A value that is not a struct is preceded by a zero.
        if message.unsigned()? != 0 {
            return Err("a value in an unknown form".to_owned());
        }
        let value = message.value(id, &types, 0)?;
        return groups_of(value);
    }
    Err("there is no value in it".to_owned())
}

/// Structure of a type.
#[derive(Debug)]
enum Type {
    Map {
        key: i64,
        element: i64,
    },
    Struct(Vec<(String, i64)>),
    /// A type whose values encode themselves.
    Opaque,
    List,
}

#[derive(Debug)]
enum Value<'a> {
    Text(&'a [u8]),
    Opaque(&'a [u8]),
    Map(Vec<(Value<'a>, Value<'a>)>),
    Struct(Vec<(String, Value<'a>)>),
}

struct Reader<'a>(&'a [u8]);

const SHORT: &str = "it ends too early";

impl<'a> Reader<'a> {
    fn take_bytes(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn unsigned(&mut self) -> Result<usize, String> {
        let first = *self.take_bytes(1)?.first().ok_or(SHORT)?;
        if first < 0x80 {
            return Ok(usize::from(first));
        }
        // The byte count of the number, negated.
        let len = usize::from(first.wrapping_neg());
        if len > 8 {
            return Err("a number is too long".to_owned());
        }
        let bytes = self.take_bytes(len)?;
        let number = bytes
            .iter()
            .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).map_err(|error| error.to_string())
    }

    fn signed(&mut self) -> Result<i64, String> {
        let bits = self.unsigned()? as u64;
        let half = (bits >> 1).cast_signed();
        Ok(if bits & 1 == 1 { !half } else { half })
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let len = self.unsigned()?;
        self.take_bytes(len)
    }

    fn name(&mut self) -> Result<String, String> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())
    }

    /// Calls `field` with the number of each field present, from 1.
    fn fields(
        &mut self,
        mut field: impl FnMut(&mut Self, usize) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut number = 0usize;
        loop {
            let delta = self.unsigned()?;
            if delta == 0 {
                return Ok(());
            }
            number = number
                .checked_add(delta)
                .ok_or("a field's number is too large")?;
            field(self, number)?;
        }
    }

    /// Parses a `wireType`.
    fn definition(&mut self) -> Result<Type, String> {
        let mut found = None;
        self.fields(|reader, kind| {
            found = Some(match kind {
                1 | 2 => reader.list_type()?,
                3 => reader.struct_type()?,
                4 => reader.map_type()?,
                5..=7 => reader.opaque_type()?,
                _ => return Err("a type of an unknown kind".to_owned()),
            });
            Ok(())
        })?;
        found.ok_or_else(|| "a type without a kind".to_owned())
    }

    /// Skips a `CommonType`: a name and an identifier.
    fn common(&mut self) -> Result<(), String> {
        self.fields(|reader, number| match number {
            1 => reader.bytes().map(|_| ()),
            2 => reader.signed().map(|_| ()),
            _ => Err("an unknown field of a type".to_owned()),
        })
    }

    fn opaque_type(&mut self) -> Result<Type, String> {
        self.fields(|reader, _| reader.common())?;
        Ok(Type::Opaque)
    }

    /// Parses the type of an array or a slice: families have such fields, but encode themselves.
    fn list_type(&mut self) -> Result<Type, String> {
        self.fields(|reader, number| match number {
            1 => reader.common(),
            _ => reader.signed().map(|_| ()),
        })?;
        Ok(Type::List)
    }

    fn map_type(&mut self) -> Result<Type, String> {
        let (mut key, mut element) = (0, 0);
        self.fields(|reader, number| {
            match number {
                1 => reader.common()?,
                2 => key = reader.signed()?,
                3 => element = reader.signed()?,
                _ => return Err("an unknown field of a map".to_owned()),
            }
            Ok(())
        })?;
        Ok(Type::Map { key, element })
    }

    fn struct_type(&mut self) -> Result<Type, String> {
        let mut list = Vec::new();
        self.fields(|reader, number| {
            if number == 1 {
                return reader.common();
            }
            for _ in 0..reader.unsigned()? {
                let (mut name, mut id) = (String::new(), 0);
                reader.fields(|reader, number| {
                    match number {
                        1 => name = reader.name()?,
                        2 => id = reader.signed()?,
                        _ => return Err("an unknown field of a field".to_owned()),
                    }
                    Ok(())
                })?;
                list.push((name, id));
            }
            Ok(())
        })?;
        Ok(Type::Struct(list))
    }

    fn value(
        &mut self,
        id: i64,
        types: &HashMap<i64, Type>,
        depth: usize,
    ) -> Result<Value<'a>, String> {
        if depth > DEPTH {
            return Err("values are nested too deep".to_owned());
        }
        if id == STRING || id == BYTES {
            return Ok(Value::Text(self.bytes()?));
        }
        match types.get(&id) {
            Some(Type::Opaque) => Ok(Value::Opaque(self.bytes()?)),
            Some(Type::Map { key, element }) => {
                let mut pairs = Vec::new();
                for _ in 0..self.unsigned()? {
                    let before = self.0.len();
                    let key = self.value(*key, types, depth + 1)?;
                    pairs.push((key, self.value(*element, types, depth + 1)?));
                    if self.0.len() == before {
                        return Err("a map of nothing".to_owned());
                    }
                }
                Ok(Value::Map(pairs))
            }
            Some(Type::Struct(list)) => {
                let mut fields = Vec::new();
                self.fields(|reader, number| {
                    let (name, id) = list.get(number - 1).ok_or("an unknown field")?;
                    fields.push((name.clone(), reader.value(*id, types, depth + 1)?));
                    Ok(())
                })?;
                Ok(Value::Struct(fields))
            }
            Some(Type::List) => Err("a list where none is due".to_owned()),
            None => Err(format!("a type that is not defined: {id}")),
        }
    }
}

impl<'a> Value<'a> {
    fn text(&self) -> Result<String, String> {
        match self {
            Self::Text(bytes) => {
                String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())
            }
            _ => Err("not a text where one is due".to_owned()),
        }
    }

    fn pairs(value: Option<Self>) -> Result<Vec<(Self, Self)>, String> {
        match value {
            Some(Self::Map(pairs)) => Ok(pairs),
            None => Ok(Vec::new()),
            _ => Err("not a map where one is due".to_owned()),
        }
    }

    /// Removes a field from a struct; the encoder omits empty ones.
    fn field(&mut self, wanted: &str) -> Result<Option<Self>, String> {
        match self {
            Self::Struct(fields) => {
                let at = fields.iter().position(|(name, _)| name == wanted);
                Ok(at.map(|at| fields.swap_remove(at).1))
            }
            _ => Err("not a struct where one is due".to_owned()),
        }
    }

    fn opaque(value: Option<Self>) -> Result<&'a [u8], String> {
        match value {
            Some(Self::Opaque(bytes)) => Ok(bytes),
            None => Ok(&[]),
            _ => Err("not a value that encodes itself where one is due".to_owned()),
        }
    }
}

fn groups_of(value: Value<'_>) -> Result<Groups, String> {
    let mut groups = Groups::new();
    for (_, mut group) in Value::pairs(Some(value))? {
        let mut pairs = Vec::new();
        for (name, value) in Value::pairs(group.field("Labels")?)? {
            pairs.push((name.text()?, value.text()?));
        }
        let grouping = Grouping::new(pairs);
        let mut restored = Restored::default();
        for (name, mut family) in Value::pairs(group.field("Metrics")?)? {
            let name = name.text()?;
            let pushed_ns = time_ns(Value::opaque(family.field("Timestamp")?)?)?;
            let message = Value::opaque(family.field("GobbableMetricFamily")?)?;
            restore(&mut restored, &grouping, &name, pushed_ns, message)?;
        }
        groups.insert(grouping, restored);
    }
    Ok(groups)
}

fn restore(
    restored: &mut Restored,
    grouping: &Grouping,
    name: &str,
    pushed_ns: i64,
    message: &[u8],
) -> Result<(), String> {
    let body = delimited(message);
    let of_failure = name == FAILED;
    if of_failure || name == PUSHED {
        let ns = stamp_ns(&body, pushed_ns)?;
        if of_failure {
            restored.failed_ns = ns;
        } else {
            restored.pushed_ns = ns;
        }
        return Ok(());
    }
    let allowed = Allowed {
        utf8_names: true,
        timestamps: false,
    };
    let decoded = decode::decode_once(Format::Protobuf, &body, grouping, allowed);
    for family in decoded.map_err(|error| format!("family {name:?}: {error}"))? {
        let key = family.shape.name.to_string();
        restored
            .families
            .insert(key, (family.numbers, family.shape, pushed_ns));
    }
    Ok(())
}

/// Returns the time in one of the gateway's own gauges; the time of its push is used if equal, as it is more precise.
fn stamp_ns(body: &[u8], pushed_ns: i64) -> Result<i64, String> {
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let round = parser.parse(Format::Protobuf, body, 0, &mut KeepLabels);
    let round = round.map_err(|error| error.to_string())?;
    let seconds = round.frame.values().first().copied().unwrap_or_default();
    let exact = pushed_ns as f64 / 1e9;
    Ok(if seconds == exact {
        pushed_ns
    } else {
        (seconds * 1e9) as i64
    })
}

fn delimited(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 5);
    put_varint(&mut out, message.len() as u64);
    out.extend_from_slice(message);
    out
}

/// Parses a `time.Time` in Go's binary encoding: version, seconds since year 1, nanoseconds, offset.
fn time_ns(bytes: &[u8]) -> Result<i64, String> {
    const UNIX_SECONDS: i64 = 62_135_596_800;
    let (Some(seconds), Some(nanos)) = (
        bytes.get(1..9).and_then(|bytes| bytes.try_into().ok()),
        bytes.get(9..13).and_then(|bytes| bytes.try_into().ok()),
    ) else {
        return if bytes.is_empty() {
            Ok(0)
        } else {
            Err("not a time".to_owned())
        };
    };
    let seconds = i64::from_be_bytes(seconds).wrapping_sub(UNIX_SECONDS);
    let nanos = i64::from(i32::from_be_bytes(nanos));
    Ok(seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanos)
        .max(0))
}
