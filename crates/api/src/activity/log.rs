//! The query log: one JSON object per line, in Prometheus' format.
//!
//! **Invariant:** each line is written whole in one write; a failed write loses its line, never a query.

use super::{Entry, Origin};
use narthex_client::{Counter, Gauge, Registry};
use narthex_model::{date::rfc3339, sync::Whole as _};
use narthex_promql::QueryError;
use serde_json::{Value, json};
use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

static ENABLED: Gauge = Gauge::new(
    "prometheus_engine_query_log_enabled",
    "State of the query log.",
);
static FAILURES: Counter = Counter::new(
    "prometheus_engine_query_log_failures_total",
    "The number of query log failures.",
);

pub(crate) fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[&ENABLED, &FAILURES])
}

/// The log, open or not.
#[derive(Debug, Default)]
pub(super) struct QueryLog {
    file: Mutex<Option<File>>,
    is_open: AtomicBool,
}

impl QueryLog {
    pub(super) fn open(&self, path: Option<&Path>) -> std::io::Result<()> {
        let append = |path| OpenOptions::new().append(true).create(true).open(path);
        let file = path.map(append).transpose()?;
        let is_open = file.is_some();
        *self.file.lock().whole() = file;
        self.is_open.store(is_open, Ordering::Relaxed);
        ENABLED.set(if is_open { 1.0 } else { 0.0 });
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(super) fn write(
        &self,
        now_ms: i64,
        text: &str,
        entry: &Entry,
        stats: &Value,
        error: Option<&QueryError>,
    ) {
        let mut file = self.file.lock().whole();
        let Some(file) = file.as_mut() else { return };
        let mut line = line(now_ms, text, entry, stats, error);
        line.push('\n');
        if file.write_all(line.as_bytes()).is_err() {
            FAILURES.inc();
        }
    }
}

/// Returns a line without its end. The fields come in Prometheus' order.
fn line(
    now_ms: i64,
    text: &str,
    entry: &Entry,
    stats: &Value,
    error: Option<&QueryError>,
) -> String {
    let [start_ms, end_ms, step_ms] = entry.times;
    let params = json!({
        "end": rfc3339(end_ms),
        "query": text,
        "start": rfc3339(start_ms),
        "step": step_ms / 1000,
    });
    let mut line = format!(
        "{{\"time\":\"{}\",\"level\":\"INFO\",\"source\":{:?},\"msg\":\"promql query logged\",\"params\":{params}",
        rfc3339(now_ms),
        concat!("log.rs:", line!()),
    );
    if let Some(error) = error {
        line.push_str(&format!(",\"error\":{}", Value::from(error.to_string())));
    }
    line.push_str(&format!(",\"stats\":{stats}"));
    match &entry.origin {
        Origin::Http {
            client,
            method,
            path,
            ..
        } => {
            let request = json!({ "clientIP": client, "method": method, "path": path });
            line.push_str(&format!(",\"httpRequest\":{request}"));
        }
        Origin::Rule { file, group } if !file.is_empty() => {
            let group = json!({ "file": **file, "name": **group });
            line.push_str(&format!(",\"ruleGroup\":{group}"));
        }
        Origin::Rule { .. } => {}
    }
    line.push('}');
    line
}
