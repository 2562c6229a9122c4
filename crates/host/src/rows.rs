//! Series of things that a collector lists anew in every round: lines of a file, processes, units.
//!
//! Invariant: a known thing costs one comparison of its key while the order stays; one that a round does not list loses
//! its series in that round.

use crate::ordered_cache::OrderedCache;
use crate::sink::{Desc, Sink, Slot};
use crate::table;

#[derive(Default)]
pub(crate) struct Rows {
    things: OrderedCache<Box<[u8]>, Vec<Slot>>,
}

/// Separates the parts of a key; no kernel file contains it.
const SEPARATOR: u8 = 0;

impl Rows {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn begin(&mut self) {
        self.things.begin();
    }

    /// Sets the values of the thing whose key consists of `parts`; NaN means no value in this round.
    ///
    /// When the thing is new, or has another number of values, `add` adds a series for each value, or none at all for a
    /// thing that is filtered out.
    pub(crate) fn set(
        &mut self,
        parts: &[&[u8]],
        values: &[f64],
        out: &mut Sink,
        add: impl FnOnce(&mut Sink) -> Vec<Slot>,
    ) {
        let slots = match self.things.find(|key, _| is_key(key, parts)) {
            Some(slots) => slots,
            None => self.things.insert(key(parts), add(out)),
        };
        for (slot, value) in slots.iter().zip(values) {
            if !value.is_nan() {
                out.set(*slot, *value);
            }
        }
    }

    /// As [`set`](Self::set), with one family for each value, all with the same labels.
    pub(crate) fn set_all(
        &mut self,
        parts: &[&[u8]],
        values: &[f64],
        out: &mut Sink,
        (descs, labels): (&[Desc<'_>], &[(&str, &str)]),
    ) {
        let add = |out: &mut Sink| descs.iter().map(|desc| out.add(desc, labels)).collect();
        self.set(parts, values, out, add);
    }

    /// As [`set`](Self::set), of a CPU, with the families of a table.
    pub(crate) fn set_cpu(
        &mut self,
        cpu: u64,
        values: &[f64],
        table: &'static str,
        out: &mut Sink,
    ) {
        self.set(&[&cpu.to_ne_bytes()], values, out, |out| {
            table::add(table, &[("cpu", &cpu.to_string())], out)
        });
    }

    /// Ends the series of things that this round has not listed.
    pub(crate) fn end(&mut self, out: &mut Sink) {
        self.things.sweep(|_, slots| out.retire_all(slots));
    }
}

fn key(parts: &[&[u8]]) -> Box<[u8]> {
    parts.join(&SEPARATOR).into()
}

fn is_key(key: &[u8], parts: &[&[u8]]) -> bool {
    let mut rest = Some(key);
    for (at, part) in parts.iter().enumerate() {
        let separated = match at {
            0 => rest,
            _ => rest.and_then(|rest| rest.strip_prefix(&[SEPARATOR])),
        };
        rest = separated.and_then(|rest| rest.strip_prefix(*part));
    }
    rest == Some(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::LabelSet;

    const DESCS: [Desc<'static>; 2] = [Desc::gauge("a", "A."), Desc::gauge("b", "B.")];

    fn shown(sink: &mut Sink) -> Vec<String> {
        let frame = sink.finish(0);
        let labels = frame.present().iter().map(|at| {
            let id = narthex_model::ColumnId(u32::try_from(at).expect("small"));
            format!("{}={}", frame.schema().labels(id), frame.values()[at])
        });
        labels.collect()
    }

    #[test]
    fn things_come_change_and_go() {
        let mut sink = Sink::new(LabelSet::empty());
        let mut rows = Rows::new();
        let mut round = |listed: &[(&str, [f64; 2])]| {
            sink.begin();
            rows.begin();
            for (name, values) in listed {
                let labels = [("x", *name)];
                rows.set_all(
                    &[name.as_bytes(), b"k"],
                    values,
                    &mut sink,
                    (&DESCS, &labels),
                );
            }
            rows.end(&mut sink);
            shown(&mut sink)
        };
        assert_eq!(
            round(&[("1", [1.0, f64::NAN]), ("2", [2.0, 3.0])]),
            ["a{x=\"1\"}=1", "a{x=\"2\"}=2", "b{x=\"2\"}=3"]
        );
        assert_eq!(
            round(&[("1", [4.0, 5.0])]),
            ["a{x=\"1\"}=4", "b{x=\"1\"}=5"]
        );
        assert_eq!(round(&[]), [""; 0]);
        assert_eq!(sink.schema().live(), 0);
    }

    #[test]
    fn parts_are_told_apart() {
        assert!(is_key(&key(&[b"a", b"b"]), &[b"a", b"b"]));
        assert!(!is_key(&key(&[b"a", b"b"]), &[b"ab", b""]));
        assert!(!is_key(&key(&[b"a", b"bc"]), &[b"a", b"b"]));
        assert!(!is_key(&key(&[b"ab"]), &[b"a", b"b"]));
        assert!(is_key(&key(&[b""]), &[b""]));
    }
}
