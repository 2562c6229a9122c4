//! `/federate`: the newest samples of selected series, in exposition formats.
//!
//! **Invariant:** samples carry their own timestamps, metrics are ordered by name and then labels, staleness markers
//! are left out. Native histograms are shown to clients that accept protobuf; those with custom buckets also in text,
//! as classic histograms.

use crate::{
    answer::{Answer, Data, pieces},
    call::run,
    config::{Api, Gate},
    error::{ApiError, ErrorType},
    listing::selectors,
    params::Params,
};
use http::{HeaderMap, StatusCode, header};
use narthex_expfmt::{Escaping, write_name, write_quoted};
use narthex_model::{
    Histogram, LabelSet, METRIC_NAME,
    cell::Cell,
    histogram::{ResetHint, Span},
    labels::is_legacy_metric_name,
    protobuf::Message,
    storage::{Context, LastCell, Lease, Selector, StopReason, StorageError, TimeRange, View},
    varint::put_varint,
};
use narthex_net::{
    axum::{
        body::Body,
        extract::{Request, State},
        response::{IntoResponse as _, Response},
    },
    body_of,
};
use narthex_promql::fmt::float_g;
use std::sync::Arc;

/// Format and escaping that the client accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Style {
    protobuf: bool,
    escaping: Escaping,
}

const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn federate(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let style = Style::negotiate(&headers);
    match federate_of(&api, request, style).await {
        Ok(Answer {
            data: Data::Pieces(write),
            holds,
            ..
        }) => {
            let pieces = pieces(Vec::new(), write, Vec::new(), holds);
            (
                [(header::CONTENT_TYPE, style.content_type())],
                body_of(pieces),
            )
                .into_response()
        }
        Ok(_) => Response::new(Body::empty()),
        Err(error) => {
            let status = match error.kind {
                // Only calls in the envelope answer with 499.
                ErrorType::Canceled => StatusCode::INTERNAL_SERVER_ERROR,
                kind => kind.status(),
            };
            (status, format!("{}\n", error.message)).into_response()
        }
    }
}

async fn federate_of(api: &Arc<Api>, request: Request, style: Style) -> Result<Answer, ApiError> {
    let params = Params::read(api, request).await?;
    let limit = params.limit()?;
    run(api, Gate::Metadata, api.config.timeout, move |api, ctx| {
        let (selectors, _parsed) = selectors(api, &params, ctx, true, |error| error)?;
        let now_ms = (api.now_ms)();
        let lookback_ms = api.engine.options().lookback_delta_ms;
        let range = TimeRange::new(now_ms.saturating_sub(lookback_ms), now_ms);
        let selectors: Vec<Selector> = selectors
            .into_iter()
            .map(|matchers| Selector::new(matchers, range))
            .collect();
        let view = api.store.view(range)?;
        let (mut samples, mut lease) = newest(&*view, &selectors, range, ctx)?;
        samples.truncate(limit.unwrap_or(usize::MAX));
        let mut external = api.status.external_labels();
        if !external.iter().any(|(name, _)| name == "instance") {
            // An empty instance keeps the scraper from adding its own.
            external.push(("instance".to_owned(), String::new()));
        }
        external.sort();
        let mut page = Page {
            style,
            external,
            family: None,
            sizes: Vec::new().into_iter(),
            left: 0,
            samples: Vec::new().into_iter(),
        };
        if style.protobuf {
            let sizes = page.sizes(&samples, ctx)?;
            lease.grow((sizes.capacity() * size_of::<(usize, u64)>()) as u64)?;
            page.sizes = sizes.into_iter();
        }
        page.samples = samples.into_iter();
        let mut answer = Answer::made(move |out| page.write(out));
        answer.holds.add(lease);
        Ok(answer)
    })
    .await
}

/// A series' newest sample.
struct Newest {
    labels: LabelSet,
    time_ms: i64,
    value: f64,
    histogram: Option<Arc<Histogram>>,
}

/// Returns the newest samples of all series that any selector matches, in output order.
fn newest(
    view: &dyn View,
    selectors: &[Selector],
    range: TimeRange,
    ctx: &Context,
) -> Result<(Vec<Newest>, Lease), StorageError> {
    let prepared = view.prepare(selectors, ctx)?;
    let (mut lease, mut pace) = (ctx.budget.lease(0)?, ctx.stop.pace());
    let mut found: Vec<Newest> = Vec::new();
    for at in 0..selectors.len() {
        for batch in prepared.batches(at, ctx)? {
            let all: Vec<u32> = (0..u32::try_from(batch.len()).unwrap_or(u32::MAX)).collect();
            let mut cells: Vec<Option<LastCell>> = Vec::with_capacity(all.len().min(SERIES));
            for some in all.chunks(SERIES) {
                cells.clear();
                batch.last(some, range, &mut cells, ctx)?;
                let mut bytes = 0;
                for (series, cell) in some.iter().zip(cells.drain(..)) {
                    pace.spend(64)?;
                    let Some(last) = cell else { continue };
                    if matches!(Cell::decode(last.cell), Cell::Stale | Cell::Absent) {
                        continue;
                    }
                    let labels = batch.labels(*series as usize);
                    let histogram = last.histogram.as_ref().map_or(0, |h| h.heap_bytes());
                    bytes += 2 * size_of::<Newest>() + labels.heap_bytes() + histogram;
                    found.push(Newest {
                        labels,
                        time_ms: last.time_ms,
                        value: last.cell,
                        histogram: last.histogram,
                    });
                }
                lease.grow(bytes as u64)?;
            }
        }
    }
    let order = |a: &Newest, b: &Newest| {
        let names = a.labels.metric_name().cmp(b.labels.metric_name());
        names.then_with(|| a.labels.cmp(&b.labels))
    };
    found.sort_by(order);
    found.dedup_by(|next, kept| next.labels == kept.labels);
    found.retain(|sample| !sample.labels.metric_name().is_empty());
    Ok((found, lease))
}

impl Style {
    /// Negotiates as Prometheus does: in the client's order, and with underscores unless it names another escaping.
    fn negotiate(headers: &HeaderMap) -> Self {
        let accept = headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect::<Vec<_>>()
            .join(",");
        let mut clauses: Vec<(f64, Vec<&str>)> = accept
            .split(',')
            .map(|clause| clause.split(';').map(str::trim).collect::<Vec<_>>())
            .map(|parts| {
                let quality = parts.iter().find_map(|part| part.strip_prefix("q="));
                let quality = quality.and_then(|quality| quality.parse().ok());
                (quality.unwrap_or(1.0), parts)
            })
            .collect();
        clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut style = Self {
            protobuf: false,
            escaping: Escaping::default(),
        };
        for (_, parts) in clauses {
            let param = |name: &str| {
                parts
                    .iter()
                    .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
            };
            if let Some(escaping) = param("escaping").and_then(Escaping::from_name) {
                style.escaping = escaping;
            }
            match parts.first().copied().unwrap_or_default() {
                "application/vnd.google.protobuf"
                    if param("encoding").is_none_or(|encoding| encoding == "delimited") =>
                {
                    style.protobuf = true;
                    break;
                }
                "text/plain" | "text/*"
                    if param("version").is_none_or(|version| version == "0.0.4") =>
                {
                    break;
                }
                "*/*" => break,
                _ => {}
            }
        }
        style
    }

    fn content_type(self) -> String {
        let base = if self.protobuf { PROTOBUF } else { TEXT };
        format!("{base}; escaping={}", self.escaping)
    }
}

/// Series that are read together.
const SERIES: usize = 4096;

/// Metric type of a family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SampleType {
    Untyped,
    Histogram,
    GaugeHistogram,
}

impl SampleType {
    fn of_sample(sample: &Newest) -> Self {
        match &sample.histogram {
            None => Self::Untyped,
            Some(histogram) if histogram.reset_hint == ResetHint::Gauge => Self::GaugeHistogram,
            Some(_) => Self::Histogram,
        }
    }
}

/// A page that is written metric by metric.
struct Page {
    style: Style,
    external: Vec<(String, String)>,
    family: Option<(String, SampleType)>,
    /// Number of metrics and their bytes, for each family message still to be written.
    sizes: std::vec::IntoIter<(usize, u64)>,
    /// Metrics of the current family message still to be written.
    left: usize,
    samples: std::vec::IntoIter<Newest>,
}

/// Field number and wire type of a metric in a family.
const METRIC_TAG: u8 = 4 << 3 | 2;

impl Page {
    /// Writes a metric; returns whether there is more.
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(sample) = self.samples.next() else {
            return false;
        };
        if self.style.protobuf {
            self.write_message(&sample, out);
        } else {
            self.write_lines(&sample, out);
        }
        true
    }

    /// Measures the families of `samples`: a message is preceded by its length, and a family may be too long to buffer.
    fn sizes(&self, samples: &[Newest], ctx: &Context) -> Result<Vec<(usize, u64)>, StopReason> {
        let mut pace = ctx.stop.pace();
        let mut sizes: Vec<(usize, u64)> = Vec::new();
        let mut family: Option<(&str, SampleType)> = None;
        let mut scratch = Vec::new();
        for sample in samples {
            pace.spend(256)?;
            let here = (sample.labels.metric_name(), SampleType::of_sample(sample));
            if family != Some(here) {
                family = Some(here);
                sizes.push((0, 0));
            }
            scratch.clear();
            self.metric(sample).delimited(&mut scratch);
            if let Some((count, bytes)) = sizes.last_mut() {
                *count += 1;
                *bytes += 1 + scratch.len() as u64;
            }
        }
        Ok(sizes)
    }

    fn write_message(&mut self, sample: &Newest, out: &mut Vec<u8>) {
        if self.left == 0 {
            let (count, bytes) = self.sizes.next().unwrap_or((1, 0));
            self.left = count;
            let mut head = Message::default();
            let name = sample.labels.metric_name();
            head.text(1, &self.style.escaping.name(name));
            head.integer(
                3,
                match SampleType::of_sample(sample) {
                    SampleType::Untyped => 3,
                    SampleType::Histogram => 4,
                    SampleType::GaugeHistogram => 5,
                },
            );
            put_varint(out, bytes + head.fields().len() as u64);
            out.extend_from_slice(head.fields());
        }
        self.left -= 1;
        out.push(METRIC_TAG);
        self.metric(sample).delimited(out);
    }

    fn metric(&self, sample: &Newest) -> Message {
        let mut metric = Message::default();
        self.each_label(&sample.labels, |name, value| {
            let mut pair = Message::default();
            pair.text(1, name);
            pair.text(2, value);
            metric.message(1, &pair);
        });
        match &sample.histogram {
            None => {
                let mut untyped = Message::default();
                untyped.double(1, sample.value);
                metric.message(5, &untyped);
            }
            Some(histogram) if histogram.uses_custom_buckets() => {
                metric.message(7, &classic(histogram));
            }
            Some(histogram) => metric.message(7, &native(histogram)),
        }
        metric.integer(6, sample.time_ms.cast_unsigned());
        metric
    }

    fn write_lines(&mut self, sample: &Newest, out: &mut Vec<u8>) {
        let kind = SampleType::of_sample(sample);
        if let Some(histogram) = &sample.histogram
            && !histogram.uses_custom_buckets()
        {
            return;
        }
        let name = sample.labels.metric_name();
        let shown = self.style.escaping.name(name).into_owned();
        let same = self
            .family
            .as_ref()
            .is_some_and(|(other, of)| other == name && *of == kind);
        if !same {
            self.family = Some((name.to_owned(), kind));
            out.extend_from_slice(b"# TYPE ");
            write_name(out, &shown);
            out.extend_from_slice(match kind {
                SampleType::Untyped => b" untyped\n",
                SampleType::Histogram | SampleType::GaugeHistogram => b" histogram\n",
            });
        }
        let line = |out: &mut Vec<u8>, suffix: &str, le: Option<f64>, value: f64| {
            self.write_series(out, &format!("{shown}{suffix}"), &sample.labels, le);
            out.push(b' ');
            out.extend_from_slice(float_g(value).as_bytes());
            out.push(b' ');
            out.extend_from_slice(sample.time_ms.to_string().as_bytes());
            out.push(b'\n');
        };
        let Some(histogram) = &sample.histogram else {
            line(out, "", None, sample.value);
            return;
        };
        for (bound, count) in cumulated(histogram) {
            line(out, "_bucket", Some(bound), count);
        }
        line(out, "_bucket", Some(f64::INFINITY), histogram.count);
        line(out, "_sum", None, histogram.sum);
        line(out, "_count", None, histogram.count);
    }

    fn write_series(&self, out: &mut Vec<u8>, name: &str, labels: &LabelSet, le: Option<f64>) {
        let mut separator = b'{';
        if !is_legacy_metric_name(name) {
            out.push(b'{');
            separator = b',';
        }
        write_name(out, name);
        let mut pair = |out: &mut Vec<u8>, name: &str, value: &str| {
            out.push(separator);
            separator = b',';
            write_name(out, name);
            out.push(b'=');
            write_quoted(out, value);
        };
        self.each_label(labels, |name, value| pair(out, name, value));
        if let Some(le) = le {
            pair(out, "le", &float_g(le));
        }
        out.push(b'}');
    }

    /// Visits a series' labels without its name, and the external labels it lacks.
    fn each_label(&self, labels: &LabelSet, mut visit: impl FnMut(&str, &str)) {
        for label in labels.iter().filter(|label| label.name() != METRIC_NAME) {
            visit(&self.style.escaping.name(label.name()), label.value());
        }
        for (name, value) in &self.external {
            if labels.get(name).is_none() {
                visit(&self.style.escaping.name(name), value);
            }
        }
    }
}

/// Returns the bounds of custom buckets with cumulative counts.
fn cumulated(histogram: &Histogram) -> Vec<(f64, f64)> {
    let mut buckets = histogram.positive().peekable();
    let mut total = 0.0;
    let bounds = histogram.custom_values.iter().enumerate();
    bounds
        .map(|(at, bound)| {
            while let Some((_, count)) =
                buckets.next_if(|(index, _)| i64::from(*index) <= at as i64)
            {
                total += count;
            }
            (*bound, total)
        })
        .collect()
}

fn classic(histogram: &Histogram) -> Message {
    let mut message = Message::default();
    message.double(4, histogram.count);
    message.double(2, histogram.sum);
    for (bound, count) in cumulated(histogram) {
        let mut bucket = Message::default();
        bucket.double(4, count);
        bucket.double(2, bound);
        message.message(3, &bucket);
    }
    message
}

fn native(histogram: &Histogram) -> Message {
    let mut message = Message::default();
    message.double(4, histogram.count);
    message.double(2, histogram.sum);
    message.signed(5, i64::from(histogram.histogram_schema));
    message.double(6, histogram.zero_threshold);
    message.double(8, histogram.zero_count);
    let sides = [
        (
            9,
            &histogram.negative_spans,
            11,
            &histogram.negative_buckets,
        ),
        (
            12,
            &histogram.positive_spans,
            14,
            &histogram.positive_buckets,
        ),
    ];
    for (spans_field, spans, counts_field, counts) in sides {
        for Span { offset, length } in spans {
            let mut span = Message::default();
            span.signed(1, i64::from(*offset));
            span.integer(2, u64::from(*length));
            message.message(spans_field, &span);
        }
        for count in counts {
            message.double(counts_field, *count);
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn formats_are_chosen_as_prometheus_does() {
        let chosen = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            Style::negotiate(&headers).content_type()
        };
        assert_eq!(chosen("*/*"), format!("{TEXT}; escaping=underscores"));
        assert_eq!(
            chosen(
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
            ),
            format!("{TEXT}; escaping=allow-utf-8")
        );
        assert_eq!(
            chosen(
                "text/plain;q=0.3,application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;escaping=values;q=0.7"
            ),
            format!("{PROTOBUF}; escaping=values")
        );
    }
}
