//! Pages of each style: writers that are kept, and what they write together.
//!
//! **Invariant:** what depends on schemas alone is made again only for a source whose schema changed, or when sources come
//! and go.

use super::{ExpositionMemory, LEFT_OUT, plan::Plan};
use crate::{
    format::{Format, Negotiated},
    writer::Writer,
};
use narthex_model::{
    Frame,
    storage::{Lease, OverBudget},
    varint::put_varint,
};
use std::{collections::HashMap, sync::Arc};

/// Styles that are kept ready: scrapers of one kind, and a person with a browser.
const MOST_STYLES: usize = 2;

/// Pages by style, the one used last at the end.
pub(super) struct Pages {
    styles: Vec<Page>,
    memory: ExpositionMemory,
}

struct Page {
    style: Negotiated,
    writers: HashMap<u64, (Writer, Lease)>,
    /// Source, lineage and version of the schemas that the plan is for, in their order.
    planned: Vec<(u64, u64, u64)>,
    plan: Plan,
    /// The message being written, kept to reuse its memory.
    message: Vec<u8>,
}

impl Pages {
    pub(super) fn new(memory: ExpositionMemory) -> Self {
        Self {
            styles: Vec::new(),
            memory,
        }
    }

    /// Writes a page of these sources' frames.
    ///
    /// # Errors
    /// Fails when there is no memory for it.
    pub(super) fn render(
        &mut self,
        style: Negotiated,
        frames: Vec<(u64, Arc<Frame>)>,
    ) -> Result<(Vec<u8>, Lease), OverBudget> {
        let known = self.styles.iter().position(|page| page.style == style);
        let mut page = match known {
            Some(at) => self.styles.remove(at),
            None => Page::new(style),
        };
        if known.is_none() && self.styles.len() >= MOST_STYLES {
            self.styles.remove(0);
        }
        let written = page.render(frames, &self.memory);
        self.styles.push(page);
        written
    }
}

impl Page {
    fn new(style: Negotiated) -> Self {
        Self {
            style,
            writers: HashMap::new(),
            planned: Vec::new(),
            plan: Plan::default(),
            message: Vec::new(),
        }
    }

    fn render(
        &mut self,
        mut frames: Vec<(u64, Arc<Frame>)>,
        memory: &ExpositionMemory,
    ) -> Result<(Vec<u8>, Lease), OverBudget> {
        let left_out = self.follow(&mut frames, memory);
        let planned: Vec<_> = frames
            .iter()
            .map(|(id, frame)| (*id, frame.schema().lineage(), frame.schema().version()))
            .collect();
        let mut writers: Vec<&mut Writer> = Vec::with_capacity(frames.len());
        let mut by_id: HashMap<u64, &mut Writer> = self
            .writers
            .iter_mut()
            .map(|(id, (writer, _))| (*id, writer))
            .collect();
        writers.extend(frames.iter().filter_map(|(id, _)| by_id.remove(id)));
        let mut frames: Vec<Arc<Frame>> = frames.into_iter().map(|(_, frame)| frame).collect();
        let page_bytes: usize = writers.iter().map(|writer| writer.parts().sizes().1).sum();
        let mut lease = memory.pages.lease(page_bytes as u64)?;
        if planned != self.planned {
            let columns: usize = frames.iter().map(|frame| frame.schema().len()).sum();
            lease.grow((columns * Plan::BYTES_A_COLUMN) as u64)?;
            self.plan = Plan::new(&writers, &frames);
            self.planned = planned;
        }
        let repeated = self.plan.hide_repeated(&mut frames);
        count_left_out([
            ("memory", left_out),
            ("repeated", repeated),
            ("type", self.plan.misfits(&frames)),
        ]);
        let mut out = Vec::with_capacity(page_bytes);
        for family in &self.plan.families {
            let is_message = self.style.format == Format::Protobuf;
            self.message.clear();
            let into = if is_message {
                &mut self.message
            } else {
                &mut out
            };
            let unit = family.write(&mut writers, &frames, into);
            if !self.message.is_empty() {
                self.message.extend_from_slice(unit);
                put_varint(&mut out, self.message.len() as u64);
                out.extend_from_slice(&self.message);
            }
        }
        Writer::end(self.style, &mut out);
        lease.resize(out.capacity() as u64)?;
        Ok((out, lease))
    }

    /// Makes the writers those of the frames' schemas; removes frames whose writer gets no memory, and returns the number of
    /// their series.
    fn follow(&mut self, frames: &mut Vec<(u64, Arc<Frame>)>, memory: &ExpositionMemory) -> usize {
        let mut before = std::mem::take(&mut self.writers);
        let mut left_out = 0;
        frames.retain(|(id, frame)| {
            let (writer, lease) = match before.remove(id) {
                Some((mut writer, lease)) => {
                    writer.rebind(frame.schema());
                    (writer, Ok(lease))
                }
                None => {
                    let writer = Writer::new(frame.schema(), self.style);
                    (writer, memory.kept.lease(0))
                }
            };
            let bytes = writer.parts().sizes().0 as u64;
            let leased = lease.and_then(|mut lease| {
                lease.resize(bytes)?;
                Ok(lease)
            });
            let Ok(lease) = leased else {
                left_out += frame.present().count();
                return false;
            };
            self.writers.insert(*id, (writer, lease));
            true
        });
        left_out
    }
}

fn count_left_out(counts: [(&str, usize); 3]) {
    for (reason, series) in counts {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        LEFT_OUT.with(&[reason]).set(series as f64);
    }
}
