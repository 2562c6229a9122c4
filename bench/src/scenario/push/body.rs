//! Bodies that processes push: the families of a game server, with values that change every round.
//!
//! A body contains one process' series, or those of all processes of a host, which then have a `process` label in the
//! body instead of in the grouping key: a gateway stores the same.
//! **Invariant:** a value is a pure function of process, series and round, in every format, and is exact as a float, so
//! that stored values can be compared.

use crate::harness::choices;
use crate::load::fleet::{
    body::write_value,
    page::{Lines, METRIC_FAMILIES, Page, Scratch},
};
use narthex_testkit::fleet::SeriesKind;

/// Series of a family of counters.
const COUNTERS: usize = 20;
/// Series of a family of gauges.
const GAUGES: usize = 15;
/// Buckets of a histogram, except the last one.
const BUCKETS: usize = 10;
/// Index of the sum among a histogram's lines: after the last bucket and before the count.
const SUM: usize = BUCKETS + 1;
const HISTOGRAM: usize = BUCKETS + 3;
/// Number of series per histogram.
const SERIES_A_HISTOGRAM: usize = 100;
/// The last round whose values are exact as floats.
pub(crate) const LAST_ROUND: u64 = 1_000_000;

choices! {
    /// Format of a body.
    pub(crate) enum Format {
        Text = "text",
        Protobuf = "protobuf",
    }
}

impl Format {
    /// Returns the content type of its bodies.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4",
            Self::Protobuf => METRIC_FAMILIES,
        }
    }
}

/// One series of a process.
#[derive(Debug)]
struct Series {
    /// HELP and TYPE before the first series of a family.
    comments: String,
    name: String,
    /// Labels as written, without those of host and process.
    labels: String,
    kind: SeriesKind,
}

/// The series of a process.
#[derive(Debug)]
pub(crate) struct Catalogue {
    series: Vec<Series>,
    histograms: usize,
    /// End of the gauges, which follow the histograms; the rest are counters.
    gauges_end: usize,
}

impl Catalogue {
    /// Returns the catalogue of a process with that many series.
    pub(crate) fn new(series: usize) -> Self {
        let mut catalogue = Self {
            series: Vec::with_capacity(series),
            histograms: series / SERIES_A_HISTOGRAM,
            gauges_end: series / SERIES_A_HISTOGRAM * HISTOGRAM + series / 4,
        };
        (0..catalogue.histograms).for_each(|number| catalogue.add_histogram(number));
        for at in 0..series / 4 {
            let name = format!("game_wait_{:02}_milliseconds", at / GAUGES);
            let help = "gauge\0Time a worker waited for others.";
            catalogue.add_plain(name, help, at % GAUGES, SeriesKind::Gauge);
        }
        for at in 0..series - catalogue.series.len() {
            let name = format!("game_events_{:02}_total", at / COUNTERS);
            let help = "counter\0Events the simulation has handled.";
            catalogue.add_plain(name, help, at % COUNTERS, SeriesKind::Counter(0));
        }
        catalogue
    }

    fn add_plain(&mut self, name: String, about: &str, at: usize, kind: SeriesKind) {
        self.series.push(Series {
            comments: comments(&name, about, at == 0),
            labels: format!("event=\"e{at:02}\",realm=\"eu-west-{:02}\"", at % 7),
            name,
            kind,
        });
    }

    fn add_histogram(&mut self, number: usize) {
        let name = format!("game_frame_seconds_{number:02}");
        for line in 0..HISTOGRAM {
            let bound = match line {
                BUCKETS => ",le=\"+Inf\"".to_owned(),
                SUM.. => String::new(),
                _ => format!(",le=\"{}\"", 0.001 * f64::from(1 << line)),
            };
            let (suffix, kind) = match line {
                SUM => ("sum", SeriesKind::Sum),
                0..SUM => ("bucket", SeriesKind::Bucket { first: line == 0 }),
                _ => ("count", SeriesKind::Count),
            };
            self.series.push(Series {
                comments: comments(&name, "histogram\0Time a frame took.", line == 0),
                name: format!("{name}_{suffix}"),
                labels: format!("realm=\"eu-west-00\"{bound}"),
                kind,
            });
        }
    }

    /// Returns the number of series.
    pub(crate) fn len(&self) -> usize {
        self.series.len()
    }

    /// Returns each series' name and labels, as written.
    pub(crate) fn identities(&self) -> impl Iterator<Item = (&str, &str)> {
        let series = self.series.iter();
        series.map(|series| (series.name.as_str(), series.labels.as_str()))
    }

    /// Returns the value that a process pushes for a series in a round.
    pub(crate) fn value(&self, process: u32, series: usize, round: u64) -> f64 {
        const START: u64 = 1_000_000_000;
        let (histogram, line) = (series / HISTOGRAM, series % HISTOGRAM);
        let is_histogram = histogram < self.histograms;
        if is_histogram && line != SUM {
            // A larger bucket holds more and grows faster; the count is the last bucket.
            let bucket = line.min(BUCKETS) as u64;
            let before = mix(process, histogram as u32) & 0xf_ffff;
            return (START + before + bucket * 100_000_000 + round * 7 * (bucket + 1)) as f64;
        }
        let mixed = mix(process, series as u32);
        if !is_histogram && series < self.gauges_end {
            // Thousandths, changing every round.
            let mixed = mixed
                .wrapping_add(round)
                .wrapping_mul(0xd6e8_feb8_6659_fd93);
            return (100_000 + (((mixed >> 32) * 900_000) >> 32)) as f64 / 1e3;
        }
        (START + mixed + round * (1 + (mixed & 0x1ff))) as f64
    }
}

/// Returns a family's comments if `is_first`; `about` is its type and its help.
fn comments(name: &str, about: &str, is_first: bool) -> String {
    let (kind, help) = about.split_once('\0').unwrap_or((about, ""));
    match is_first {
        true => format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"),
        false => String::new(),
    }
}

fn mix(process: u32, series: u32) -> u64 {
    (u64::from(process) << 32 | u64::from(series)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34
}

/// The common parts of a fleet's bodies: their lines without values.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Comments, names and labels, up to each value, concatenated: they are read in order, and rarely enough to come
    /// from memory.
    text: String,
    /// End of each line's text.
    ends: Vec<usize>,
    kinds: Vec<SeriesKind>,
    /// The process within the body and the series of each line.
    places: Vec<(u32, usize)>,
    page: Option<Page>,
}

impl Layout {
    /// Lays out bodies of `processes` processes with a `process` label; `None` is one process identified by its group.
    pub(crate) fn new(catalogue: &Catalogue, format: Format, processes: Option<u32>) -> Self {
        let mut layout = Self {
            text: String::new(),
            ends: Vec::new(),
            kinds: Vec::new(),
            places: Vec::new(),
            page: None,
        };
        let mut tails = Vec::new();
        let is_start = |at: &usize| !catalogue.series[*at].comments.is_empty();
        let mut starts: Vec<usize> = (0..catalogue.len()).filter(is_start).collect();
        starts.push(catalogue.len());
        for family in starts.windows(2) {
            for process in 0..processes.unwrap_or(1) {
                for at in family[0]..family[1] {
                    let Series {
                        comments,
                        name,
                        labels,
                        kind,
                    } = &catalogue.series[at];
                    let comments = if process == 0 { comments } else { "" };
                    let mut labels = labels.clone();
                    if processes.is_some() {
                        labels.push_str(&format!(",process=\"{}\"", process_name(process)));
                    }
                    layout
                        .text
                        .push_str(&format!("{comments}{name}{{{labels}}} "));
                    layout.ends.push(layout.text.len());
                    layout.kinds.push(*kind);
                    layout.places.push((process, at));
                    tails.push((comments.to_owned(), labels));
                }
            }
        }
        if format == Format::Protobuf {
            let lines = tails
                .iter()
                .map(|(comments, labels)| (comments.as_str(), labels.as_str()));
            layout.page = Some(Page::new(lines));
        }
        layout
    }

    /// Returns the number of samples of a body.
    pub(crate) fn samples(&self) -> usize {
        self.places.len()
    }
}

/// Writes one body after another.
#[derive(Debug, Default)]
pub(crate) struct Body {
    values: Vec<f64>,
    bytes: Vec<u8>,
    scratch: Scratch,
}

impl Body {
    /// Returns the body of a round; `first` is the index of its first process.
    pub(crate) fn write(
        &mut self,
        catalogue: &Catalogue,
        layout: &Layout,
        first: u32,
        round: u64,
    ) -> &[u8] {
        debug_assert!(round <= LAST_ROUND, "a plan has no more rounds");
        self.values.clear();
        let value = |(process, at): &(u32, usize)| catalogue.value(first + process, *at, round);
        self.values.extend(layout.places.iter().map(value));
        self.bytes.clear();
        if let Some(page) = &layout.page {
            let lines = Lines {
                kinds: &layout.kinds,
                values: &self.values,
                natives: &[],
            };
            page.write(lines, &[], None, &mut self.scratch, &mut self.bytes);
            return &self.bytes;
        }
        let mut start = 0;
        for (end, value) in layout.ends.iter().zip(&self.values) {
            self.bytes
                .extend_from_slice(&layout.text.as_bytes()[start..*end]);
            write_value(*value, &mut self.bytes);
            self.bytes.push(b'\n');
            start = *end;
        }
        &self.bytes
    }
}

/// Returns a process' name within its host.
pub(crate) fn process_name(process: u32) -> String {
    format!("p{process:03}")
}

#[cfg(test)]
mod tests;
