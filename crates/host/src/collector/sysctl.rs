//! Kernel parameters that the configuration names.
//!
//! Invariant: a parameter is one number or text, or several without names (label `index`) or with names for all.

use std::path::Path;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::open_file::{End, OpenFile};
use crate::rows::Rows;
use crate::scan::{float, label_text, next_field};
use crate::sink::{Desc, Sink};
use crate::sysdir;

const INFO: Desc<'static> = Desc::gauge(
    "node_sysctl_info",
    "Text of a kernel parameter; the value is 1.",
);

pub(crate) struct Sysctl {
    parameters: Vec<Parameter>,
    rows: Rows,
}

struct Parameter {
    /// As given, with dots.
    name: String,
    /// Names of its values; empty for one value, or an index.
    keys: Vec<String>,
    is_number: bool,
    file: OpenFile,
}

impl Sysctl {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let numbers = config.sysctl_numbers.iter().map(|include| (include, true));
        let infos = config.sysctl_infos.iter().map(|include| (include, false));
        let parameters = numbers
            .chain(infos)
            .map(|(include, is_number)| Parameter::new(include, is_number, &config.procfs));
        Self {
            parameters: parameters.collect(),
            rows: Rows::new(),
        }
    }
}

impl Parameter {
    fn new(include: &str, is_number: bool, procfs: &Path) -> Self {
        let (name, keys) = include.split_once(':').unwrap_or((include, ""));
        let keys = keys.split(',').filter(|key| !key.is_empty());
        Self {
            keys: keys.map(str::to_owned).collect(),
            is_number,
            file: OpenFile::new(procfs.join("sys").join(name.replace('.', "/"))),
            name: name.to_owned(),
        }
    }

    fn collect(
        &mut self,
        ctx: &mut Ctx<'_>,
        rows: &mut Rows,
        out: &mut Sink,
    ) -> Result<(), HostError> {
        // Values are separated by blanks, tabs or newlines.
        let text = self.file.read(ctx.buf, End::Short)?;
        let lines = text.split(|byte| *byte == b'\n');
        let words = lines.flat_map(|mut line| std::iter::from_fn(move || next_field(&mut line)));
        let words: Vec<&[u8]> = words.collect();
        let expected = match (self.keys.len(), words.len()) {
            (_, 0) => Some("a value"),
            (0, _) => None,
            (keys, values) if keys == values && self.is_number && values > 1 => None,
            (_, 1) => Some("several values, since names for them are given"),
            _ if !self.is_number => Some("a text, which can't have names for its parts"),
            _ => Some("as many values as names are given"),
        };
        if let Some(expected) = expected {
            return Err(self.file.expected(1, expected));
        }
        for (at, word) in words.iter().enumerate() {
            let place = [self.name.as_bytes(), &at.to_ne_bytes()[..]];
            if !self.is_number {
                self.set_info(at, word, rows, out);
                continue;
            }
            let Some(value) = float(word) else {
                return Err(self.file.expected(1, "a number"));
            };
            let is_indexed = self.keys.is_empty() && words.len() > 1;
            let place = [
                place[0],
                place[1],
                &[u8::from(is_indexed), u8::from(self.keys.is_empty())],
            ];
            rows.set(&place, &[value], out, |out| {
                let (name, mut help) = (
                    sysdir::sanitized(&self.name),
                    format!("Kernel parameter {}", self.name),
                );
                let name = match self.keys.get(at) {
                    Some(key) => {
                        help.push_str(&format!(", value {at}"));
                        format!("node_sysctl_{name}_{key}")
                    }
                    None => format!("node_sysctl_{name}"),
                };
                help.push('.');
                let index = at.to_string();
                let labels = [("index", &*index)];
                let labels = if is_indexed { &labels[..] } else { &[] };
                vec![out.add(&Desc::unknown(&name, &help), labels)]
            });
        }
        Ok(())
    }

    fn set_info(&self, at: usize, word: &[u8], rows: &mut Rows, out: &mut Sink) {
        let index = at.to_string();
        rows.set(
            &[self.name.as_bytes(), index.as_bytes(), word],
            &[1.0],
            out,
            |out| {
                let value = label_text(word);
                let labels = [("name", &*self.name), ("value", &value), ("index", &index)];
                vec![out.add(&INFO, &labels)]
            },
        );
    }
}

impl Collector for Sysctl {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let Self { parameters, rows } = self;
        rows.begin();
        for parameter in parameters {
            parameter.collect(ctx, rows, out)?;
        }
        rows.end(out);
        Ok(())
    }
}
