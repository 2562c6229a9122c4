//! How many shards the rates of samples ask for: Prometheus' calculation.

use super::config::QueueConfig;
use std::time::Duration;

/// How often the number of shards is calculated.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// Weight of the last interval in the averages.
const WEIGHT: f64 = 0.2;
/// By how much the number may be off before it is changed.
const TOLERANCE: f64 = 0.3;
/// Part of what waits that shall be sent each second.
const CATCH_UP: f64 = 0.05;
/// How far behind, in seconds, shards are not given up.
const BEHIND_SECONDS: f64 = 10.0;

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Samples that came in.
    pub(super) samples_in: f64,
    /// Samples that were sent or refused.
    pub(super) samples_out: f64,
    /// Samples that were not sent.
    pub(super) dropped: f64,
    /// Seconds that sending took, of all shards together.
    pub(super) out_seconds: f64,
}

/// Averages of the rates.
#[derive(Debug, Default)]
pub(super) struct Rates {
    last: Totals,
    samples_in: Average,
    samples_out: Average,
    dropped: Average,
    out_seconds: Average,
}

#[derive(Debug, Default)]
struct Average(Option<f64>);

impl Average {
    fn tick(&mut self, rate: f64) -> f64 {
        let average = self
            .0
            .map_or(rate, |last| WEIGHT * rate + (1.0 - WEIGHT) * last);
        *self.0.insert(average)
    }
}

impl Rates {
    /// Ends an interval; returns the number of shards that is wanted, and the one to change to, if any.
    ///
    /// `behind_seconds` lie between the newest sample that came in and the newest that was sent.
    pub(super) fn tick(
        &mut self,
        totals: Totals,
        behind_seconds: f64,
        shards: usize,
        config: &QueueConfig,
    ) -> (f64, Option<usize>) {
        let per_second = |now: f64, last: f64| (now - last) / INTERVAL.as_secs_f64();
        let last = std::mem::replace(&mut self.last, totals);
        let samples_in = self
            .samples_in
            .tick(per_second(totals.samples_in, last.samples_in));
        let samples_out = self
            .samples_out
            .tick(per_second(totals.samples_out, last.samples_out));
        let dropped = self.dropped.tick(per_second(totals.dropped, last.dropped));
        let out_seconds = self
            .out_seconds
            .tick(per_second(totals.out_seconds, last.out_seconds));
        #[expect(clippy::cast_precision_loss, reason = "a few hundred shards")]
        let now = shards as f64;
        if samples_out <= 0.0 {
            return (now, None);
        }
        let kept = samples_out / (dropped + samples_out);
        let waiting = behind_seconds * samples_in * kept;
        let a_sample = out_seconds / samples_out;
        let desired = a_sample * (samples_in * kept + CATCH_UP * waiting);
        let wanted = desired.ceil();
        let is_near = (now * (1.0 - TOLERANCE)..=now * (1.0 + TOLERANCE)).contains(&wanted);
        let gives_up = wanted < now && behind_seconds > BEHIND_SECONDS;
        if is_near || gives_up {
            return (desired, None);
        }
        let wanted = (wanted as usize).clamp(config.min_shards, config.max_shards);
        (desired, Some(wanted).filter(|wanted| *wanted != shards))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_follow_the_time_that_sending_takes() {
        let config = QueueConfig {
            max_shards: 8,
            ..QueueConfig::default()
        };
        // 1,000 samples a second come in and go out, each takes 2.9 ms: three shards are busy.
        let totals = |ticks: f64| Totals {
            samples_in: 10_000.0 * ticks,
            samples_out: 10_000.0 * ticks,
            dropped: 0.0,
            out_seconds: 29.0 * ticks,
        };
        let mut rates = Rates::default();
        let (desired, change) = rates.tick(totals(1.0), 0.0, 1, &config);
        assert!((desired - 2.9).abs() < 0.001);
        assert_eq!(change, Some(3));
        assert_eq!(rates.tick(totals(2.0), 0.0, 3, &config).1, None);
        // A backlog asks for more, and keeps those that are there.
        assert_eq!(rates.tick(totals(3.0), 60.0, 3, &config).1, Some(8));
        assert_eq!(rates.tick(totals(4.0), 11.0, 8, &config).1, None);
        assert_eq!(rates.tick(totals(5.0), 0.0, 8, &config).1, Some(3));
        // Nothing was sent: nothing is known.
        let mut rates = Rates::default();
        assert_eq!(rates.tick(Totals::default(), 99.0, 2, &config).1, None);
    }
}
