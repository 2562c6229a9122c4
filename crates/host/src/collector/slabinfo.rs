//! Slab caches of the kernel. Only root may read them.
//!
//! Invariant: the columns are those of version 2.1, which every kernel since 2.6.10 prints.

use crate::config::{self, HostConfig};
use crate::error::{HostError, ParseError};
use crate::filter::Filter;
use crate::proc_table::{ProcTable, Table};
use crate::rows::Rows;
use crate::scan::{each_line, label_text, next_field, number};
use crate::sink::Sink;
use crate::table;

pub(crate) struct Slabinfo {
    filter: Filter,
}

pub(crate) fn new(config: &HostConfig) -> Result<ProcTable<Slabinfo>, HostError> {
    let filter = config.slabs.compile_both(&config::SLABS)?;
    Ok(ProcTable::new(Slabinfo { filter }, &config.procfs))
}

impl Table for Slabinfo {
    const FILE: &'static str = "slabinfo";

    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError> {
        each_line(text, |mut line| {
            if line.starts_with(b"slabinfo -") || line.starts_with(b"#") {
                return Ok(());
            }
            let error = "a slab cache and its numbers";
            let name = next_field(&mut line).ok_or(error)?;
            let mut values = [0.0; 5];
            for value in &mut values {
                let field = next_field(&mut line).and_then(number);
                *value = field.ok_or(error)? as f64;
            }
            let filter = &self.filter;
            rows.set(&[name], &values, out, |out| match filter.keeps(name) {
                true => {
                    let labels = [("slab", &*label_text(name))];
                    table::add(include_str!("slabinfo.txt"), &labels, out)
                }
                false => Vec::new(),
            });
            Ok(())
        })
    }
}
