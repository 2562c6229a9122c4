//! Exemplars of a block's series.
//!
//! **Invariant:** exemplars are returned as stored, ordered by series and time, without duplicates.

use super::format::SectionKind;
use super::reader::Block;
use crate::bytes::{Malformed, Reader, put_bytes, put_signed, put_varint};
use crate::error::TsdbError;
use narthex_model::{Exemplar, Label, LabelSet};
use std::collections::BTreeMap;

/// An exemplar and its series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeriesExemplar {
    /// Labels that the series shares with its strip.
    pub(crate) common: LabelSet,
    /// The series' other labels.
    pub(crate) local: LabelSet,
    pub(crate) time_ms: i64,
    pub(crate) exemplar: Exemplar,
}

/// Exemplars by the numbers of the series' sets.
pub(super) type BySets = BTreeMap<(u32, u32), Vec<(i64, Exemplar)>>;

/// Returns the section's bytes.
pub(super) fn encode(all: &BySets) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, all.len() as u64);
    for ((common, local), exemplars) in all {
        put_varint(&mut out, u64::from(*common));
        put_varint(&mut out, u64::from(*local));
        put_varint(&mut out, exemplars.len() as u64);
        let mut before_ms = 0i64;
        for (time_ms, exemplar) in exemplars {
            put_signed(&mut out, time_ms.wrapping_sub(before_ms));
            before_ms = *time_ms;
            out.push(u8::from(exemplar.time_ms.is_some()));
            out.extend_from_slice(&exemplar.value.to_le_bytes());
            put_varint(&mut out, exemplar.labels.len() as u64);
            for label in &exemplar.labels {
                put_bytes(&mut out, label.name().as_bytes());
                put_bytes(&mut out, label.value().as_bytes());
            }
        }
    }
    out
}

/// Inserts an exemplar in time order unless it is already there.
pub(super) fn insert(exemplars: &mut Vec<(i64, Exemplar)>, time_ms: i64, exemplar: Exemplar) {
    let at = exemplars.partition_point(|other| other.0 < time_ms);
    let mut same_time = exemplars[at..]
        .iter()
        .take_while(|other| other.0 == time_ms);
    if !same_time.any(|other| other.1 == exemplar) {
        exemplars.insert(at, (time_ms, exemplar));
    }
}

impl Block {
    /// Lists the block's exemplars.
    ///
    /// # Errors
    /// Fails when their section or the sets of their series are damaged.
    pub(crate) fn exemplars(&self) -> Result<Vec<SeriesExemplar>, TsdbError> {
        if !self.has_section(SectionKind::Exemplars) {
            return Ok(Vec::new());
        }
        let section = self.section(SectionKind::Exemplars)?;
        let by_sets = read(section.bytes()).map_err(|bad| self.malformed(&section, &bad))?;
        let index = self.index()?;
        let mut all = Vec::new();
        for ((common, local), exemplars) in by_sets {
            let (common, local) = (
                self.label_set(&index, common)?,
                self.label_set(&index, local)?,
            );
            all.extend(
                exemplars
                    .into_iter()
                    .map(|(time_ms, exemplar)| SeriesExemplar {
                        common: common.clone(),
                        local: local.clone(),
                        time_ms,
                        exemplar,
                    }),
            );
        }
        Ok(all)
    }
}

fn read(bytes: &[u8]) -> Result<BySets, Malformed> {
    let mut r = Reader::new(bytes);
    let mut all = BySets::new();
    for _ in 0..r.varint()? {
        let sets = (r.varint_u32("common set")?, r.varint_u32("local set")?);
        let mut exemplars = Vec::new();
        let mut time_ms = 0i64;
        for _ in 0..r.varint()? {
            time_ms = time_ms.wrapping_add(r.signed()?);
            let own_time = r.byte()? != 0;
            let value = f64::from_le_bytes(r.array()?);
            let mut labels = Vec::new();
            for _ in 0..r.varint()? {
                labels.push(Label::new(r.text()?, r.text()?));
            }
            let exemplar = Exemplar {
                labels: LabelSet::from_labels(labels),
                value,
                time_ms: own_time.then_some(time_ms),
            };
            exemplars.push((time_ms, exemplar));
        }
        all.insert(sets, exemplars);
    }
    Ok(all)
}
