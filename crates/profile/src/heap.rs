//! Heap profiles: parses jemalloc's dump and scales it up from samples to totals.
//!
//! jemalloc samples an allocation with the probability `1 - exp(-size / rate)`; its dump counts the samples. A
//! stack's counts are divided by that probability for its mean size, as in jemalloc's own tool.
//!
//! **Invariant:** a malformed dump is rejected with its line; parsing never creates more stacks than the dump has
//! lines.

use crate::{ProfileError, maps::Modules, pprof, svg};
use std::time::SystemTime;

/// Number and bytes of allocations, in total and still live.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    objects: u64,
    bytes: u64,
    live_objects: u64,
    live_bytes: u64,
}

/// A heap profile of the process, by allocating code.
#[derive(Debug)]
pub struct Heap {
    /// Distinct stacks, each from the innermost frame to the outermost.
    stacks: Vec<(Vec<u64>, Counts)>,
    modules: Modules,
    period_bytes: u64,
    taken: SystemTime,
}

/// The default sample type of a heap profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HeapView {
    /// Live allocations.
    InUse,
    /// All allocations ever made.
    Allocated,
}

/// Parses a dump of this process's allocator, jemalloc, in its format `heap_v2`.
///
/// # Errors
/// Fails when the dump is malformed, or the process's mappings cannot be read.
pub fn heap(dump: &str) -> Result<Heap, ProfileError> {
    let (period_bytes, stacks) = parse(dump)?;
    let modules = Modules::of_this_process()?;
    let stacks = stacks.into_iter().map(|(stack, counts)| {
        let own = |address: &&u64| is_allocator(&modules.name(**address));
        let skipped = stack.iter().take_while(own).count();
        // If nothing else is left, the allocator itself allocated.
        let from = if skipped == stack.len() { 0 } else { skipped };
        (stack.get(from..).unwrap_or_default().to_vec(), counts)
    });
    let stacks = stacks.collect();
    Ok(Heap {
        stacks,
        modules,
        period_bytes,
        taken: SystemTime::now(),
    })
}

impl Heap {
    /// Returns the profile as an uncompressed `perftools.profiles.Profile` message.
    #[must_use]
    pub fn to_pprof(&self, view: HeapView) -> Vec<u8> {
        let stacks = self.stacks.iter().map(|(stack, counts)| {
            let values = [
                counts.objects,
                counts.bytes,
                counts.live_objects,
                counts.live_bytes,
            ];
            (stack.as_slice(), values)
        });
        let head = pprof::Head {
            sample_types: [
                ("alloc_objects", "count"),
                ("alloc_space", "bytes"),
                ("inuse_objects", "count"),
                ("inuse_space", "bytes"),
            ],
            default_type: Some(match view {
                HeapView::InUse => "inuse_space",
                HeapView::Allocated => "alloc_space",
            }),
            period_type: ("space", "bytes"),
            period: self.period_bytes,
            began: self.taken,
            took: std::time::Duration::ZERO,
        };
        pprof::encode(&head, stacks, &self.modules)
    }

    /// Draws the profile as a flame graph: width is memory, with callers below their callees.
    #[must_use]
    pub fn to_svg(&self, view: HeapView) -> String {
        let stacks = self.stacks.iter().map(|(stack, counts)| {
            let bytes = match view {
                HeapView::InUse => counts.live_bytes,
                HeapView::Allocated => counts.bytes,
            };
            (stack.as_slice(), bytes)
        });
        let stacks = self.modules.by_name(stacks);
        let all: u64 = stacks.iter().map(|(_, bytes)| bytes).sum();
        let what = match view {
            HeapView::InUse => "in use",
            HeapView::Allocated => "allocated since the start",
        };
        let title = format!("Heap: {:.1} MB {what}", all as f64 / 1e6);
        svg::draw(&title, "bytes", stacks)
    }
}

/// Reports whether a function belongs to the allocator, with which every stack begins.
fn is_allocator(name: &str) -> bool {
    let parts = [
        "_rjem_",
        "prof_backtrace",
        "tikv_jemallocator::",
        "__rust_alloc",
        "__rust_realloc",
    ];
    parts.iter().any(|part| name.contains(part))
}

/// The sampling rate, and the stacks.
type Parsed = (u64, Vec<(Vec<u64>, Counts)>);

pub(crate) fn parse(dump: &str) -> Result<Parsed, ProfileError> {
    let mut lines = dump.lines().enumerate();
    let refused = |at: usize, reason: &'static str| ProfileError::Dump {
        line: at + 1,
        reason,
    };
    let rate = lines
        .next()
        .and_then(|(_, line)| line.strip_prefix("heap_v2/")?.trim().parse::<u64>().ok())
        .filter(|rate| *rate > 0);
    let rate = rate.ok_or_else(|| refused(0, "no heap_v2 with a rate"))?;
    let mut stacks = Vec::new();
    let mut stack: Option<Vec<u64>> = None;
    for (at, line) in lines {
        let line = line.trim();
        if line == "MAPPED_LIBRARIES:" {
            break;
        }
        if let Some(addresses) = line.strip_prefix('@') {
            let addresses = addresses.split_ascii_whitespace().map(address);
            let addresses: Option<Vec<u64>> = addresses.collect();
            stack = Some(addresses.ok_or_else(|| refused(at, "an address that is no number"))?);
        } else if let Some(counts) = line.strip_prefix("t*:") {
            let counts = counts_of(counts).ok_or_else(|| refused(at, "malformed counts"))?;
            // Counts before the first stack are totals.
            if let Some(stack) = stack.take() {
                stacks.push((stack, counts.scaled(rate)));
            }
        }
        // The remaining lines are the shares of single threads.
    }
    Ok((rate, stacks))
}

/// Parses a return address, giving the address of the call before it.
fn address(text: &str) -> Option<u64> {
    let number = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    Some(number.saturating_sub(1))
}

/// Parses `live objects: live bytes [objects: bytes]`.
fn counts_of(text: &str) -> Option<Counts> {
    let (live, ever) = text.split_once('[')?;
    let ever = ever.trim_end().strip_suffix(']')?;
    let pair = |text: &str| {
        let (objects, bytes) = text.split_once(':')?;
        let number = |text: &str| text.trim().parse::<u64>().ok();
        Some((number(objects)?, number(bytes)?))
    };
    let ((live_objects, live_bytes), (objects, bytes)) = (pair(live)?, pair(ever)?);
    Some(Counts {
        objects,
        bytes,
        live_objects,
        live_bytes,
    })
}

impl Counts {
    fn scaled(self, rate: u64) -> Self {
        let (live_objects, live_bytes) = scaled(self.live_objects, self.live_bytes, rate);
        let (objects, bytes) = scaled(self.objects, self.bytes, rate);
        Self {
            objects,
            bytes,
            live_objects,
            live_bytes,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates, and neither is negative"
)]
fn scaled(objects: u64, bytes: u64, rate: u64) -> (u64, u64) {
    if objects == 0 || bytes == 0 {
        return (objects, bytes);
    }
    let mean = bytes as f64 / objects as f64;
    let taken = 1.0 - (-mean / rate as f64).exp();
    let scale = |count: u64| (count as f64 / taken).round() as u64;
    (scale(objects), scale(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "heap_v2/524288\n  t*: 3: 1572864 [4: 1572928]\n  t0: 3: 1572864 [4: 1572928]\n\
@ 0x55d0c0001001 0x10\n  t*: 3: 1572864 [3: 1572864]\n  t1: 3: 1572864 [3: 1572864]\n\
@ 0x20\n  t*: 0: 0 [1: 64]\n\nMAPPED_LIBRARIES:\n@ nothing\n";

    #[test]
    fn counts_stand_for_what_was_not_taken() {
        let (rate, stacks) = parse(DUMP).unwrap();
        assert_eq!(rate, 524_288);
        let [(stack, large), (_, small)] = &stacks[..] else {
            panic!("{stacks:?}")
        };
        assert_eq!(stack[..], [0x55d0_c000_1000, 0xf]);
        // Of allocations as large as the rate, a fraction of 1 - 1/e is sampled.
        assert_eq!((large.live_objects, large.live_bytes), (5, 2_488_234));
        assert_eq!((small.live_objects, small.objects), (0, 8193));
    }

    #[test]
    fn the_allocators_own_functions_are_known() {
        for name in [
            "_rjem_je_prof_tctx_create",
            "prof_backtrace_impl",
            "<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
        ] {
            assert!(is_allocator(name), "{name}");
        }
        assert!(!is_allocator("alloc::vec::Vec<T>::with_capacity"));
    }

    #[test]
    fn what_is_no_dump_is_refused_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("heap_v2/0\n", 1),
            ("heap_v2/1\n@ 0xg\n", 2),
            ("heap_v2/1\n@ 0x1\n  t*: 1: [1: 1]\n", 3),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                matches!(error, ProfileError::Dump { line: at, .. } if at == line),
                "{text:?}: {error}"
            );
        }
    }
}
