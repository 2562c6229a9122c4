//! What rules are evaluated over: a server's API, or the data directory of a stopped Narthex.
//!
//! **Invariant:** both answer a range query alike, but for histograms, which the API does not tell whole.

use crate::{cli::BackfillOptions, role::query::text, server_client::ServerClient};
use narthex_model::{LabelSet, storage::Context};
use narthex_net::percent;
use narthex_promql::{Engine, EngineOptions, MatrixSeries, Value};
use narthex_tsdb::{Db, DbOptions, RealIo, SystemClock, Tuning};
use serde_json::Value as Json;
use std::{sync::Arc, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// Longest time of a query.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Path of range queries.
const RANGE: &str = "/api/v1/query_range";

/// Answers range queries.
pub(super) enum Source {
    Api {
        server: ServerClient,
        runtime: Runtime,
    },
    Data {
        db: Db,
        engine: Engine,
    },
}

/// Result of a range query.
pub(super) struct Ranged {
    pub(super) series: Vec<MatrixSeries>,
    pub(super) histograms_left_out: u64,
}

impl Source {
    pub(super) fn open(options: &BackfillOptions) -> Result<Self, String> {
        let Some(path) = &options.data_dir else {
            return Self::api(options);
        };
        if !path.is_dir() {
            return Err(format!("{}: not a data directory", path.display()));
        }
        let mut db = DbOptions::new(path);
        // Nothing is removed for its age here.
        db.tuning = Tuning {
            retention_ms: None,
            ..Tuning::default()
        };
        let db = Db::open(Arc::new(RealIo), db, Arc::new(SystemClock));
        Ok(Self::Data {
            db: db.map_err(|error| error.to_string())?,
            engine: Engine::new(EngineOptions::default()),
        })
    }

    fn api(options: &BackfillOptions) -> Result<Self, String> {
        let server = ServerClient::open(&options.url, options.http_config.as_deref())?;
        // A URL that cannot be parsed is the command's error, not that of each rule.
        server.request(RANGE, TIMEOUT)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self::Api {
            server,
            runtime: runtime.map_err(|error| error.to_string())?,
        })
    }

    pub(super) fn range(
        &self,
        query: &str,
        start_ms: i64,
        end_ms: i64,
        step_ms: i64,
    ) -> Result<Ranged, String> {
        match self {
            Self::Data { db, engine } => {
                let ctx = Context::unlimited();
                let result = engine.range(db, query, start_ms, end_ms, step_ms, &ctx);
                let result = result.map_err(|error| error.to_string())?;
                let Value::Matrix(series) = result.value else {
                    return Err("rule result is not a matrix".to_owned());
                };
                Ok(Ranged {
                    series,
                    histograms_left_out: 0,
                })
            }
            Self::Api { server, runtime } => {
                let form = format!(
                    "query={}&start={}&end={}&step={}",
                    percent::escape_form(query),
                    text::seconds(start_ms),
                    text::seconds(end_ms),
                    text::seconds(step_ms)
                );
                let request = server.request(RANGE, TIMEOUT)?;
                let (status, body) = runtime.block_on(server.post(request, &form))?;
                ranged(&body).map_err(|reason| match status {
                    200 => format!("query range: {reason}"),
                    status => format!("query range: status {status}: {reason}"),
                })
            }
        }
    }

    /// Releases a data directory; there is nothing in it to lose.
    pub(super) fn close(self) {
        if let Self::Data { db, .. } = self {
            let _ = db.close();
        }
    }
}

/// Reads the API's answer.
fn ranged(body: &[u8]) -> Result<Ranged, String> {
    let answer: Json = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if answer["status"] != "success" {
        let error = answer["error"]
            .as_str()
            .unwrap_or("not an answer of the API");
        return Err(error.to_owned());
    }
    let data = &answer["data"];
    if data["resultType"] != "matrix" {
        return Err(format!("rule result is wrong type {}", data["resultType"]));
    }
    let mut ranged = Ranged {
        series: Vec::new(),
        histograms_left_out: 0,
    };
    for series in data["result"].as_array().into_iter().flatten() {
        let malformed = || format!("malformed series {series}");
        let labels = series["metric"].as_object().ok_or_else(malformed)?;
        let labels = labels.iter();
        let labels = labels.filter_map(|(name, value)| Some((&**name, value.as_str()?)));
        let floats = series["values"].as_array().into_iter().flatten().map(float);
        let floats: Option<Vec<(i64, f64)>> = floats.collect();
        let histograms = series["histograms"].as_array().map_or(0, Vec::len);
        ranged.histograms_left_out += histograms as u64;
        ranged.series.push(MatrixSeries {
            labels: LabelSet::new(labels),
            floats: floats.ok_or_else(malformed)?,
            histograms: Vec::new(),
        });
    }
    Ok(ranged)
}

fn float(point: &Json) -> Option<(i64, f64)> {
    let time_ms = (point[0].as_f64()? * 1000.0).round();
    let value = text::number(point[1].as_str()?)?;
    #[expect(clippy::cast_possible_truncation, reason = "a time in milliseconds")]
    Some((time_ms as i64, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let body = br#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"a":"b"},"values":[[1.5,"1e+3"],[2,"-Inf"],[3.001,"-0.5"]]},
            {"metric":{},"histograms":[[1,{}]]}]}}"#;
        let read = ranged(body).unwrap();
        let floats = [(1500, 1000.0), (2000, f64::NEG_INFINITY), (3001, -0.5)];
        assert_eq!(read.series[0].floats, floats);
        assert_eq!(read.series[0].labels, LabelSet::new([("a", "b")]));
        assert_eq!(read.histograms_left_out, 1);
        for (body, reason) in [
            ("<html>", "expected value"),
            (r#"{"status":"error","error":"no"}"#, "no"),
            ("{}", "not an answer of the API"),
            (
                r#"{"status":"success","data":{"resultType":"string"}}"#,
                "wrong type \"string\"",
            ),
            (
                r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,2]]}]}}"#,
                "malformed series",
            ),
        ] {
            let error = ranged(body.as_bytes()).err().unwrap();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(text::seconds(1_700_000_000_050), "1700000000.050");
        assert_eq!(text::seconds(-1500), "-1.500");
    }
}
