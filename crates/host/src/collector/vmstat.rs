//! `/proc/vmstat`: the fields a pattern selects.
//!
//! Invariant: the pattern sees each field name once; afterwards the name's place in the file decides.

use regex::bytes::Regex;

use crate::collector::{Collector, Ctx};
use crate::config::CollectorKind;
use crate::error::{HostError, ParseError};
use crate::kept::{End, KeptFile};
use crate::roster::Roster;
use crate::scan::{label_text, next_field, next_line, number};
use crate::sink::{Kind, Sink, Slot};

pub(crate) struct Vmstat {
    file: KeptFile,
    fields: Regex,
    lines: Roster<Box<[u8]>, Option<Slot>>,
}

impl Vmstat {
    pub(crate) fn new(file: KeptFile, fields: Regex) -> Self {
        Self {
            file,
            fields,
            lines: Roster::new(),
        }
    }
}

impl Collector for Vmstat {
    fn kind(&self) -> CollectorKind {
        CollectorKind::Vmstat
    }

    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let known = self.lines.len();
        // The set of fields is fixed while the kernel runs: as many lines as last time are all of them.
        let text = self.file.read_enough(ctx.buf, End::Below(2048), |text| {
            known > 0 && text.ends_with(b"\n") && memchr::memchr_iter(b'\n', text).count() >= known
        })?;
        let Self { fields, lines, .. } = self;
        lines.begin();
        let parsed = parse(text, |key, value| {
            let slot = match lines.find(|known, _| **known == *key) {
                Some(slot) => *slot,
                None => *lines.insert(key.into(), fields.is_match(key).then(|| new_slot(key, out))),
            };
            match (slot, number(value)) {
                (Some(slot), Some(value)) => out.set(slot, value as f64),
                (Some(_), None) => return Err("a number after the field's name"),
                (None, _) => {}
            }
            Ok(())
        });
        parsed.map_err(|source| HostError::Parse {
            path: self.file.path().to_path_buf(),
            source,
        })
    }
}

/// Calls `each` with every field's name and the text of its value.
pub(crate) fn parse(
    mut text: &[u8],
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), &'static str>,
) -> Result<(), ParseError> {
    let mut line_number = 0;
    while let Some(mut line) = next_line(&mut text) {
        line_number += 1;
        let error = |expected| ParseError {
            line: line_number,
            expected,
        };
        let Some(key) = next_field(&mut line) else {
            continue;
        };
        let value = next_field(&mut line).ok_or(error("a value after the field's name"))?;
        each(key, value).map_err(error)?;
    }
    Ok(())
}

fn new_slot(key: &[u8], out: &mut Sink) -> Slot {
    let key = label_text(key);
    let help = format!("/proc/vmstat information field {key}.");
    out.single(&format!("node_vmstat_{key}"), Kind::Unknown, &help)
}
