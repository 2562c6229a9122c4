//! Buckets of numbers, allocated a power of two at a time: what summaries and native histograms count in.
//!
//! **Invariant:** the cells of an octave (sign and exponent) are allocated at its first number and stay until the metric
//! is dropped.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::range;
use crate::shards::Slot;

/// Bits of a float below its octave.
const MANTISSA_BITS: u32 = 52;
/// The octaves of 2^-24 to 2^40, 60 ns to 18 minutes in nanoseconds, are found without an indirection.
const NEAR_FIRST: usize = 1023 - 24;
const NEAR: usize = 64;
/// All octaves: 2048 exponents of each sign.
const FAR: usize = 4096;

/// Slots of the octaves; 0 until an octave is seen.
pub(crate) struct Octaves {
    near: [AtomicU32; NEAR],
    far: OnceLock<Box<[AtomicU32; FAR]>>,
}

impl Octaves {
    pub(crate) const fn new() -> Self {
        Self {
            near: [const { AtomicU32::new(0) }; NEAR],
            far: OnceLock::new(),
        }
    }

    /// Returns the octave of a float's bits, if it is near and was seen.
    #[inline(always)]
    pub(crate) fn near(&self, bits: u64) -> Option<Slot> {
        let near = ((bits >> MANTISSA_BITS) as usize).wrapping_sub(NEAR_FIRST);
        match self.near.get(near).map(|octave| octave.load(Acquire)) {
            None | Some(0) => None,
            Some(octave) => Some(Slot::from_raw(octave)),
        }
    }

    /// Returns the octave of a float's bits, allocated with `len` cells after `first` ran if it is new; `None` without
    /// space for it.
    pub(crate) fn get_or_allocate(
        &self,
        bits: u64,
        len: usize,
        first: impl FnOnce(),
    ) -> Option<Slot> {
        let octave = (bits >> MANTISSA_BITS) as usize;
        let word = match self.near.get(octave.wrapping_sub(NEAR_FIRST)) {
            Some(near) => near,
            None => &self
                .far
                .get_or_init(|| Box::new([const { AtomicU32::new(0) }; FAR]))[octave],
        };
        let seen = word.load(Acquire);
        if seen != 0 {
            return Some(Slot::from_raw(seen));
        }
        first();
        let slot = range::allocate(len)?;
        match word.compare_exchange(0, slot.raw(), AcqRel, Acquire) {
            Ok(_) => Some(slot),
            Err(other) => {
                range::release(slot, len);
                Some(Slot::from_raw(other))
            }
        }
    }

    /// Returns the octaves that were seen, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Slot)> {
        let far = self
            .far
            .get()
            .into_iter()
            .flat_map(|far| far.iter().enumerate());
        let near = self.near.iter().enumerate();
        let near = near.map(|(i, word)| (i + NEAR_FIRST, word));
        near.chain(far).filter_map(|(octave, word)| {
            let raw = word.load(Acquire);
            (raw != 0).then(|| (octave, Slot::from_raw(raw)))
        })
    }

    /// Releases all cells; `len` as in [`Octaves::get_or_allocate`].
    pub(crate) fn release(&mut self, len: usize) {
        let far = self
            .far
            .get_mut()
            .into_iter()
            .flat_map(|far| far.iter_mut());
        for octave in self.near.iter_mut().chain(far) {
            let raw = std::mem::take(octave.get_mut());
            if raw != 0 {
                range::release(Slot::from_raw(raw), len);
            }
        }
    }
}
