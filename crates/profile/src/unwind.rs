//! Unwinding: call stacks from registers and a copied part of the stack.
//!
//! **Invariant:** only the copied bytes are read; if they end or are invalid, the stack ends and keeps the frames
//! found so far.

use crate::{maps::Modules, sample::Sample};
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Unwinder as _, UnwinderNative,
};

/// Most frames in a stack.
const MAX_FRAMES: usize = 256;

type Bytes = Vec<u8>;

/// Unwinds samples.
pub(crate) struct Unwinder {
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Unwinder {
    /// Prepares the unwind tables of all modules.
    pub(crate) fn new(modules: &Modules) -> Self {
        let mut unwinder = UnwinderNative::new();
        for module in &modules.all {
            let elf = &module.elf;
            let range = |section: &crate::elf::Section| {
                section.address..section.address.saturating_add(section.bytes.len() as u64)
            };
            let info = ExplicitModuleSectionInfo {
                base_svma: 0,
                text_svma: elf.text.map(|(from, to)| from..to),
                eh_frame_svma: elf.eh_frame.as_ref().map(range),
                eh_frame: elf.eh_frame.as_ref().map(|section| section.bytes.clone()),
                eh_frame_hdr_svma: elf.eh_frame_hdr.as_ref().map(range),
                eh_frame_hdr: elf
                    .eh_frame_hdr
                    .as_ref()
                    .map(|section| section.bytes.clone()),
                ..ExplicitModuleSectionInfo::default()
            };
            unwinder.add_module(framehop::Module::new(
                module.mapping.path.clone(),
                module.mapping.start..module.mapping.end,
                module.bias,
                info,
            ));
        }
        Self {
            unwinder,
            cache: CacheNative::new(),
        }
    }

    /// Returns the addresses of a sample's frames, innermost first; for callers, that of the call.
    pub(crate) fn stack(&mut self, sample: &Sample) -> Vec<u64> {
        let registers = sample.registers;
        let stack = &sample.stack[..sample.len.min(sample.stack.len())];
        let mut read = |address: u64| {
            let from = address.checked_sub(registers.sp).ok_or(())?;
            let from = usize::try_from(from).map_err(|_| ())?;
            let bytes = stack.get(from..).and_then(<[u8]>::first_chunk).ok_or(())?;
            Ok(u64::from_le_bytes(*bytes))
        };
        #[cfg(target_arch = "x86_64")]
        let native =
            framehop::x86_64::UnwindRegsX86_64::new(registers.pc, registers.sp, registers.fp);
        #[cfg(target_arch = "aarch64")]
        let native =
            framehop::aarch64::UnwindRegsAarch64::new(registers.lr, registers.sp, registers.fp);
        let mut frames =
            self.unwinder
                .iter_frames(registers.pc, native, &mut self.cache, &mut read);
        let mut found = Vec::new();
        while found.len() < MAX_FRAMES
            && let Ok(Some(frame)) = frames.next()
        {
            found.push(frame.address_for_lookup());
        }
        found
    }
}
