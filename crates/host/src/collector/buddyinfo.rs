//! Free blocks of memory by node, zone and size.
//!
//! Invariant: a block's size is its order, the power of two of its pages.

use crate::error::ParseError;
use crate::proc_table::Table;
use crate::rows::Rows;
use crate::scan::{each_line, float, label_text, next_field};
use crate::sink::{Desc, Sink};

const BLOCKS: Desc<'static> = Desc::gauge(
    "node_buddyinfo_blocks",
    "Free blocks of 2^size pages, by node and zone.",
);

#[derive(Default)]
pub(crate) struct Buddyinfo {
    values: Vec<f64>,
}

impl Table for Buddyinfo {
    const FILE: &'static str = "buddyinfo";

    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError> {
        each_line(text, |mut line| {
            let error = "a node, a zone and numbers of blocks";
            // `Node 0, zone Normal 1 2 …`
            let mut word = || next_field(&mut line).ok_or(error);
            let (_, node, _, zone) = (word()?, word()?, word()?, word()?);
            let node = node.strip_suffix(b",").unwrap_or(node);
            let zone = zone.strip_suffix(b",").unwrap_or(zone);
            self.values.clear();
            while let Some(field) = next_field(&mut line) {
                self.values.push(float(field).ok_or(error)?);
            }
            let orders = self.values.len();
            rows.set(
                &[node, zone, &orders.to_ne_bytes()],
                &self.values,
                out,
                |out| {
                    let (node, zone) = (label_text(node), label_text(zone));
                    let add = |order: usize| {
                        let size = order.to_string();
                        out.add(
                            &BLOCKS,
                            &[("node", &node), ("zone", &zone), ("size", &size)],
                        )
                    };
                    (0..orders).map(add).collect()
                },
            );
            Ok(())
        })
    }
}
