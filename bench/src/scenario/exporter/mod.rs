//! `exporter`: exporters of one host, scraped in turn; the cost of a scrape, and the differences of their pages.
//!
//! **Invariant:** all run at once on the same host, so that they report the same; only one is scraped at a time. The
//! first one's page is taken before and after each other's, which bounds the values of counters.

mod compare;
mod figures;
mod incident;
mod measure;
mod page;
mod syscalls;

use super::prelude::*;
use crate::{harness::without_command, record::Run};
use measure::{Exporter, Plan};
use narthex_cli::flags;
use std::time::Duration;

pub(crate) static SCENARIO: Scenario = Scenario {
    name: "exporter",
    about: "Exporters of this host are scraped in turn, and their pages compared.",
    flags: &[Servers::FLAGS, Flags::FLAGS, Common::FLAGS],
    run,
};

flags! {
    /// What `exporter` takes.
    #[derive(Debug)]
    pub(super) struct Flags {
        /// Scrapes of each exporter, for each encoding.
        scrapes: u32 = "scrapes", default("100"), within(1, 1_000_000);
        /// Time between two of them.
        interval: Duration = "interval", default("100ms");
        /// What is scraped.
        path: String = "path", default("/metrics"), value("PATH");
        /// Count system calls with strace, apart from what is timed.
        syscalls: bool = "syscalls";
        /// Measure a node of the fourth incident, with many devices and a load balancer, and what was done about it step
        /// by step; needs root.
        incident: bool = "incident";
    }
}

/// Variants: whether the scraper accepts a compressed page, as Prometheus does.
const ENCODINGS: [(&str, bool); 2] = [("identity", false), ("gzip", true)];

/// Scrapes all exporters.
fn run(values: &Values) -> Result<Record, BenchError> {
    let plan = Plan {
        flags: values.read(Flags::from_values)?,
        base: values.dir()?,
    };
    let (scrapes, interval) = (plan.flags.scrapes, plan.flags.interval);
    let (mut servers, mut notes) = ServerSpec::chosen(values)?;
    without_command(&mut servers, "node-exporter", &mut notes)?;
    let title = format!("{scrapes} scrapes of each exporter, {interval:?} between them");
    let mut record = values.record(title, ServerSpec::subjects(&servers), notes);
    if plan.flags.incident {
        record.runs = step_by_step(values, &plan, &servers)?;
        return Ok(record);
    }
    let mut exporters: Vec<Exporter> = servers
        .iter()
        .map(|spec| Exporter::start(&plan, spec))
        .collect::<Result<_, _>>()?;
    let each = plan.each();
    for_each_turn(
        values,
        &servers,
        ENCODINGS.len(),
        each,
        |turn, spec, progress| {
            let (encoding, is_packed) = ENCODINGS[turn.variant];
            progress.begin(&spec.label, encoding);
            let scraped = exporters[turn.subject].scrape(&plan, is_packed)?;
            record
                .runs
                .push(figures::run(encoding, &scraped).for_turn(turn));
            Ok(())
        },
    )?;
    if plan.flags.syscalls {
        let mut counted = Vec::new();
        for (subject, exporter) in exporters.iter_mut().enumerate() {
            match exporter.syscalls(&plan)? {
                Ok(calls) => {
                    figures::add_syscalls(&mut record, subject, &calls);
                    counted.push((exporter.label().to_owned(), calls));
                }
                Err(why) => {
                    let note = format!("System calls are not counted: {why}.");
                    record.notes.push(note);
                }
            }
        }
        record.differences.extend(figures::syscall_table(&counted));
    }
    let (first, others) = exporters
        .split_first_mut()
        .expect("there is at least one exporter");
    for other in others {
        let before = first.page(&plan)?;
        let page = other.page(&plan)?;
        let after = first.page(&plan)?;
        let comparison = compare::Comparison::new(&before, &page, &after);
        let tables = figures::tables(first.label(), other.label(), &comparison);
        record.differences.extend(tables);
        let summary = figures::summary(first.label(), other.label(), &comparison);
        record.notes.push(summary);
    }
    record.notes.dedup();
    Ok(record)
}

/// Scrapes every exporter with the flags of each step, compressed as Prometheus asks for it.
fn step_by_step(
    values: &Values,
    plan: &Plan,
    servers: &[ServerSpec],
) -> Result<Vec<Run>, BenchError> {
    let node = incident::enter(&plan.base)?;
    let mut started = Vec::new();
    for spec in servers {
        for step in 0..incident::STEPS.len() {
            let mut spec = spec.clone();
            spec.label = format!("{}-{step}", spec.label);
            spec.kind = spec.kind.with_arguments(&incident::arguments(step, &node));
            started.push(Exporter::start(plan, &spec)?);
        }
    }
    let mut runs = Vec::new();
    let steps = incident::STEPS.len();
    let each = plan.each();
    for_each_turn(values, servers, steps, each, |turn, spec, progress| {
        let (name, _) = incident::STEPS[turn.variant];
        progress.begin(&spec.label, name);
        let exporter = &mut started[turn.subject * steps + turn.variant];
        let scraped = exporter.scrape(plan, true)?;
        runs.push(figures::run(name, &scraped).for_turn(turn));
        Ok(())
    })?;
    Ok(runs)
}
