//! Slab caches of the kernel. Only root may read them.
//!
//! Invariant: the columns are those of version 2.1, which every kernel since 2.6.10 prints.

use crate::config::{self, HostConfig};
use crate::error::{HostError, ParseError};
use crate::filter::Filter;
use crate::proc_table::{ProcTable, Table};
use crate::rows::Rows;
use crate::scan::{each_line, label_text, next_field, number};
use crate::sink::{Desc, Sink};

const COLUMNS: [Desc<'static>; 5] = [
    Desc::gauge(
        "node_slabinfo_active_objects",
        "Objects of the slab cache in use.",
    ),
    Desc::gauge(
        "node_slabinfo_objects",
        "Objects of the slab cache, in use or not.",
    ),
    Desc::gauge(
        "node_slabinfo_object_size_bytes",
        "Size of an object of the slab cache.",
    ),
    Desc::gauge(
        "node_slabinfo_objects_per_slab",
        "Objects in each slab of the cache.",
    ),
    Desc::gauge(
        "node_slabinfo_pages_per_slab",
        "Pages of each slab of the cache.",
    ),
];

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
            let mut values = [0.0; COLUMNS.len()];
            for value in &mut values {
                let field = next_field(&mut line).and_then(number);
                *value = field.ok_or(error)? as f64;
            }
            let filter = &self.filter;
            rows.set(&[name], &values, out, |out| match filter.keeps(name) {
                true => {
                    let name = label_text(name);
                    COLUMNS
                        .map(|desc| out.add(&desc, &[("slab", &name)]))
                        .into()
                }
                false => Vec::new(),
            });
            Ok(())
        })
    }
}
