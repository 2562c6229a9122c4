//! What a page of several sources shows.

use super::*;
use crate::{Format, KeepLabels, ParseOptions, Parser, check};
use narthex_model::{
    LabelSet,
    storage::{Outcome, SyncToken},
};

const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0";
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

/// Stores nothing.
struct Nowhere;

impl Sink for Nowhere {
    fn bind(&self, _: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        Ok(Box::new(Self))
    }

    fn append_samples(&self, _: &[SeriesSample]) -> Result<Outcome, StorageError> {
        Ok(Outcome::default())
    }

    fn sync(&self, _: SyncToken) -> Result<(), StorageError> {
        Ok(())
    }
}

impl Binding for Nowhere {
    fn rebind(&mut self, _: &Schema) -> Result<(), StorageError> {
        Ok(())
    }

    fn append(&mut self, _: &Frame) -> Result<Outcome, StorageError> {
        Ok(Outcome::default())
    }
}

fn exposition(kept_bytes: u64) -> (Exposition, Arc<dyn Sink>) {
    let memory = ExpositionMemory {
        kept: Budget::new("kept", kept_bytes),
        pages: Budget::unlimited(),
    };
    let exposition = Exposition::new(memory);
    let sink = exposition.sink(Arc::new(Nowhere));
    (exposition, sink)
}

/// A source that is parsed from pages.
struct Origin {
    parser: Parser,
    binding: Option<Box<dyn Binding>>,
}

impl Origin {
    fn new(common: &[(&str, &str)]) -> Self {
        let common = LabelSet::new(common.iter().copied());
        Self {
            parser: Parser::new(common, ParseOptions::default()),
            binding: None,
        }
    }

    fn round(&mut self, sink: &dyn Sink, page: &str, now_ms: i64) {
        let format = Format::sniff(page.as_bytes());
        let parsed = self
            .parser
            .parse(format, page.as_bytes(), now_ms, &mut KeepLabels);
        let frame = parsed.unwrap().frame;
        let binding = self
            .binding
            .get_or_insert_with(|| sink.bind(frame.schema()).unwrap());
        binding.append(&frame).unwrap();
    }
}

fn page(exposition: &Exposition, accept: &str, now_ms: i64) -> String {
    let style = Negotiated::from_accept(accept);
    let (page, _lease) = exposition.render(style, None, now_ms).unwrap();
    String::from_utf8(page).unwrap()
}

/// Returns the samples of a page by series.
fn samples(format: Format, page: &[u8]) -> Vec<(String, f64)> {
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let round = parser.parse(format, page, 0, &mut KeepLabels).unwrap();
    assert_eq!(round.stats.repeated, 0, "a series is there twice");
    let frame = round.frame;
    let mut all: Vec<(String, f64)> = frame
        .present()
        .iter()
        .map(|at| {
            let labels = frame.schema().labels(ColumnId(at as u32));
            (labels.to_string(), frame.values()[at])
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn families_of_all_sources_are_merged_in_every_format() {
    let (exposition, sink) = exposition(u64::MAX);
    let mut b = Origin::new(&[("job", "b")]);
    let mut a = Origin::new(&[("job", "a")]);
    let histogram = "# HELP h From b.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n";
    b.round(
        &*sink,
        &format!("# TYPE c_total counter\nc_total 1\n{histogram}z 1\n"),
        1_000,
    );
    a.round(
        &*sink,
        &format!(
            "# HELP c_total From a.\n# TYPE c_total counter\nc_total{{k=\"v\"}} 2\n{histogram}"
        ),
        1_000,
    );
    let heads = |job: &str| {
        format!(
            "h_bucket{{le=\"1.0\",job=\"{job}\"}} 1\nh_bucket{{le=\"+Inf\",job=\"{job}\"}} 2\nh_sum{{job=\"{job}\"}} 3\nh_count{{job=\"{job}\"}} 2\n"
        )
    };
    let text = page(&exposition, "text/plain", 1_000);
    assert_eq!(
        text,
        format!(
            "# HELP c_total From a.\n# TYPE c_total counter\nc_total{{k=\"v\",job=\"a\"}} 2\nc_total{{job=\"b\"}} 1\n\
# HELP h From b.\n# TYPE h histogram\n{}{}# TYPE z untyped\nz{{job=\"b\"}} 1\n",
            heads("a"),
            heads("b")
        )
    );
    let strict = page(&exposition, OPENMETRICS, 1_000);
    let problems = check(Format::OpenMetrics, strict.as_bytes());
    assert!(problems.is_empty(), "{problems:?}\n{strict}");
    let style = Negotiated::from_accept(PROTOBUF);
    let (messages, _lease) = exposition.render(style, None, 1_000).unwrap();
    let expected = samples(Format::Text, text.as_bytes());
    assert_eq!(
        samples(Format::OpenMetrics, strict.as_bytes()).len(),
        expected.len()
    );
    assert_eq!(samples(Format::Protobuf, &messages).len(), expected.len());
    // A family is one message.
    let name = |name: &[u8]| {
        messages
            .windows(name.len())
            .filter(|at| *at == name)
            .count()
    };
    assert_eq!(name(b"\x0a\x01h"), 1);
    // Numbers change, a source goes, another comes.
    b.round(&*sink, "# TYPE c_total counter\nc_total 5\n", 2_000);
    drop(a);
    let mut c = Origin::new(&[("job", "c")]);
    c.round(&*sink, "y 1\n", 2_000);
    let left = "# TYPE c_total counter\nc_total{job=\"b\"} 5\n# TYPE y untyped\ny{job=\"c\"} 1\n";
    assert_eq!(page(&exposition, "text/plain", 2_000), left);
}

#[test]
fn a_series_of_several_sources_is_shown_once_and_newest() {
    let (exposition, sink) = exposition(u64::MAX);
    let mut common = Origin::new(&[("job", "j")]);
    let mut local = Origin::new(&[]);
    common.round(&*sink, "m{k=\"1\"} 1\nm{k=\"2\"} 2\n", 1_000);
    local.round(
        &*sink,
        "m{job=\"j\",k=\"1\"} 10\nm{job=\"i\",k=\"1\"} 3\n",
        2_000,
    );
    let shown = |now_ms| samples(Format::Text, page(&exposition, "", now_ms).as_bytes());
    let series = [
        r#"m{job="i", k="1"}"#,
        r#"m{job="j", k="1"}"#,
        r#"m{job="j", k="2"}"#,
    ];
    let expect = |values: [f64; 3]| -> Vec<(String, f64)> {
        series.map(str::to_owned).into_iter().zip(values).collect()
    };
    assert_eq!(shown(2_000), expect([3.0, 10.0, 2.0]));
    common.round(&*sink, "m{k=\"1\"} 7\nm{k=\"2\"} 8\n", 3_000);
    assert_eq!(shown(3_000), expect([3.0, 7.0, 8.0]));
    // The one that is left is shown when the other is gone.
    common.round(&*sink, "m{k=\"2\"} 8\n", 4_000);
    assert_eq!(shown(4_000), expect([3.0, 10.0, 8.0]));
}

#[test]
fn types_that_differ_become_one() {
    let (exposition, sink) = exposition(u64::MAX);
    let mut a = Origin::new(&[("job", "a")]);
    let mut b = Origin::new(&[("job", "b")]);
    let mut c = Origin::new(&[("job", "c")]);
    a.round(
        &*sink,
        "# TYPE m_total counter\nm_total 1\n# TYPE h summary\nh_sum 1\nh_count 1\n",
        1,
    );
    b.round(
        &*sink,
        "# HELP m_total H.\n# TYPE m_total gauge\nm_total 2\n# TYPE h gauge\nh 1\n",
        1,
    );
    c.round(
        &*sink,
        "# TYPE m gauge\nm 3\n# TYPE n_total counter\nn_total 4\n# TYPE n gauge\nn 5\n",
        1,
    );
    assert_eq!(
        page(&exposition, "", 1),
        "# TYPE h summary\nh_sum{job=\"a\"} 1\nh_count{job=\"a\"} 1\n# TYPE m gauge\nm{job=\"c\"} 3\n\
# TYPE m_total untyped\nm_total{job=\"a\"} 1\nm_total{job=\"b\"} 2\n# TYPE n gauge\nn{job=\"c\"} 5\n\
# TYPE n_total counter\nn_total{job=\"c\"} 4\n"
    );
    assert_eq!(
        page(&exposition, OPENMETRICS, 1),
        "# TYPE h summary\nh_sum{job=\"a\"} 1\nh_count{job=\"a\"} 1\n# TYPE m gauge\nm{job=\"c\"} 3\n\
# TYPE m_total unknown\nm_total{job=\"a\"} 1\nm_total{job=\"b\"} 2\n# TYPE n gauge\nn{job=\"c\"} 5\n\
# TYPE n_total unknown\nn_total{job=\"c\"} 4\n# EOF\n"
    );
    let style = Negotiated::from_accept(PROTOBUF);
    let (messages, _lease) = exposition.render(style, None, 1).unwrap();
    let of = |(series, _): &(String, f64)| series.starts_with("m_total");
    let all = samples(Format::Protobuf, &messages);
    assert_eq!(all.iter().filter(|sample| of(sample)).count(), 2, "{all:?}");
}

#[test]
fn silent_sources_leave_the_page_and_come_back() {
    let (exposition, sink) = exposition(u64::MAX);
    let mut a = Origin::new(&[("job", "a")]);
    let mut b = Origin::new(&[("job", "b")]);
    a.round(&*sink, "m 1\n", 1_000);
    b.round(&*sink, "m 2\n", 200_000);
    let text = |now_ms| page(&exposition, "", now_ms);
    let head = "# TYPE m untyped\n";
    assert_eq!(
        text(300_999),
        format!("{head}m{{job=\"a\"}} 1\nm{{job=\"b\"}} 2\n")
    );
    assert_eq!(text(301_000), format!("{head}m{{job=\"b\"}} 2\n"));
    a.round(&*sink, "m 3\n", 302_000);
    assert_eq!(
        text(302_000),
        format!("{head}m{{job=\"a\"}} 3\nm{{job=\"b\"}} 2\n")
    );
}

#[test]
fn samples_with_times_of_their_own_stay_until_they_are_old() {
    let (exposition, sink) = exposition(u64::MAX);
    let mut a = Origin::new(&[]);
    a.round(&*sink, "m 1\nn 2 900000\n", 1_000_000);
    a.round(&*sink, "m 3\n", 1_001_000);
    let text = |now_ms| page(&exposition, "", now_ms);
    let both = "# TYPE m untyped\nm 3\n# TYPE n untyped\nn 2 900000\n";
    assert_eq!(text(1_001_000), both);
    a.round(&*sink, "m 4\n", 1_200_000);
    assert_eq!(text(1_200_000), "# TYPE m untyped\nm 4\n");
}

#[test]
fn a_source_without_memory_is_missing_and_counted() {
    let (exposition, sink) = exposition(1_000);
    let mut small = Origin::new(&[("job", "small")]);
    let mut large = Origin::new(&[("job", "large")]);
    let many: String = (0..200)
        .map(|at| format!("many{{k=\"{at}\"}} 1\n"))
        .collect();
    small.round(&*sink, "m 1\n", 1);
    large.round(&*sink, &many, 1);
    let sources = exposition.0.sources.lock().unwrap();
    let kept = |source: &&Arc<Source>| source.newest.lock().unwrap().is_some();
    assert_eq!(sources.values().filter(kept).count(), 1);
    drop(sources);
    let text = "# TYPE m untyped\nm{job=\"small\"} 1\n";
    assert_eq!(page(&exposition, "", 1), text);
    // What is kept is free again when its source is gone.
    drop(large);
    let mut later = Origin::new(&[("job", "later")]);
    later.round(&*sink, "m 2\n", 2);
    let both = page(&exposition, "", 2);
    assert!(both.contains("m{job=\"later\"} 2"), "{both}");
    drop((small, later));
    assert_eq!(page(&exposition, "", 2), "");
    assert_eq!(exposition.0.memory.kept.used_bytes(), 0);
}

#[test]
fn a_page_is_the_same_whatever_order_sources_came_in() {
    let pages = [[0, 1, 2], [2, 0, 1]].map(|order| {
        let (exposition, sink) = exposition(u64::MAX);
        let mut origins: Vec<Origin> = Vec::new();
        for at in order {
            let job = ["a", "b", "c"][at];
            let mut origin = Origin::new(&[("job", job)]);
            origin.round(
                &*sink,
                "m 1\n# TYPE l gauge\nl{k=\"1\"} 1\nl{k=\"0\"} 2\n",
                1,
            );
            origins.push(origin);
        }
        page(&exposition, OPENMETRICS, 1)
    });
    assert_eq!(pages[0], pages[1]);
}
