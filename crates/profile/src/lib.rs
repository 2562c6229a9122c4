//! CPU profiles of this process, as `go tool pprof` reads them and as a picture.
//!
//! It is: a sampler on the kernel's profiling timer, an unwinder over copied stacks, names from symbol tables. It is
//! not: heap profiles, line numbers, or anything that costs while no profile is being taken.
//!
//! **Limits**: Linux on x86-64 and aarch64; one profile at a time; stacks up to 64 KiB and 256 frames; a stripped
//! binary has addresses instead of names.
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
mod maps;
mod pprof;
mod sampler;
mod svg;
mod unwind;

use std::{
    collections::HashMap,
    fmt,
    time::{Duration, SystemTime},
};

/// What the process did while it was looked at.
#[derive(Debug)]
pub struct Profile {
    /// Distinct stacks, each from the innermost frame to the outermost, with how often it was seen.
    stacks: HashMap<Vec<u64>, u64>,
    modules: maps::Modules,
    began: SystemTime,
    took: Duration,
    period: Duration,
    lost: u64,
}

/// Why there is no profile.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProfileError {
    /// Another profile is being taken.
    Busy,
    /// The system refused.
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("cpu profiling already in use"),
            Self::Io { operation, source } => write!(f, "{operation}: {source}"),
        }
    }
}

impl std::error::Error for ProfileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Busy => None,
            Self::Io { source, .. } => Some(source),
        }
    }
}

/// Looks at the process a hundred times per second of processor time it uses, for `duration` or until `stop` says so.
///
/// Blocks meanwhile.
///
/// # Errors
/// Fails when another profile is being taken, or the system refuses the timer.
pub fn cpu(duration: Duration, stop: &dyn Fn() -> bool) -> Result<Profile, ProfileError> {
    sampler::run(duration, stop)
}

impl Profile {
    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Returns the number of samples that came faster than they could be taken.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the profile as a message `perftools.profiles.Profile`, not compressed.
    #[must_use]
    pub fn to_pprof(&self) -> Vec<u8> {
        pprof::encode(self)
    }

    /// Draws the profile as a flame graph: wide is where the time went, callers below what they call.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::draw(self)
    }

    /// Lists distinct stacks by name, outermost first, with how often each was seen.
    #[must_use]
    pub fn by_name(&self) -> Vec<(Vec<String>, u64)> {
        let mut stacks: HashMap<Vec<String>, u64> = HashMap::new();
        for (stack, count) in &self.stacks {
            let names = stack
                .iter()
                .rev()
                .map(|address| self.modules.name(*address));
            *stacks.entry(names.collect()).or_default() += count;
        }
        let mut stacks: Vec<_> = stacks.into_iter().collect();
        stacks.sort();
        stacks
    }
}
