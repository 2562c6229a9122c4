//! Interrupts by CPU, number and device.
//!
//! Invariant: a line without a column for each CPU and a description, such as `ERR`, is not exported.

use crate::config::{self, HostConfig};
use crate::error::{HostError, ParseError};
use crate::filter::Filter;
use crate::proc_table::{ProcTable, Table};
use crate::rows::Rows;
use crate::scan::{each_line_below, float, label_text, next_field, next_line, number};
use crate::sink::{Desc, Sink, Slot};

const INTERRUPTS: Desc<'static> = Desc::counter(
    "node_interrupts_total",
    "Interrupts handled, by CPU, number or name, controller and devices.",
);

pub(crate) struct Interrupts {
    filter: Filter,
    include_zeros: bool,
    values: Vec<f64>,
}

pub(crate) fn new(config: &HostConfig) -> Result<ProcTable<Interrupts>, HostError> {
    let table = Interrupts {
        filter: config.interrupts.compile(&config::INTERRUPTS_NAME)?,
        include_zeros: config.interrupts_zeros,
        values: Vec::new(),
    };
    Ok(ProcTable::new(table, &config.procfs))
}

impl Table for Interrupts {
    const FILE: &'static str = "interrupts";

    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError> {
        let mut header = next_line(&mut { text }).unwrap_or_default();
        let mut cpus = 0;
        while next_field(&mut header).is_some() {
            cpus += 1;
        }
        each_line_below(1, text, |line| {
            // On arm64 nothing need be between a name and the first number.
            let Some(at) = memchr::memchr(b':', line) else {
                return Ok(());
            };
            let (name, mut rest) = (line[..at].trim_ascii_start(), &line[at + 1..]);
            self.values.clear();
            let mut is_number = true;
            for _ in 0..cpus {
                let Some(field) = next_field(&mut rest) else {
                    break;
                };
                let value = float(field);
                is_number &= value.is_some();
                self.values.push(value.unwrap_or_default());
            }
            let details = rest.trim_ascii();
            if self.values.len() < cpus || details.is_empty() {
                return Ok(());
            }
            if !is_number {
                return Err("a number for each CPU");
            }
            if !self.include_zeros {
                let zeros = self.values.iter_mut().filter(|value| **value == 0.0);
                zeros.for_each(|value| *value = f64::NAN);
            }
            let Self { filter, values, .. } = &*self;
            let add = |out: &mut Sink| add(name, details, cpus, filter, out);
            rows.set(&[name, details], values, out, add);
            Ok(())
        })
    }
}

/// Adds an interrupt's series, one for each CPU, unless it is filtered out.
fn add(name: &[u8], details: &[u8], cpus: usize, filter: &Filter, out: &mut Sink) -> Vec<Slot> {
    let details = label_text(details);
    let mut words = details.split_ascii_whitespace();
    // A numbered interrupt has its controller first.
    let info: Vec<&str> = match number(name) {
        Some(_) => words.next().into_iter().collect(),
        None => words.by_ref().collect(),
    };
    let (info, devices) = (info.join(" "), words.collect::<Vec<_>>().join(" "));
    let name = label_text(name);
    if !filter.keeps(format!("{name};{info};{devices}").as_bytes()) {
        return Vec::new();
    }
    let series = (0..cpus).map(|cpu| {
        let labels = [
            ("cpu", &*cpu.to_string()),
            ("type", &name),
            ("info", &info),
            ("devices", &devices),
        ];
        out.add(&INTERRUPTS, &labels)
    });
    series.collect()
}
