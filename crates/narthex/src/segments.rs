//! Metrics that other processes keep in shared memory, as a source of frames.

use crate::{config::Segments, status::hostname};
use narthex_model::Frame;
use narthex_scrape::{LocalHandle, LocalSource, Manager, Target};
use narthex_segment::{Pool, PoolOptions, Problem};

/// Metrics that other processes keep in shared memory.
struct SegmentMetrics {
    options: PoolOptions,
    pool: Pool,
    /// What was logged, so that it is logged once.
    told: Vec<Problem>,
}

/// Starts reading segments.
pub(crate) fn watch(manager: &Manager, segments: &Segments) -> LocalHandle {
    let target = Target::local(&segments.job_name, &hostname());
    let mut options = PoolOptions::default();
    options.dir.clone_from(&segments.dir);
    options.common = target.labels.clone();
    options.by_worker = !segments.merge;
    options.max_bytes = segments.max_bytes;
    options.max_bytes_per_user = segments.max_bytes_per_user;
    let source = SegmentMetrics {
        pool: Pool::new(options.clone()),
        options,
        told: Vec::new(),
    };
    manager.start_local(target, segments.interval, Box::new(source))
}

impl LocalSource for SegmentMetrics {
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String> {
        let collected = self.pool.collect(now_ms);
        collected.map_err(|error| format!("{}: {error}", self.options.dir.display()))?;
        let problems = self.pool.problems();
        for problem in problems
            .iter()
            .filter(|problem| !self.told.contains(problem))
        {
            tracing::warn!(
                file = problem.path.display().to_string(),
                reason = problem.reason,
                "A segment, or a part of it, is not read.",
            );
        }
        self.told = problems.to_vec();
        Ok(self.pool.frame())
    }

    fn restart(&mut self) -> Result<(), String> {
        self.pool = Pool::new(self.options.clone());
        Ok(())
    }
}
