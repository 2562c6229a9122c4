//! Reads records of all versions.

use super::{
    DELETION, FAILURE, Groups, NUMBERS, PUSH, PUSH_V1, Restored, SAME, STATE, STATE_V1, WHOLE,
};
use crate::{
    family::{Numbers, Part, Shape, native_cell},
    grouping::Grouping,
    state::{Settings, remember},
};
use narthex_model::{
    Histogram, LabelSet, MetricType,
    cell::{self, Cell},
    histogram::{ResetHint, Span},
};
use std::sync::Arc;

/// Applies a record.
///
/// # Errors
/// Returns what is wrong; a record that does not fit earlier ones also removes the family it is about.
pub(crate) fn apply(bytes: &[u8], groups: &mut Groups) -> Result<(), &'static str> {
    let mut reader = Reader {
        rest: bytes,
        is_v1: false,
    };
    let kind = reader.byte()?;
    reader.is_v1 = matches!(kind, PUSH_V1 | STATE_V1);
    let grouping = reader.grouping()?;
    match kind {
        PUSH | PUSH_V1 => {
            let pushed_ns = reader.time()?;
            let replace = reader.byte()? != 0;
            let (settings, ids) = (reader.settings()?, reader.ids()?);
            let group = groups.entry(grouping).or_default();
            (group.pushed_ns, group.settings) = (pushed_ns, settings);
            ids.into_iter().for_each(|id| remember(&mut group.ids, id));
            reader.families(group, pushed_ns, replace)?;
        }
        STATE | STATE_V1 => {
            let mut group = Restored {
                pushed_ns: reader.time()?,
                failed_ns: reader.time()?,
                settings: reader.settings()?,
                ids: reader.ids()?.into(),
                ..Restored::default()
            };
            for _ in 0..reader.number()? {
                let name = reader.text()?;
                let pushed_ns = reader.time()?;
                let shape = reader.shape(name)?;
                let numbers = reader.numbers(&shape)?;
                group
                    .families
                    .insert(name.to_owned(), (numbers, Arc::new(shape), pushed_ns));
            }
            groups.insert(grouping, group);
        }
        FAILURE => groups.entry(grouping).or_default().failed_ns = reader.time()?,
        DELETION => {
            groups.remove(&grouping);
        }
        _ => return Err("a record of an unknown kind"),
    }
    if reader.rest.is_empty() {
        Ok(())
    } else {
        Err("bytes behind a record")
    }
}

/// The unread part of a record.
struct Reader<'a> {
    rest: &'a [u8],
    /// Whether the record has the form of version 1, which knows neither intervals nor times.
    is_v1: bool,
}

const SHORT: &str = "a record ends too early";

impl<'a> Reader<'a> {
    fn take_bytes(&mut self, len: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        self.array().map(|[byte]| byte)
    }

    fn time(&mut self) -> Result<i64, &'static str> {
        self.array().map(i64::from_le_bytes)
    }

    fn double(&mut self) -> Result<f64, &'static str> {
        self.array()
            .map(|bytes| f64::from_bits(u64::from_le_bytes(bytes)))
    }

    fn number(&mut self) -> Result<usize, &'static str> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(value).map_err(|_| "a number is too large");
            }
        }
        Err("a number is too long")
    }

    /// Reads a count of items that take at least `least_bytes` each.
    fn len(&mut self, least_bytes: usize) -> Result<usize, &'static str> {
        let len = self.number()?;
        if len > self.rest.len() / least_bytes.max(1) {
            return Err(SHORT);
        }
        Ok(len)
    }

    /// Reads a counted list of items that take at least `least_bytes` each.
    fn list<T>(
        &mut self,
        least_bytes: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, &'static str> {
        (0..self.len(least_bytes)?).map(|_| read(self)).collect()
    }

    fn settings(&mut self) -> Result<Settings, &'static str> {
        let ttl_ms = self.period_ms()?;
        let interval_ms = if self.is_v1 { None } else { self.period_ms()? };
        Ok(Settings {
            ttl_ms,
            interval_ms,
        })
    }

    fn ids(&mut self) -> Result<Vec<String>, &'static str> {
        if self.is_v1 {
            return Ok(Vec::new());
        }
        self.list(1, |reader| Ok(reader.text()?.to_owned()))
    }

    fn period_ms(&mut self) -> Result<Option<u64>, &'static str> {
        Ok((self.number()? as u64).checked_sub(1))
    }

    fn text(&mut self) -> Result<&'a str, &'static str> {
        let len = self.number()?;
        str::from_utf8(self.take_bytes(len)?).map_err(|_| "a text is not UTF-8")
    }

    fn grouping(&mut self) -> Result<Grouping, &'static str> {
        let pair = |reader: &mut Self| Ok((reader.text()?.to_owned(), reader.text()?.to_owned()));
        Ok(Grouping::new(self.list(2, pair)?))
    }

    fn families(
        &mut self,
        group: &mut Restored,
        pushed_ns: i64,
        replace: bool,
    ) -> Result<(), &'static str> {
        let mut before = std::mem::take(&mut group.families);
        let mut misfit = Ok(());
        for _ in 0..self.len(2)? {
            let name = self.text()?;
            let known = before.remove(name);
            let (numbers, shape) = match (self.byte()?, known) {
                (SAME, Some((numbers, shape, _))) => (numbers, shape),
                (NUMBERS, Some((_, shape, _))) => (self.numbers(&shape)?, shape),
                (WHOLE, _) => {
                    let shape = self.shape(name)?;
                    (self.numbers(&shape)?, Arc::new(shape))
                }
                (SAME, None) => {
                    misfit = Err("a family that was not there before");
                    continue;
                }
                (NUMBERS, None) => {
                    self.any_numbers()?;
                    misfit = Err("numbers of a family that was not there before");
                    continue;
                }
                _ => return Err("a family in an unknown form"),
            };
            group
                .families
                .insert(name.to_owned(), (numbers, shape, pushed_ns));
        }
        if !replace {
            before.append(&mut group.families);
            group.families = before;
        }
        misfit
    }

    fn shape(&mut self, name: &str) -> Result<Shape, &'static str> {
        let metric_type = *MetricType::ALL
            .get(usize::from(self.byte()?))
            .ok_or("an unknown type")?;
        let mut shape = Shape::new(name.into(), metric_type, self.text()?.into());
        for _ in 0..self.len(2)? {
            let labels = self.list(2, |reader| Ok((reader.text()?, reader.text()?)))?;
            shape.parts.extend(self.list(1, Self::part)?);
            shape.end_metric(LabelSet::new(labels).intern());
        }
        shape.parts.shrink_to_fit();
        shape.metrics.shrink_to_fit();
        Ok(shape)
    }

    fn part(&mut self) -> Result<Part, &'static str> {
        Ok(match self.byte()? {
            0 => Part::Value,
            1 => Part::Point(self.double()?),
            2 => Part::Sum,
            3 => Part::Count,
            4 => Part::Native,
            _ => return Err("a part of an unknown kind"),
        })
    }

    fn numbers(&mut self, shape: &Shape) -> Result<Numbers, &'static str> {
        let numbers = self.any_numbers()?;
        let natives = numbers.natives.len();
        let is_native = |value: &f64| match Cell::decode(*value) {
            Cell::Histogram(at) if (at as usize) < natives => Some(true),
            Cell::Float(_) => Some(false),
            _ => None,
        };
        let fits = numbers.cells.len() == shape.parts.len()
            && (numbers.times_ms.is_empty() || numbers.times_ms.len() == numbers.cells.len())
            && numbers
                .cells
                .iter()
                .zip(&shape.parts)
                .all(|(value, part)| is_native(value) == Some(*part == Part::Native));
        if fits {
            Ok(numbers)
        } else {
            Err("numbers that do not fit their family")
        }
    }

    fn any_numbers(&mut self) -> Result<Numbers, &'static str> {
        let cell = |reader: &mut Self| {
            let value = reader.double()?;
            Ok(match Cell::decode(value) {
                Cell::Histogram(at) => native_cell(at as usize),
                _ => cell::canonical(value),
            })
        };
        Ok(Numbers {
            cells: self.list(8, cell)?,
            times_ms: if self.is_v1 {
                Vec::new()
            } else {
                self.list(8, Self::time)?
            },
            natives: self.list(32, |reader| reader.native().map(Arc::new))?,
        })
    }

    fn native(&mut self) -> Result<Histogram, &'static str> {
        let histogram_schema = self.array().map(i32::from_le_bytes)?;
        let flags = self.byte()?;
        let reset_hint = ResetHint::ALL.get(usize::from(flags & 0x7f));
        let reset_hint = *reset_hint.ok_or("an unknown reset hint")?;
        let integer_counts = flags & 0x80 != 0;
        let (zero_threshold, zero_count) = (self.double()?, self.double()?);
        let (count, sum) = (self.double()?, self.double()?);
        let (positive_spans, negative_spans) = (self.spans()?, self.spans()?);
        Ok(Histogram {
            histogram_schema,
            reset_hint,
            integer_counts,
            zero_threshold,
            zero_count,
            count,
            sum,
            positive_spans,
            negative_spans,
            positive_buckets: self.doubles()?,
            negative_buckets: self.doubles()?,
            custom_values: self.doubles()?,
        })
    }

    fn spans(&mut self) -> Result<Vec<Span>, &'static str> {
        self.list(8, |reader| {
            Ok(Span {
                offset: reader.array().map(i32::from_le_bytes)?,
                length: reader.array().map(u32::from_le_bytes)?,
            })
        })
    }

    fn doubles(&mut self) -> Result<Vec<f64>, &'static str> {
        self.list(8, Self::double)
    }
}
