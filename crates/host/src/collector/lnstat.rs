//! Counters of network caches by CPU: the tables of `net/stat`.
//!
//! Invariant: a table's header names its columns; the line number is the CPU.

use std::path::PathBuf;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::rows::Rows;
use crate::scan::{each_line_below, hex, label_text, next_field, next_line};
use crate::sink::{Desc, Sink};
use crate::sysdir;

const HELP: &str = "Counter of a network cache.";

pub(crate) struct Lnstat {
    directory: PathBuf,
    tables: Vec<(String, OpenFile)>,
    rows: Rows,
    values: Vec<f64>,
}

impl Lnstat {
    pub(crate) fn new(config: &HostConfig) -> Self {
        Self {
            directory: config.procfs.join("net/stat"),
            tables: Vec::new(),
            rows: Rows::new(),
            values: Vec::new(),
        }
    }
}

impl Collector for Lnstat {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        if ctx.refresh {
            let file = |name: String| {
                let file = OpenFile::new(self.directory.join(&name));
                (name, file)
            };
            let names = sysdir::list_if_there(&self.directory)?;
            self.tables = names.into_iter().map(file).collect();
        }
        let Self {
            tables,
            rows,
            values,
            ..
        } = self;
        rows.begin();
        for (name, file) in tables {
            let text = file.read(ctx.buf, End::Empty)?;
            let parsed = parse(name, text, values, rows, out);
            parsed.map_err(|source| file.malformed(source))?;
        }
        rows.end(out);
        Ok(())
    }
}

pub(crate) fn parse(
    table: &str,
    text: &[u8],
    values: &mut Vec<f64>,
    rows: &mut Rows,
    out: &mut Sink,
) -> Result<(), ParseError> {
    let header = next_line(&mut { text }).unwrap_or_default();
    let mut cpus = 0..;
    each_line_below(1, text, |mut line| {
        values.clear();
        while let Some(field) = next_field(&mut line) {
            values.push(hex(field).ok_or("hexadecimal numbers")? as f64);
        }
        let cpu = cpus.next().unwrap_or(u32::MAX).to_string();
        let count = values.len().to_ne_bytes();
        rows.set(
            &[table.as_bytes(), cpu.as_bytes(), &count],
            values,
            out,
            |out| {
                let mut header = header;
                let names = std::iter::from_fn(|| next_field(&mut header));
                let labels = [("subsystem", table), ("cpu", &*cpu)];
                let add = |name: &[u8]| {
                    let name = sysdir::metric_name(&label_text(name));
                    let name = format!("node_lnstat_{name}_total");
                    out.add(&Desc::counter(&name, HELP), &labels)
                };
                names.map(add).collect()
            },
        );
        Ok(())
    })
}
