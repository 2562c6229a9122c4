//! `narthex check service-discovery`: prints the targets that a job discovers, before and after relabelling.
//!
//! **Invariant:** exit codes are promtool's: 0 if the job could be queried, 1 if not.

use crate::{
    cli::DiscoveryFlags,
    config::{Config, Features, Job},
    reload,
};
use narthex_discovery::{Manager, SdConfig, TargetGroup, Targets};
use narthex_model::LabelSet;
use narthex_net::Stopper;
use narthex_scrape::Preview;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

/// Prints the targets as JSON; returns the exit code.
///
/// # Errors
/// Fails when the output cannot be written, or no thread can be started.
pub(crate) fn run(
    flags: &DiscoveryFlags,
    out: &mut dyn Write,
    error: &mut dyn Write,
) -> io::Result<u8> {
    let config = match Config::load(&flags.file, &reload::environment, Features::default()) {
        Ok(config) => config,
        Err(reason) => {
            writeln!(error, "Cannot load config {reason}")?;
            return Ok(1);
        }
    };
    let name = |job: &Job| job.scrape.job_name.clone();
    let Some(job) = config.jobs.iter().find(|job| name(job) == flags.job) else {
        writeln!(error, "Job {} not found. Select one of:", flags.job)?;
        for job in &config.jobs {
            writeln!(error, "\t{}", name(job))?;
        }
        return Ok(1);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let groups = runtime.block_on(discover(job, flags.timeout));
    runtime.shutdown_timeout(Duration::from_secs(1));
    let mut previews: Vec<Preview> = Vec::new();
    for group in groups {
        for preview in job.scrape.preview(&group) {
            if !previews.contains(&preview) {
                previews.push(preview);
            }
        }
    }
    let shown: Vec<Value> = previews.iter().map(shown).collect();
    writeln!(out, "{:#}", Value::Array(shown))?;
    Ok(0)
}

/// Runs a job's discovery until the timeout; static targets do not wait for it.
async fn discover(job: &Job, timeout: Duration) -> Vec<Arc<TargetGroup>> {
    let (stopper, stop) = Stopper::new();
    let (manager, mut targets) = Manager::new("check", reload::discovery_options(), stop);
    let name = job.scrape.job_name.clone();
    manager.apply(BTreeMap::from([(name.clone(), job.discovery.clone())]));
    let written = |config: &SdConfig| matches!(config, SdConfig::Static(_));
    if job.discovery.iter().all(written) {
        // The first publication has all static targets.
        let _ = tokio::time::timeout(timeout, targets.next()).await;
    } else {
        // Collects everything found before the timeout.
        let _ = tokio::time::timeout(timeout, follow(&mut targets)).await;
    }
    stopper.stop();
    targets.current().get(&name).cloned().unwrap_or_default()
}

async fn follow(targets: &mut Targets) {
    while targets.next().await.is_some() {}
}

fn shown(preview: &Preview) -> Value {
    let labels = |set: &LabelSet| -> Value {
        let pair = |label: &narthex_model::Label| (label.name().to_owned(), label.value().into());
        Value::Object(set.iter().map(pair).collect::<Map<_, _>>())
    };
    let mut shown = json!({
        "discoveredLabels": labels(&preview.discovered),
        "labels": labels(&preview.labels),
    });
    if let (Some(error), Some(shown)) = (&preview.error, shown.as_object_mut()) {
        shown.insert("error".to_owned(), error.as_str().into());
    }
    shown
}
