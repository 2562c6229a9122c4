//! One file per collector, and what they share: a round's context and the trait.
//!
//! Invariant: a collector that returns an error leaves no values in the round; its series stay, absent.

pub(crate) mod cpu;
pub(crate) mod cpuinfo;
pub(crate) mod diskstats;
pub(crate) mod filesystem;
pub(crate) mod loadavg;
pub(crate) mod meminfo;
pub(crate) mod netdev;
pub(crate) mod stat;
pub(crate) mod time;
pub(crate) mod uname;
pub(crate) mod vmstat;

use crate::config::CollectorKind;
use crate::error::HostError;
use crate::kept::ReadBuf;
use crate::procstat::SharedStat;
use crate::sink::Sink;

/// What a round offers to every collector.
pub(crate) struct Ctx<'a> {
    /// For any file; what it holds is lost at the next read.
    pub(crate) buf: &'a mut ReadBuf,
    pub(crate) stat: &'a mut SharedStat,
    /// Number of the round, from 1.
    pub(crate) round: u64,
    /// Slowly changing facts are due to be read again.
    pub(crate) refresh: bool,
}

pub(crate) trait Collector: Send {
    fn kind(&self) -> CollectorKind;

    /// Tells whether `prepare` does anything.
    fn has_preparation(&self) -> bool {
        false
    }

    /// Starts what may take long, before any collector collects.
    ///
    /// # Errors
    ///
    /// As `collect`, which is then not called in this round.
    fn prepare(&mut self, _ctx: &mut Ctx<'_>, _out: &mut Sink) -> Result<(), HostError> {
        Ok(())
    }

    /// Sets this round's values.
    ///
    /// # Errors
    ///
    /// When the kernel's answer can't be had or is malformed.
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError>;
}
