//! Label sets by number, each log file for itself.
//!
//! **Invariant:** a file defines every name, label and set before it refers to it, so that it can be read without
//! any other file; numbers count from 0 in order of definition.

use super::record::{self, tag};
use crate::bytes::{Malformed, Reader, put_bytes, put_varint};
use narthex_model::{Label, LabelSet};
use std::collections::HashMap;

/// What the file being written has defined so far.
#[derive(Debug, Default)]
pub(crate) struct SymbolWriter {
    names: HashMap<Box<str>, u32>,
    labels: HashMap<Label, u32, foldhash::fast::RandomState>,
    sets: HashMap<LabelSet, u32, foldhash::fast::RandomState>,
}

impl SymbolWriter {
    /// Returns the number of `set`, defining it in `out` first where the file does not know it.
    pub(crate) fn set(&mut self, set: &LabelSet, out: &mut Vec<u8>) -> u32 {
        if let Some(id) = self.sets.get(set) {
            return *id;
        }
        out.push(tag::SET);
        put_varint(out, set.len() as u64);
        for label in set {
            self.put_label(label, out);
        }
        let id = record::count(self.sets.len());
        self.sets.insert(set.clone(), id);
        id
    }

    fn put_label(&mut self, label: &Label, out: &mut Vec<u8>) {
        if let Some(id) = self.labels.get(label) {
            put_varint(out, u64::from(*id) + 1);
            return;
        }
        put_varint(out, 0);
        match self.names.get(label.name()) {
            Some(id) => put_varint(out, u64::from(*id) + 1),
            None => {
                put_varint(out, 0);
                put_bytes(out, label.name().as_bytes());
                self.names
                    .insert(label.name().into(), record::count(self.names.len()));
            }
        }
        put_bytes(out, label.value().as_bytes());
        self.labels
            .insert(label.clone(), record::count(self.labels.len()));
    }
}

/// What the file being read has defined so far.
#[derive(Debug, Default)]
pub(crate) struct SymbolReader {
    names: Vec<Box<str>>,
    labels: Vec<Label>,
    sets: Vec<LabelSet>,
}

impl SymbolReader {
    /// Reads the definition of a set, behind its tag.
    pub(crate) fn define(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let len = reader.varint()?;
        let mut labels = Vec::new();
        for _ in 0..len {
            labels.push(self.label(reader)?);
        }
        if !labels.is_sorted_by(|a, b| a.name() < b.name()) {
            return Err(reader.malformed("label order"));
        }
        self.sets.push(LabelSet::from_labels(labels).intern());
        Ok(())
    }

    fn label(&mut self, reader: &mut Reader<'_>) -> Result<Label, Malformed> {
        let unknown = reader.malformed("label number");
        match reader.varint()? {
            0 => {}
            id => return self.labels.get(index(id)).cloned().ok_or(unknown),
        }
        let unknown = reader.malformed("name number");
        let name = match reader.varint()? {
            0 => {
                self.names.push(reader.text()?.into());
                self.names.last().expect("a name was pushed")
            }
            id => self.names.get(index(id)).ok_or(unknown)?,
        };
        let label = Label::new(name, reader.text()?);
        self.labels.push(label.clone());
        Ok(label)
    }

    /// Returns the set numbered `id`.
    pub(crate) fn set(&self, id: u64) -> Option<&LabelSet> {
        self.sets.get(usize::try_from(id).ok()?)
    }
}

fn index(id: u64) -> usize {
    usize::try_from(id - 1).unwrap_or(usize::MAX)
}
