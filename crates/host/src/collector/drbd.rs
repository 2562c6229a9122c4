//! Replicated block devices of DRBD 8.
//!
//! Invariant: words that are not `key:value` of a known key say nothing.

use std::path::Path;

use crate::error::ParseError;
use crate::proc_table::{ProcTable, Table};
use crate::rows::Rows;
use crate::scan::{each_line, float, label_text, next_field, number};
use crate::sink::{Desc, Sink};
use crate::table;

/// Keys of numbers, and what a unit is worth.
const NUMBERS: &str = include_str!("drbd.txt");

const CONNECTED: Desc<'static> = Desc::gauge(
    "node_drbd_connected",
    "Whether the device is connected to its peer.",
);
const PRIMARY: Desc<'static> = Desc::gauge(
    "node_drbd_node_role_is_primary",
    "Whether the node has the primary role.",
);
const UP_TO_DATE: Desc<'static> = Desc::gauge(
    "node_drbd_disk_state_is_up_to_date",
    "Whether the node's disk is up to date.",
);

pub(crate) struct Drbd {
    numbers: Vec<(&'static str, f64, Desc<'static>)>,
}

pub(crate) fn new(procfs: &Path) -> ProcTable<Drbd> {
    let rows = table::rows(NUMBERS);
    let numbers = rows.map(|([key, factor], desc)| (key, table::number(factor), desc));
    let table = Drbd {
        numbers: numbers.collect(),
    };
    ProcTable::new(table, procfs)
}

impl Table for Drbd {
    const FILE: &'static str = "drbd";

    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError> {
        let mut device = "unknown".to_owned();
        each_line(text, |mut line| {
            let error = "key:value";
            while let Some(word) = next_field(&mut line) {
                let Some(at) = memchr::memchr(b':', word) else {
                    continue;
                };
                let (key, value) = (&word[..at], &word[at + 1..]);
                if let Some(minor) = number(key).filter(|_| value.is_empty()) {
                    device = format!("drbd{minor}");
                    continue;
                }
                let labels = [("device", &*device)];
                let place = [device.as_bytes(), key];
                if let Some((_, factor, desc)) =
                    self.numbers.iter().find(|row| row.0.as_bytes() == key)
                {
                    let value = float(value).ok_or(error)? * factor;
                    rows.set_all(&place, &[value], out, (&[*desc], &labels));
                    continue;
                }
                let (desc, good) = match key {
                    b"cs" => {
                        let connected = f64::from(u8::from(value == b"Connected"));
                        rows.set_all(&place, &[connected], out, (&[CONNECTED], &labels));
                        continue;
                    }
                    b"ro" => (PRIMARY, "Primary"),
                    b"ds" => (UP_TO_DATE, "UpToDate"),
                    _ => continue,
                };
                let value = label_text(value);
                let (local, remote) = value.split_once('/').ok_or(error)?;
                let values = [local, remote].map(|state| f64::from(u8::from(state == good)));
                rows.set(&place, &values, out, |out| {
                    let add = |node| out.add(&desc, &[labels[0], ("node", node)]);
                    ["local", "remote"].map(add).into()
                });
            }
            Ok(())
        })
    }
}
