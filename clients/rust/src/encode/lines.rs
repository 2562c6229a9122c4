//! Lines: the text format 0.0.4, formatted as client_golang does, and OpenMetrics 1.0.
//!
//! **Invariant:** every line ends in a line feed; a line feed inside a help text or label value is escaped.

use crate::exemplar::Exemplar;
use crate::gzip::Compressor;
use crate::number;
use crate::point::{Point, Reading, SeriesVisitor, Wants};
use crate::spec::Spec;
use crate::texts::Texts;
use crate::visit::{MetricType, SampleLabels};

/// A page is compressed in pieces of about this length, which stay in the CPU's cache.
const PIECE_BYTES: usize = 32 << 10;

/// Writes families and series to the end of a buffer.
pub(crate) struct LineEncoder<'a> {
    out: &'a mut Vec<u8>,
    /// What is in `out` goes through it to another buffer.
    gzip: Option<Gzip<'a>>,
    openmetrics: Option<OpenMetrics<'a>>,
    /// The current family's name, and that of its metadata.
    name: &'static str,
    family: &'static str,
    /// Whether the family may have exemplars and times of creation.
    is_typed: bool,
    /// The family's `le="0.5"}` or `quantile="0.5"}`.
    extras: Vec<Vec<u8>>,
    /// Labels that had to be rendered.
    labels: Vec<u8>,
}

/// A compressed page.
struct Gzip<'a> {
    compressor: Compressor,
    page: &'a mut Vec<u8>,
}

/// What OpenMetrics does differently.
struct OpenMetrics<'a> {
    created_lines: bool,
    /// Reports whether a family has this name.
    is_taken: &'a dyn Fn(&str) -> bool,
}

impl<'a> LineEncoder<'a> {
    pub(crate) fn text(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            gzip: None,
            openmetrics: None,
            name: "",
            family: "",
            is_typed: false,
            extras: Vec::new(),
            labels: Vec::new(),
        }
    }

    pub(crate) fn openmetrics(
        out: &'a mut Vec<u8>,
        created_lines: bool,
        is_taken: &'a dyn Fn(&str) -> bool,
    ) -> Self {
        Self {
            openmetrics: Some(OpenMetrics {
                created_lines,
                is_taken,
            }),
            ..Self::text(out)
        }
    }

    /// Compresses the page, and appends it to `page` instead.
    pub(crate) fn gzip(self, page: &'a mut Vec<u8>) -> Self {
        let compressor = Compressor::new();
        Self {
            gzip: Some(Gzip { compressor, page }),
            ..self
        }
    }

    /// Ends the body.
    pub(crate) fn finish(mut self) {
        if self.openmetrics.is_some() {
            self.out.extend_from_slice(b"# EOF\n");
        }
        self.compress_from(0);
        if let Some(gzip) = self.gzip {
            gzip.compressor.finish(gzip.page);
        }
    }

    /// Compresses the lines written if they are at least as many bytes as this.
    fn compress_from(&mut self, bytes: usize) {
        if let Some(gzip) = &mut self.gzip
            && self.out.len() >= bytes
        {
            gzip.compressor.write(self.out);
            gzip.compressor.take_into(gzip.page);
            self.out.clear();
        }
    }

    /// Writes `# HELP` and `# TYPE`.
    fn write_head(&mut self, help: &str, kind: &str) {
        let quotes = self.openmetrics.is_some();
        let out = &mut *self.out;
        out.extend_from_slice(b"# HELP ");
        out.extend_from_slice(self.family.as_bytes());
        out.push(b' ');
        write_escaped(out, help, quotes);
        out.extend_from_slice(b"\n# TYPE ");
        out.extend_from_slice(self.family.as_bytes());
        out.push(b' ');
        out.extend_from_slice(kind.as_bytes());
        out.push(b'\n');
    }
}

impl SeriesVisitor for LineEncoder<'_> {
    fn wants(&self) -> Wants {
        let openmetrics = self.openmetrics.as_ref();
        Wants {
            exemplars: openmetrics.is_some(),
            lines: true,
            messages: false,
            numbers: openmetrics.is_none_or(|openmetrics| !openmetrics.created_lines),
        }
    }

    fn family(&mut self, spec: &Spec) {
        (self.name, self.family) = (spec.name, spec.name);
        let mut kind = spec.kind.as_str();
        self.is_typed = spec.kind != MetricType::Untyped;
        if let Some(openmetrics) = &self.openmetrics {
            // A counter's family is named without the suffix that its series must have.
            let short = spec.name.strip_suffix("_total");
            match (spec.kind, short) {
                (MetricType::Counter, Some(short)) if !(openmetrics.is_taken)(short) => {
                    self.family = short;
                }
                (MetricType::Counter | MetricType::Untyped, _) => {
                    kind = "unknown";
                    self.is_typed = false;
                }
                _ => {}
            }
        }
        self.write_head(spec.help, kind);
        let is_openmetrics = self.openmetrics.is_some();
        let extra = |(name, number): (&str, f64)| {
            let mut text = number::to_string(number);
            // Canonical numbers of OpenMetrics: 1.0, not 1.
            if is_openmetrics
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'-')
            {
                text.push_str(".0");
            }
            format!("{name}=\"{text}\"}}").into_bytes()
        };
        let bounds = spec.bounds.iter().copied();
        let last = (spec.kind == MetricType::Histogram).then_some(f64::INFINITY);
        let bounds = bounds.chain(last).map(|bound| ("le", bound));
        let quantiles = spec.quantiles.iter().map(|q| ("quantile", *q));
        self.extras.clear();
        self.extras.extend(bounds.chain(quantiles).map(extra));
    }

    fn series(&mut self, reading: &Reading<'_>) {
        let mut labels = reading.labels.rendered;
        if labels.is_empty() && !reading.labels.is_empty() {
            self.labels.clear();
            write_labels(&mut self.labels, reading.labels);
            labels = &self.labels;
        }
        let shows_more = self.openmetrics.is_some() && self.is_typed;
        let mut lines = Lines {
            out: self.out,
            name: self.name,
            labels,
        };
        match reading.point {
            Point::Counter { value, exemplar } => {
                lines.begin("");
                lines.value(value);
                lines.end(exemplar.filter(|_| shows_more));
            }
            Point::Gauge(value) => lines.whole("", value),
            Point::Histogram {
                sum,
                buckets,
                exemplars,
                ..
            } => {
                let mut total = 0_u64;
                for (at, (bucket, le)) in buckets.iter().zip(&self.extras).enumerate() {
                    total += bucket;
                    lines.begin_with("_bucket", le);
                    lines.value(total as f64);
                    // A single bucket has any of the exemplars.
                    let exemplar = match buckets.len() {
                        1 => exemplars.iter().flatten().next(),
                        _ => exemplars.get(at).and_then(Option::as_ref),
                    };
                    let exemplar = exemplar.map(AsRef::as_ref);
                    lines.end(exemplar.filter(|_| shows_more));
                }
                lines.whole("_sum", sum);
                lines.whole("_count", total as f64);
            }
            Point::Summary { sum, count, values } => {
                for (value, quantile) in values.iter().zip(&self.extras) {
                    lines.begin_with("", quantile);
                    lines.value(*value);
                    lines.end(None);
                }
                lines.whole("_sum", sum);
                lines.whole("_count", count as f64);
            }
        }
        let has_created = self.openmetrics.as_ref().is_some_and(|o| o.created_lines);
        let is_gauge = matches!(reading.point, Point::Gauge(_));
        if has_created && shows_more && !is_gauge && reading.created_ms != 0 {
            lines.name = self.family;
            lines.whole("_created", reading.created_ms as f64 / 1000.0);
        }
        self.compress_from(PIECE_BYTES);
    }

    fn numbers(&mut self, lines: &Texts, values: &[Option<f64>]) {
        self.out
            .reserve(lines.len_bytes() + values.len() * number::LINE_MAX);
        for (line, value) in lines.iter().zip(values) {
            if let Some(value) = value {
                self.out.extend_from_slice(line);
                number::write_line_end(self.out, *value);
            }
        }
        self.compress_from(PIECE_BYTES);
    }
}

/// The lines of one series.
struct Lines<'a> {
    out: &'a mut Vec<u8>,
    name: &'static str,
    labels: &'a [u8],
}

impl Lines<'_> {
    fn whole(&mut self, suffix: &str, value: f64) {
        self.begin(suffix);
        self.value(value);
        self.end(None);
    }

    #[inline]
    fn begin(&mut self, suffix: &str) {
        self.out.extend_from_slice(self.name.as_bytes());
        self.out.extend_from_slice(suffix.as_bytes());
        self.out.extend_from_slice(self.labels);
    }

    /// Begins a line with one more label, `extra` with the closing brace.
    fn begin_with(&mut self, suffix: &str, extra: &[u8]) {
        self.out.extend_from_slice(self.name.as_bytes());
        self.out.extend_from_slice(suffix.as_bytes());
        match self.labels {
            [open @ .., _] => {
                self.out.extend_from_slice(open);
                self.out.push(b',');
            }
            [] => self.out.push(b'{'),
        }
        self.out.extend_from_slice(extra);
    }

    #[inline]
    fn value(&mut self, value: f64) {
        self.out.push(b' ');
        number::write(self.out, value);
    }

    #[inline]
    fn end(&mut self, exemplar: Option<&Exemplar>) {
        if let Some(exemplar) = exemplar {
            self.write_exemplar(exemplar);
        }
        self.out.push(b'\n');
    }

    #[cold]
    fn write_exemplar(&mut self, exemplar: &Exemplar) {
        self.out.extend_from_slice(b" # ");
        let mut separator = b'{';
        for (name, value) in &exemplar.labels {
            write_label(self.out, separator, name, value);
            separator = b',';
        }
        self.out.extend_from_slice(b"} ");
        number::write(self.out, exemplar.value);
        self.out.push(b' ');
        number::write(self.out, exemplar.time_ms as f64 / 1000.0);
    }
}

/// Appends `{a="x",b="y"}` without the label of a part; nothing without labels.
pub(crate) fn write_labels(out: &mut Vec<u8>, labels: SampleLabels<'_>) {
    if !labels.rendered.is_empty() {
        out.extend_from_slice(labels.rendered);
        return;
    }
    let mut separator = b'{';
    for (name, value) in labels.iter() {
        write_label(out, separator, name, value);
        separator = b',';
    }
    if separator == b',' {
        out.push(b'}');
    }
}

fn write_label(out: &mut Vec<u8>, separator: u8, name: &str, value: &str) {
    out.push(separator);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    write_escaped(out, value, true);
    out.push(b'"');
}

/// Appends text with `\` and line feeds escaped, and quotes where they end it.
fn write_escaped(out: &mut Vec<u8>, text: &str, quotes: bool) {
    let mut rest = text.as_bytes();
    let special = |byte: &u8| matches!(byte, b'\\' | b'\n') || (quotes && *byte == b'"');
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\\');
        out.push(if rest[at] == b'\n' { b'n' } else { rest[at] });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
