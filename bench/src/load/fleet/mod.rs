//! A fleet of targets that servers scrape: their pages, how they answer, and how well a server kept its schedule.

pub(crate) mod body;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod meter;
mod native;
pub(crate) mod page;
pub(crate) mod schedule;
pub(crate) mod server;
pub(crate) mod shape;

use crate::harness::measure::cpu_time;
use rustix::time::ClockId;

/// Returns the cost of generating one sample's text, in nanoseconds of CPU, for a fleet like that of `storage`.
pub(crate) fn cost_of_a_sample_ns() -> f64 {
    const ROUNDS: usize = 20;
    let config = config::FleetConfig {
        targets: 20,
        series: 588,
        seed: 1,
        shape: shape::Shape::Service,
        gzip: false,
        line_labels: false,
        clock: None,
    };
    let mut bodies = body::Body::fleet(&config);
    let (mut text, mut samples) = (Vec::new(), 0);
    let mut scratch = page::Scratch::default();
    // The first round determines the length of a text.
    for body in &mut bodies {
        body.next(0, &mut text, &mut scratch);
    }
    let before = cpu_time(ClockId::ThreadCPUTime);
    for _ in 0..ROUNDS {
        for body in &mut bodies {
            samples += body.next(0, &mut text, &mut scratch);
        }
    }
    let used = cpu_time(ClockId::ThreadCPUTime).saturating_sub(before);
    used.as_nanos() as f64 / samples.max(1) as f64
}
