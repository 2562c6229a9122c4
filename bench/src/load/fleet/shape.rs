//! Shapes of a fleet: the contents of its pages, and their unfriendly properties.
//!
//! **Invariant:** the same shape, target, generation and number of rounds give the same values everywhere.

use crate::harness::choices;
use narthex_testkit::fleet::{NATIVE_FAMILIES, Target};

/// Maximum age of a new timestamp of a line relative to the scrape.
pub(crate) const OLDEST_STAMP_MS: u64 = 10_000;

choices! {
    /// Shape of a fleet.
    pub(crate) enum Shape {
        /// Counters, buckets and gauges, the corpus that storage figures call the fleet.
        Fleet = "fleet",
        /// Microservices: counters, gauges, whole histograms and summaries.
        Service = "service",
        /// Microservices that also have native histograms, and so answer in protobuf.
        Native = "native",
        /// One target with the states of many objects, all labels its own, most values constant.
        Objects = "objects",
        /// The fleet with a timestamp on every line, some seconds old and different from line to line.
        Stamped = "stamped",
        /// The fleet with a timestamp on every line, some seconds old and the same for some sixty lines, which a quarter of
        /// them repeat in the next round.
        Cadvisor = "cadvisor",
        /// The fleet with families, and lines in them, in another order every time.
        Shuffled = "shuffled",
        /// Very many targets with five series.
        Tiny = "tiny",
        /// The fleet with a tenth of its series absent every third round.
        Flapping = "flapping",
    }
}

impl Shape {
    /// Returns the default number of targets and of series per target.
    pub(crate) fn size(self) -> (usize, usize) {
        match self {
            Self::Objects => (1, 500_000),
            Self::Tiny => (10_000, 5),
            _ => (850, 588),
        }
    }

    /// Returns target `index` with `series` series; another generation has another pod.
    pub(super) fn target(self, index: usize, generation: usize, series: usize) -> Target {
        match self {
            Self::Service => Target::service(index, generation, series),
            Self::Native => Target::native(index, generation, series),
            Self::Objects => Target::objects(index, generation, series),
            _ => Target::new(index, generation, series),
        }
    }

    /// Reports whether every line has a timestamp, not the time of the scrape.
    pub(crate) fn has_old_stamps(self) -> bool {
        matches!(self, Self::Stamped | Self::Cadvisor)
    }

    /// Returns the maximum age of a line's timestamp when scraped every `interval_ms`.
    pub(crate) fn oldest_stamp_ms(self, interval_ms: i64) -> i64 {
        match self {
            Self::Stamped => OLDEST_STAMP_MS as i64,
            Self::Cadvisor => OLDEST_STAMP_MS as i64 + interval_ms,
            _ => 0,
        }
    }

    /// Returns the families used in queries.
    pub(crate) fn families(self) -> Families {
        match self {
            Self::Objects => Families {
                counter: "kube_pod_container_status_restarts_total",
                by: "namespace",
                gauge: "kube_pod_status_ready",
                bucket: "",
                native: "",
            },
            _ => Families {
                counter: "http_server_requests_00_total",
                by: "service",
                gauge: "worker_pool_saturation",
                bucket: "rpc_duration_seconds",
                native: if self == Self::Native {
                    NATIVE_FAMILIES
                } else {
                    ""
                },
            },
        }
    }
}

/// Families of a shape that queries rely on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Families {
    /// A counter every target has, of whole numbers.
    pub(crate) counter: &'static str,
    /// A label it has.
    pub(crate) by: &'static str,
    /// Prefix of gauges' names.
    pub(crate) gauge: &'static str,
    /// Prefix of histograms' names; empty if there are none.
    pub(crate) bucket: &'static str,
    /// Prefix of native histograms' names; empty if there are none.
    pub(crate) native: &'static str,
}

#[cfg(test)]
mod tests;
