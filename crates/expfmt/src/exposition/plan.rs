//! How the families of several schemas become one page: which are one, what type it has, which series repeat.
//!
//! **Invariant:** no two families of a page have the same name in their heads, and no two samples the same series.

use crate::writer::{FamilyRef, Shown, Writer};
use narthex_model::{ColumnId, Frame, LabelHash};
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

/// What is on a page, in order.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) families: Vec<Merged>,
    /// Places of each series that several sources have.
    repeated: Vec<Vec<(usize, ColumnId)>>,
    /// Families that are not shown because others of their name have another type.
    misfits: Vec<(usize, Vec<ColumnId>)>,
}

/// Families of several sources that are one.
pub(super) struct Merged {
    parts: Vec<Part>,
    as_unknown: bool,
}

/// A family of one source.
#[derive(Clone, Copy)]
struct Part {
    source: usize,
    family: usize,
}

impl Plan {
    /// Memory to find repeated series.
    pub(super) const BYTES_A_COLUMN: usize = 48;

    /// Merges what the writers have; `frames` are those of the same sources.
    pub(super) fn new(writers: &[&mut Writer], frames: &[Arc<Frame>]) -> Self {
        let mut all: Vec<(FamilyRef<'_>, Part)> = Vec::new();
        for (source, writer) in writers.iter().enumerate() {
            let families = 0..writer.parts().families();
            all.extend(
                families.map(|family| (writer.parts().family(family), Part { source, family })),
            );
        }
        all.sort_by(|(a, _), (b, _)| a.key.cmp(b.key));
        let mut plan = Self::default();
        let mut heads: HashSet<&[u8]> = HashSet::new();
        for same in all.chunk_by(|(a, _), (b, _)| a.key == b.key) {
            let Some((first, _)) = same.first() else {
                continue;
            };
            let all_single = same.iter().all(|(family, _)| family.is_single);
            let agrees = |family: &FamilyRef<'_>| family.written == first.written;
            let mixed = all_single && !same.iter().all(|(family, _)| agrees(family));
            // `a_total` is a counter called `a` in OpenMetrics, which may be taken.
            let as_unknown = mixed || (first.is_single && heads.contains(first.head));
            heads.insert(if as_unknown {
                first.key.as_bytes()
            } else {
                first.head
            });
            let mut parts = Vec::with_capacity(same.len());
            for (family, part) in same {
                if all_single || agrees(family) {
                    parts.push(*part);
                } else {
                    let columns = writers[part.source].parts().columns(part.family);
                    plan.misfits.push((part.source, columns));
                }
            }
            plan.find_repeated(&parts, writers, frames);
            plan.families.push(Merged { parts, as_unknown });
        }
        plan
    }

    fn find_repeated(&mut self, parts: &[Part], writers: &[&mut Writer], frames: &[Arc<Frame>]) {
        if parts.len() < 2 || are_disjoint(parts, frames) {
            return;
        }
        let mut seen: HashMap<LabelHash, (Part, ColumnId)> = HashMap::new();
        let mut several: HashMap<LabelHash, usize> = HashMap::new();
        for part in parts {
            let schema = frames[part.source].schema();
            for column in writers[part.source].parts().columns(part.family) {
                let identity = schema.identity(column);
                match seen.entry(identity) {
                    Entry::Vacant(entry) => {
                        entry.insert((*part, column));
                    }
                    Entry::Occupied(entry) => {
                        let (first, first_column) = *entry.get();
                        let at = *several.entry(identity).or_insert_with(|| {
                            self.repeated.push(vec![(first.source, first_column)]);
                            self.repeated.len() - 1
                        });
                        self.repeated[at].push((part.source, column));
                    }
                }
            }
        }
    }

    /// Removes all samples but the newest of each series that several frames have; returns how many.
    pub(super) fn hide_repeated(&self, frames: &mut [Arc<Frame>]) -> usize {
        let mut hidden = 0;
        for places in &self.repeated {
            let mut newest: Option<(i64, usize, ColumnId)> = None;
            for (source, column) in places {
                let frame = &frames[*source];
                if !frame.present().contains(column.index()) {
                    continue;
                }
                let time_ms = frame.time_of(*column);
                let older = match newest {
                    Some((before_ms, ..)) if before_ms >= time_ms => Some((*source, *column)),
                    before => {
                        newest = Some((time_ms, *source, *column));
                        before.map(|(_, source, column)| (source, column))
                    }
                };
                if let Some((source, column)) = older {
                    let (_, present) = Arc::make_mut(&mut frames[source]).cells_mut();
                    present.remove(column.index());
                    hidden += 1;
                }
            }
        }
        hidden
    }

    /// Returns the number of samples that are not shown because of their type.
    pub(super) fn misfits(&self, frames: &[Arc<Frame>]) -> usize {
        let of = |(source, columns): &(usize, Vec<ColumnId>)| {
            let present = frames[*source].present();
            let columns = columns.iter();
            columns
                .filter(|column| present.contains(column.index()))
                .count()
        };
        self.misfits.iter().map(of).sum()
    }
}

impl Merged {
    /// Appends the family's samples; returns its unit as a field of a message.
    pub(super) fn write<'a>(
        &self,
        writers: &'a mut [&mut Writer],
        frames: &[Arc<Frame>],
        out: &mut Vec<u8>,
    ) -> &'a [u8] {
        let mut shown = Shown {
            as_unknown: self.as_unknown,
            ..Shown::WHOLE
        };
        let mut first = None;
        for Part { source, family } in &self.parts {
            let written = writers[*source].write_family(*family, &frames[*source], shown, out);
            if written && shown.with_head {
                shown.with_head = false;
                first = Some((*source, *family)).filter(|_| !self.as_unknown);
            }
        }
        first.map_or(&[], |(source, family)| writers[source].parts().unit(family))
    }
}

/// Reports whether the common labels of sources keep all their series apart.
fn are_disjoint(parts: &[Part], frames: &[Arc<Frame>]) -> bool {
    let mut names = None;
    let mut seen = HashSet::new();
    parts.iter().all(|part| {
        let common = frames[part.source].schema().common();
        let key = common.names_key();
        *names.get_or_insert(key) == key && seen.insert(common.hash())
    })
}
