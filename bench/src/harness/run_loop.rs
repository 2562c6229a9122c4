//! The loop shared by scenarios: every server under every variant, for all repetitions.

use super::{
    cli::Values,
    error::BenchError,
    progress::Progress,
    server::ServerSpec,
    turns::{Turn, turns},
};
use std::time::Duration;

/// Calls `measure` for every turn; one takes about `each`.
pub(crate) fn for_each_turn(
    values: &Values,
    servers: &[ServerSpec],
    variants: usize,
    each: Duration,
    mut measure: impl FnMut(Turn, &ServerSpec, &Progress) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let turns = turns(servers.len(), variants, values.get("repetitions")?);
    let progress = Progress::new(each * turns.len() as u32);
    turns
        .into_iter()
        .try_for_each(|turn| measure(turn, &servers[turn.subject], &progress))
}
