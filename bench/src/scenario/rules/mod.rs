//! `rules`: servers scrape the same fleet and evaluate the same rules; what an evaluation costs and how long it takes.
//!
//! **Invariant:** every server gets the same rule files and phases, and has figures only if every rule it was given is
//! healthy at the end and no evaluation failed.

mod figures;
mod plan;
mod run;
mod self_metrics;

use super::prelude::*;
use plan::{Flags, Plan};

pub(crate) static SCENARIO: Scenario = Scenario {
    name: "rules",
    about: "Servers scrape the same fleet and evaluate the same recording and alerting rules.",
    flags: &[Servers::FLAGS, Flags::FLAGS, Common::FLAGS],
    run,
};

/// Measures every server, before its rules without them if that is asked for.
fn run(values: &Values) -> Result<Record, BenchError> {
    let plan = Plan::from_values(values)?;
    let (servers, notes) = ServerSpec::chosen(values)?;
    let mut record = values.record(plan.title(), ServerSpec::subjects(&servers), notes);
    record.notes.push(
        "Durations of evaluations are what the server says of itself; their quantiles cover the warm-up too."
            .to_owned(),
    );
    let each = plan.each();
    for_each_turn(values, &servers, 1, each, |turn, server, progress| {
        let mut baseline = None;
        if plan.flags.baseline {
            let outcome = run::measure(&plan, server, false, progress)?;
            baseline = Some(figures::cores(&outcome));
            let run = figures::run(&outcome, "without rules", None);
            record.runs.push(run.for_turn(turn));
        }
        let outcome = run::measure(&plan, server, true, progress)?;
        let run = figures::run(&outcome, "with rules", baseline);
        record.runs.push(run.for_turn(turn));
        Ok(())
    })?;
    Ok(record)
}
