//! `/query` and `/query_range`.

use crate::{
    activity::{Asked, Origin, Ticket, Times},
    answer::{Answer, Item, LABEL_BYTES, framed},
    call::run_known,
    config::{Api, Gate},
    cost::{CostOptions, comparison},
    error::ApiError,
    json::{self, LabelNames},
    metrics,
    params::Params,
    stats::{stats_json, trace_json},
};
use http::header::USER_AGENT;
use narthex_model::storage::{Context, Helpers};
use narthex_net::axum::extract::{ConnectInfo, Request};
use narthex_promql::{
    CostEstimate, Engine, MatrixSeries, Query, QueryError, QueryResult, SampleValue, Value,
    VectorSample,
};
use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Most points per series of a range query.
const MAX_POINTS: i64 = 11_000;

pub(crate) async fn instant(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    measured(&api, instant_options(&api, request)).await
}

pub(crate) async fn range(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    measured(&api, range_options(&api, request)).await
}

async fn measured(
    api: &Arc<Api>,
    options: impl Future<Output = Result<Options, ApiError>>,
) -> Result<Answer, ApiError> {
    let start = Instant::now();
    let outcome = async { options.await?.run(api).await }.await;
    let label = outcome
        .as_ref()
        .map_or_else(|error| error.kind.as_str(), |_| "success");
    metrics::DURATION
        .with(&[label])
        .observe_duration(start.elapsed());
    outcome
}

/// Reads the options of an instant query.
pub(crate) async fn instant_options(api: &Arc<Api>, request: Request) -> Result<Options, ApiError> {
    let origin = origin(&request);
    let params = Params::read(api, request).await?;
    let limit = params.limit()?;
    let time_ms = params.time_or("time", (api.now_ms)())?;
    let times = [time_ms, time_ms, 0];
    Options::read(params, api, (limit, times), origin)
}

/// Reads the options of a range query.
pub(crate) async fn range_options(api: &Arc<Api>, request: Request) -> Result<Options, ApiError> {
    let origin = origin(&request);
    let params = Params::read(api, request).await?;
    let limit = params.limit()?;
    let (start_ms, end_ms) = (params.time("start")?, params.time("end")?);
    if end_ms < start_ms {
        return Err(ApiError::parameter(
            "end",
            "end timestamp must not be before start time",
        ));
    }
    let step_ms = params.duration("step")?;
    if step_ms <= 0 {
        return Err(ApiError::parameter(
            "step",
            "zero or negative query resolution step widths are not accepted. Try a positive integer",
        ));
    }
    if (end_ms - start_ms) / step_ms > MAX_POINTS {
        return Err(ApiError::bad_data(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        ));
    }
    let times = [start_ms, end_ms, step_ms];
    Options::read(params, api, (limit, times), origin)
}

/// Returns who sent a request.
fn origin(request: &Request) -> Origin {
    let headers = request.headers();
    let agent = headers.get(USER_AGENT);
    let name = agent.and_then(|agent| agent.as_bytes().get(..7));
    let is_grafana = name.is_some_and(|name| name.eq_ignore_ascii_case(b"Grafana"));
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    Origin::Http {
        client: peer.map_or_else(String::new, |peer| peer.0.ip().to_string()),
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        is_dashboard: is_grafana
            || headers.contains_key("x-dashboard-uid")
            || headers.contains_key("x-panel-id"),
    }
}

/// Options that instant and range queries share.
pub(crate) struct Options {
    engine: Engine,
    params: Params,
    pub(crate) timeout: Duration,
    /// Whether the answer has costs.
    has_costs: bool,
    limit: Option<usize>,
    stats: String,
    is_traced: bool,
    times: Times,
    arrived: Instant,
    ticket: Arc<Ticket>,
}

impl Options {
    /// Reads the options of a query at `start, end, step` in milliseconds, and registers it.
    fn read(
        params: Params,
        api: &Api,
        (limit, times): (Option<usize>, Times),
        origin: Origin,
    ) -> Result<Self, ApiError> {
        let costs = CostOptions::read(&params, api)?;
        let timeout = params.timeout(costs.duration)?;
        let lookback = params.scalar("lookback_delta")?;
        let lookback_delta_ms = if lookback.is_empty() {
            0
        } else {
            crate::time::parse_duration(&lookback).map_err(|unread| {
                ApiError::bad_data(format!("error parsing lookback delta duration: {unread}"))
            })?
        };
        let mut engine = Engine::clone(&api.engine).reading_at_most(costs.most_read);
        if lookback_delta_ms > 0 {
            engine = engine.with_lookback(lookback_delta_ms);
        }
        // Costs are those of a whole evaluation.
        if params.is_on("nocache")? || costs.is_asked {
            engine = engine.keeping(None);
        }
        let asked = Asked {
            text: &params.get("query"),
            times,
            is_limited: costs.is_limited && timeout == costs.duration,
        };
        let ticket = api.activity.arrive(&asked, origin);
        Ok(Self {
            engine: engine.observed(ticket.observer()),
            timeout,
            has_costs: costs.is_asked,
            limit,
            stats: params.scalar("stats")?.into_owned(),
            is_traced: params.is_on("trace")?,
            times,
            arrived: Instant::now(),
            ticket,
            params,
        })
    }

    /// Answers the query.
    async fn run(self, api: &Arc<Api>) -> Result<Answer, ApiError> {
        let [start_ms, end_ms, step_ms] = self.times;
        let question = api.short.key((self.query(), end_ms - start_ms, step_ms));
        let timeout = self.timeout;
        let work = move |api: &Api, ctx: &Context| self.answer(api, ctx);
        run_known(api, Gate::Query, timeout, question, work).await
    }

    fn query(&self) -> Cow<'_, str> {
        self.params.get("query")
    }

    /// Estimates what the query reads.
    pub(crate) fn estimate(&self, api: &Api, ctx: &Context) -> Result<CostEstimate, QueryError> {
        let [start_ms, end_ms, step_ms] = self.times;
        let text = self.query();
        let query = Query::range(&text, start_ms, end_ms, step_ms);
        self.engine.estimate(&*api.store, &query, ctx)
    }

    /// Warns of a value of `stats` that is not understood in the future.
    pub(crate) fn warning_of_stats(&self) -> Option<String> {
        let stats = &*self.stats;
        (!matches!(stats, "" | "true" | "all")).then(|| {
            format!(
                "value {stats:?} for parameter \"stats\" is deprecated and will be rejected in the next major release, use \"true\" or \"all\""
            )
        })
    }

    /// Evaluates the query and returns the response.
    fn answer(&self, api: &Api, ctx: &Context) -> Result<Answer, ApiError> {
        let begun = Instant::now();
        let clock = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let [start_ms, end_ms, step_ms] = self.times;
        let (text, by_step) = (self.query(), api.config.per_step_stats);
        let query = Query {
            text: &text,
            start_ms,
            end_ms,
            step_ms,
            // Costs a pass, and keeps the query to one thread.
            count_steps: self.stats == "all",
            clock: self.is_traced.then_some(&clock),
        };
        // One that fails is no reason to refuse the query; when its time is over, so is the query's.
        let estimate = self.has_costs.then(|| self.estimate(api, ctx));
        let helpers = self.engine.helpers().of_query();
        let QueryResult {
            mut value,
            mut warnings,
            infos,
            stats,
            trace,
            held,
        } = self.engine.run(&*api.store, &query, ctx)?;
        metrics::REUSED_STEPS.inc_by(stats.reused_steps);
        if truncate(&mut value, self.limit) {
            warnings.push("results truncated due to limit".to_owned());
        }
        let mut end = Vec::new();
        let queued = begun.duration_since(self.arrived);
        warnings.extend(self.warning_of_stats());
        let costs = match estimate {
            Some(Ok(estimate)) => {
                let costs = comparison(&estimate, &stats);
                warnings.extend(estimate.warnings);
                Some(costs)
            }
            Some(Err(failed)) => {
                warnings.push(format!("cost estimation failed: {failed}"));
                None
            }
            None => None,
        };
        let by_step = by_step && self.stats == "all";
        let stats =
            (!self.stats.is_empty()).then(|| stats_json(&stats, queued, begun.elapsed(), by_step));
        let trace = trace.map(|trace| trace_json(&trace, &text, queued));
        for (key, part) in [("stats", stats), ("cost", costs), ("trace", trace)] {
            if let Some(part) = part {
                end.extend_from_slice(format!(",\"{key}\":{part}").as_bytes());
            }
        }
        end.push(b'}');
        let mut answer = written(value, end, &helpers, ctx)?;
        answer.holds.add(held);
        answer.holds.add(Arc::clone(&self.ticket));
        answer.warnings = warnings;
        answer.infos = infos;
        Ok(answer)
    }
}

/// Returns a response with `value` as data, followed by `end`; helpers write what is long.
///
/// # Errors
/// Fails when stopped.
fn written(
    value: Value,
    end: Vec<u8>,
    helpers: &Helpers,
    ctx: &Context,
) -> Result<Answer, ApiError> {
    let mut head = br#"{"resultType":""#.to_vec();
    head.extend_from_slice(value.type_name().as_bytes());
    head.extend_from_slice(br#"","result":"#);
    match value {
        Value::Scalar { time_ms, value } => {
            json::sample(&mut head, time_ms, value);
            head.extend_from_slice(&end);
            Ok(Answer::whole(head))
        }
        Value::String { time_ms, text } => {
            head.push(b'[');
            json::time(&mut head, time_ms);
            head.push(b',');
            json::string(&mut head, &text);
            head.push(b']');
            head.extend_from_slice(&end);
            Ok(Answer::whole(head))
        }
        Value::Vector(samples) => Ok(Answer::of_list([head, end], samples, helpers, ctx)?),
        Value::Matrix(series) if are_small(&series) => {
            Ok(Answer::of_list([head, end], series, helpers, ctx)?)
        }
        Value::Matrix(series) => {
            let mut matrix = Matrix::new(series);
            let matrix = move |out: &mut Vec<u8>| matrix.write(out);
            Ok(Answer::made(framed(head, end, matrix)))
        }
    }
}

fn truncate(value: &mut Value, limit: Option<usize>) -> bool {
    let Some(limit) = limit else { return false };
    match value {
        Value::Vector(samples) if samples.len() > limit => samples.truncate(limit),
        Value::Matrix(series) if series.len() > limit => series.truncate(limit),
        _ => return false,
    }
    true
}

impl Item for VectorSample {
    fn text_bytes(&self) -> Option<usize> {
        let is_float = matches!(self.value, SampleValue::Float(_));
        is_float.then(|| self.labels.len() * LABEL_BYTES + POINT_BYTES)
    }

    fn write(&self, names: &mut LabelNames, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"metric":"#);
        names.labels(out, &self.labels);
        match &self.value {
            SampleValue::Float(value) => {
                out.extend_from_slice(br#","value":"#);
                json::sample(out, self.time_ms, *value);
            }
            SampleValue::Histogram(histogram) => {
                out.extend_from_slice(br#","histogram":"#);
                json::histogram_sample(out, self.time_ms, histogram);
            }
        }
        out.push(b'}');
    }
}

impl Item for MatrixSeries {
    fn text_bytes(&self) -> Option<usize> {
        let floats = self.floats.len() * POINT_BYTES;
        let is_known = self.histograms.is_empty();
        is_known.then(|| self.labels.len() * LABEL_BYTES + floats)
    }

    fn write(&self, names: &mut LabelNames, out: &mut Vec<u8>) {
        let mut points = Points::begin(self, names, out);
        while points.write_more(self, out) {}
    }
}

/// About what a point takes, written.
const POINT_BYTES: usize = 32;
/// Most bytes of a series that is written at once.
const MOST_AT_ONCE: usize = 64 << 10;

/// Reports whether none of some series takes long to write.
fn are_small(series: &[MatrixSeries]) -> bool {
    let mut bytes = series.iter().map(Item::text_bytes);
    bytes.all(|bytes| bytes.is_some_and(|bytes| bytes <= MOST_AT_ONCE))
}

/// A matrix that is written some points at a time: one series may have millions.
struct Matrix {
    series: std::vec::IntoIter<MatrixSeries>,
    current: Option<(MatrixSeries, Points)>,
    begun: bool,
    names: LabelNames,
}

/// Points of a series that were written, floats before histograms.
struct Points {
    floats: usize,
    histograms: usize,
}

/// Floats written per step.
const FLOATS: usize = 512;

impl Points {
    /// Writes what precedes the points.
    fn begin(series: &MatrixSeries, names: &mut LabelNames, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(br#"{"metric":"#);
        names.labels(out, &series.labels);
        Self {
            floats: 0,
            histograms: 0,
        }
    }

    /// Writes some more points; returns `false` after the end of the series.
    fn write_more(&mut self, series: &MatrixSeries, out: &mut Vec<u8>) -> bool {
        let more = series.floats.get(self.floats..);
        if let Some(more) = more.filter(|more| !more.is_empty()) {
            out.extend_from_slice(if self.floats == 0 {
                br#","values":["#
            } else {
                b","
            });
            let some = more.get(..FLOATS).unwrap_or(more);
            for (at, (time_ms, value)) in some.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json::sample(out, *time_ms, *value);
            }
            self.floats += some.len();
            if self.floats == series.floats.len() {
                out.push(b']');
            }
        } else if let Some((time_ms, histogram)) = series.histograms.get(self.histograms) {
            out.extend_from_slice(if self.histograms == 0 {
                br#","histograms":["#
            } else {
                b","
            });
            json::histogram_sample(out, *time_ms, histogram);
            self.histograms += 1;
            if self.histograms == series.histograms.len() {
                out.push(b']');
            }
        } else {
            out.push(b'}');
            return false;
        }
        true
    }
}

impl Matrix {
    fn new(series: Vec<MatrixSeries>) -> Self {
        Self {
            series: series.into_iter(),
            current: None,
            begun: false,
            names: LabelNames::default(),
        }
    }

    /// Writes some points; returns whether there is more.
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some((series, points)) = &mut self.current {
            if !points.write_more(series, out) {
                self.current = None;
            }
            return true;
        }
        let first = !std::mem::replace(&mut self.begun, true);
        let Some(series) = self.series.next() else {
            out.extend_from_slice(if first { b"[]" } else { b"]" });
            return false;
        };
        out.push(if first { b'[' } else { b',' });
        let points = Points::begin(&series, &mut self.names, out);
        self.current = Some((series, points));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Data;
    use narthex_model::{
        Histogram, LabelSet,
        storage::{Budget, Stop, StorageError},
    };
    use serde_json::json;

    /// A series of millions of points used to be written as one piece of text.
    #[test]
    fn a_matrix_is_written_some_points_at_a_time() {
        let floats = |count: i64| (0..count).map(|at| (at * 1000, 0.5)).collect();
        let series = |name: &str, count: i64, histograms: i64| MatrixSeries {
            labels: LabelSet::new([("n", name)]),
            floats: floats(count),
            histograms: (0..histograms)
                .map(|at| (at, Arc::new(Histogram::default())))
                .collect(),
        };
        let mut matrix = Matrix::new(vec![
            series("a", 100_000, 0),
            series("b", 3, 2),
            series("c", 0, 1),
        ]);
        let (mut text, mut most) = (Vec::new(), 0);
        loop {
            let before = text.len();
            let more = matrix.write(&mut text);
            most = most.max(text.len() - before);
            if !more {
                break;
            }
        }
        assert!(most < 20_000, "{most} bytes in one step");
        let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(all[0]["values"].as_array().map(Vec::len), Some(100_000));
        assert_eq!(all[1]["values"][2], json!([2, "0.5"]));
        assert_eq!(all[1]["histograms"].as_array().map(Vec::len), Some(2));
        assert_eq!(all[2]["metric"]["n"], "c");
        assert!(all[2].get("values").is_none() && all[2].get("histograms").is_some());
        let mut none = Vec::new();
        assert!(!Matrix::new(Vec::new()).write(&mut none));
        assert_eq!(none, b"[]");
    }

    fn text_of(answer: Answer) -> String {
        let Data::Pieces(mut write) = answer.data else {
            panic!("a list is written while it is sent");
        };
        let mut out = Vec::new();
        while write(&mut out) {}
        String::from_utf8(out).unwrap()
    }

    fn listed<T: Item>(
        items: Vec<T>,
        helpers: &Helpers,
        ctx: &Context,
    ) -> Result<Answer, StorageError> {
        Answer::of_list(Default::default(), items, helpers, ctx)
    }

    #[test]
    fn helpers_write_what_one_thread_writes() {
        let series = |count: i64| -> Vec<MatrixSeries> {
            let one = |at: i64| MatrixSeries {
                labels: LabelSet::new([("n", at.to_string().as_str())]),
                floats: (0..at % 5).map(|point| (point, 0.5)).collect(),
                histograms: Vec::new(),
            };
            (0..count).map(one).collect()
        };
        let samples = |count: i64| -> Vec<VectorSample> {
            let one = |at: i64| VectorSample {
                labels: LabelSet::new([("n", at.to_string().as_str())]),
                time_ms: at,
                value: SampleValue::Float(0.5),
            };
            (0..count).map(one).collect()
        };
        let helpers = Helpers::new(1, || ()).at_once();
        let ctx = Context {
            budget: Budget::new("answers", 64 << 20),
            ..Context::unlimited()
        };
        for count in [0, 1, 1023, 1024, 1025, 5000] {
            let text = |helpers| listed(series(count), helpers, &ctx).unwrap();
            let together = text(&helpers);
            assert_eq!(ctx.budget.used_bytes() > 0, count >= 1024, "{count}");
            let together = text_of(together);
            assert_eq!(ctx.budget.used_bytes(), 0);
            assert_eq!(together, text_of(text(&Helpers::none())));
            let mut matrix = Matrix::new(series(count));
            let mut by_points = Vec::new();
            while matrix.write(&mut by_points) {}
            assert_eq!(together.as_bytes(), by_points);
            let text = |helpers| text_of(listed(samples(count), helpers, &ctx).unwrap());
            assert_eq!(text(&helpers), text(&Helpers::none()));
        }
        // What is too long, or of unknown length, is written while it is sent.
        let long = MatrixSeries {
            floats: vec![(0, 0.5); 300_000],
            ..series(1).remove(0)
        };
        let with_histogram = MatrixSeries {
            histograms: vec![(0, Arc::new(Histogram::default()))],
            ..series(1).remove(0)
        };
        for other in [long, with_histogram] {
            let mut all = series(2000);
            all.push(other);
            let text = listed(all, &helpers, &ctx).unwrap();
            assert_eq!(ctx.budget.used_bytes(), 0);
            assert!(text_of(text).ends_with("}]"));
        }
        let stopped = Context {
            stop: Stop::at_check(3),
            ..ctx.clone()
        };
        assert!(listed(series(5000), &helpers, &stopped).is_err());
        assert_eq!(ctx.budget.used_bytes(), 0);
    }
}
