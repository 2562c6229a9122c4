//! Profiles of this process, for `go tool pprof` and as flame graphs.
//!
//! It contains a CPU sampler on the kernel's profiling timer, an unwinder over copied stacks, a parser of jemalloc's
//! heap dumps, and symbol lookup. It has no allocator and no line numbers, and costs nothing while no profile is
//! being taken.
//!
//! **Limits**: Linux on x86-64 and aarch64; one profile at a time; stacks up to 64 KiB and 256 frames; a stripped
//! binary yields addresses instead of names.
//!
//! ```no_run
//! let profile = narthex_profile::cpu(std::time::Duration::from_secs(1), &|| false)?;
//! std::fs::write("cpu.pb", profile.to_pprof())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod elf;
#[doc(hidden)]
pub mod fuzz;
mod heap;
mod maps;
mod pprof;
mod sample;
mod sampler;
mod svg;
mod unwind;

pub use heap::{Heap, HeapView, heap};

use std::{
    collections::HashMap,
    fmt,
    time::{Duration, SystemTime},
};

/// Returns the approximate memory needed for a profile in bytes, most of it for function names.
#[must_use]
pub fn needed_bytes() -> u64 {
    maps::modules_bytes()
}

/// A CPU profile of the process.
#[derive(Debug)]
pub struct Profile {
    /// Distinct stacks, each from the innermost frame to the outermost, with their number of samples.
    stacks: HashMap<Vec<u64>, u64>,
    modules: maps::Modules,
    began: SystemTime,
    took: Duration,
    period: Duration,
    /// Samples that came too fast.
    lost: u64,
}

/// Reason for a failed profile.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProfileError {
    /// Another profile is being taken.
    Busy,
    /// A malformed heap dump.
    Dump {
        /// The line, from 1.
        line: usize,
        /// Description of the error.
        reason: &'static str,
    },
    /// A system call failed.
    Io {
        /// The operation attempted.
        operation: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("cpu profiling already in use"),
            Self::Dump { line, reason } => write!(f, "heap dump, line {line}: {reason}"),
            Self::Io { operation, source } => write!(f, "{operation}: {source}"),
        }
    }
}

impl std::error::Error for ProfileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Busy | Self::Dump { .. } => None,
            Self::Io { source, .. } => Some(source),
        }
    }
}

/// Samples the process a hundred times per second of its CPU time, for `duration` or until `stop` returns true.
///
/// Blocks until then.
///
/// # Errors
/// Fails when another profile is being taken, or the timer cannot be set.
pub fn cpu(duration: Duration, stop: &dyn Fn() -> bool) -> Result<Profile, ProfileError> {
    sampler::run(duration, stop)
}

impl Profile {
    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Returns the profile as an uncompressed `perftools.profiles.Profile` message.
    #[must_use]
    pub fn to_pprof(&self) -> Vec<u8> {
        let period_ns = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        let stacks = self.stacks.iter();
        let stacks = stacks
            .map(|(stack, count)| (stack.as_slice(), [*count, count.saturating_mul(period_ns)]));
        let head = pprof::Head {
            sample_types: [("samples", "count"), ("cpu", "nanoseconds")],
            default_type: None,
            period_type: ("cpu", "nanoseconds"),
            period: period_ns,
            began: self.began,
            took: self.took,
        };
        pprof::encode(&head, stacks, &self.modules)
    }

    /// Draws the profile as a flame graph: width is time, with callers below their callees.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let title = format!(
            "CPU: {} samples in {:.1} s, {} lost",
            self.samples(),
            self.took.as_secs_f64(),
            self.lost
        );
        svg::draw(&title, "samples", self.by_name())
    }

    /// Lists distinct stacks by name, outermost first, with their number of samples.
    #[must_use]
    pub fn by_name(&self) -> Vec<(Vec<String>, u64)> {
        let stacks = self.stacks.iter();
        self.modules
            .by_name(stacks.map(|(stack, count)| (stack.as_slice(), *count)))
    }
}
