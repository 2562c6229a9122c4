//! Shared code of collectors whose file has a line per CPU.
//!
//! Invariant: a CPU gets its series when first seen, and loses them in the round in which it is gone.

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::ordered_cache::OrderedCache;
use crate::sink::{Desc, Sink, Slot};

/// One file with a line per CPU.
pub(crate) struct PerCpu<const N: usize> {
    file: OpenFile,
    end: End,
    descs: &'static [Desc<'static>; N],
    parse: Parse<N>,
    cpus: OrderedCache<u64, [Slot; N]>,
}

/// Calls back with every CPU's number and values.
pub(crate) type Parse<const N: usize> =
    fn(&[u8], &mut dyn FnMut(u64, [f64; N])) -> Result<(), ParseError>;

impl<const N: usize> PerCpu<N> {
    pub(crate) fn new(
        (file, end): (OpenFile, End),
        descs: &'static [Desc<'static>; N],
        parse: Parse<N>,
    ) -> Self {
        Self {
            file,
            end,
            descs,
            parse,
            cpus: OrderedCache::new(),
        }
    }
}

impl<const N: usize> Collector for PerCpu<N> {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let text = self.file.read(ctx.buf, self.end);
        let text = text.map_err(HostError::or_no_data)?;
        let Self { cpus, descs, .. } = self;
        cpus.begin();
        let parsed = (self.parse)(text, &mut |cpu, values| {
            let slots = match cpus.find(|known, _| *known == cpu) {
                Some(slots) => *slots,
                None => {
                    let label = cpu.to_string();
                    let slots = descs.map(|desc| out.add(&desc, &[("cpu", &label)]));
                    *cpus.insert(cpu, slots)
                }
            };
            for (slot, value) in slots.iter().zip(values) {
                out.set(*slot, value);
            }
        });
        parsed.map_err(|source| self.file.malformed(source))?;
        self.cpus
            .sweep(|_, slots| slots.into_iter().for_each(|slot| out.retire(slot)));
        Ok(())
    }
}
