//! Control groups by controller (version 1's list, which version 2 keeps).
//!
//! Invariant: the header names the columns and is skipped.

use crate::error::ParseError;
use crate::proc_table::Table;
use crate::rows::Rows;
use crate::scan::{each_line, label_text, next_field, number};
use crate::sink::Sink;
use crate::table;

pub(crate) struct Cgroups;

impl Table for Cgroups {
    const FILE: &'static str = "cgroups";

    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError> {
        each_line(text, |mut line| {
            if line.starts_with(b"#") {
                return Ok(());
            }
            let error = "a controller, its hierarchy, its groups, and whether it is enabled";
            let name = next_field(&mut line).ok_or(error)?;
            let mut numbers = [0.0; 3];
            for value in &mut numbers {
                *value = next_field(&mut line).and_then(number).ok_or(error)? as f64;
            }
            let [_, groups, enabled] = numbers;
            rows.set(&[name], &[groups, enabled], out, |out| {
                let labels = [("subsys_name", &*label_text(name))];
                table::add(include_str!("cgroups.txt"), &labels, out)
            });
            Ok(())
        })
    }
}
