//! Swap devices and files.
//!
//! Invariant: names are as the kernel prints them, with blanks escaped.

use crate::error::ParseError;
use crate::proc_table::Table;
use crate::rows::Rows;
use crate::scan::{each_line_below, float, label_text, next_field};
use crate::sink::Sink;
use crate::table;

const UNIT_BYTES: f64 = 1024.0;

pub(crate) struct Swap;

impl Table for Swap {
    const FILE: &'static str = "swaps";

    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError> {
        each_line_below(1, text, |mut line| {
            let error = "a name, a type, sizes and a priority";
            let device = next_field(&mut line).ok_or(error)?;
            let swap_type = next_field(&mut line).ok_or(error)?;
            let mut next = || next_field(&mut line).and_then(float).ok_or(error);
            let values = [next()? * UNIT_BYTES, next()? * UNIT_BYTES, next()?];
            rows.set(&[device, swap_type], &values, out, |out| {
                let (device, swap_type) = (label_text(device), label_text(swap_type));
                let labels = [("device", &*device), ("swap_type", &*swap_type)];
                table::add(include_str!("swap.txt"), &labels, out)
            });
            Ok(())
        })
    }
}
