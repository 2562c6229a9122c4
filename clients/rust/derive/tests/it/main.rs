//! Derived label sets, as a program uses them.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use narthex_client::{
    CounterFamily, GaugeFamily, HistogramFamily, LabelValue, Labels, NativeHistogramFamily,
    NativeOptions, OVERFLOW, Registry, SummaryFamily,
};
use std::borrow::Cow;

#[derive(Clone, Copy, LabelValue)]
#[label(rename_all = "UPPERCASE")]
enum Method {
    Get,
    Post,
    #[label(rename = "other \"one\"")]
    Other = 7,
}

#[derive(Clone, Copy, LabelValue)]
#[label(rename_all = "snake_case")]
enum Outcome {
    /// Attributes of others do not matter.
    Ok,
    TimedOut,
}

#[derive(Labels)]
struct Request<'a> {
    method: Method,
    code: u16,
    pub(crate) route: &'a str,
    #[label(rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Labels)]
struct Answer {
    method: Method,
    outcome: Outcome,
    r#async: bool,
}

#[derive(Labels)]
struct Nothing {}

fn lines(registry: &Registry) -> Vec<String> {
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    let text = String::from_utf8(text).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn labels_are_looked_up_borrowed() {
    static REQUESTS: CounterFamily<Request<'static>> = CounterFamily::new("requests_total", "R.");
    let registry = Registry::new();
    registry.register(&REQUESTS).unwrap();
    for code in [200, 404] {
        // Neither lives as long as the family.
        let (route, kind) = (format!("/{code}"), format!("k{code}"));
        let labels = Request {
            method: Method::Get,
            code,
            route: &route,
            kind: Cow::Borrowed(&kind),
        };
        REQUESTS.update(&labels, |counter| counter.inc());
        REQUESTS.with(&labels).inc();
    }
    let expected = [
        r#"requests_total{method="GET",code="200",route="/200",type="k200"} 2"#,
        r#"requests_total{method="GET",code="404",route="/404",type="k404"} 2"#,
    ];
    assert_eq!(lines(&registry), expected);
    let labels = Request {
        method: Method::Get,
        code: 200,
        route: "/200",
        kind: Cow::Borrowed("k200"),
    };
    assert!(REQUESTS.remove(&labels) && !REQUESTS.remove(&labels));
    assert_eq!((lines(&registry).len(), REQUESTS.len()), (1, 1));
}

#[test]
fn labels_that_can_be_counted_are_numbered() {
    static ANSWERS: CounterFamily<Answer> = CounterFamily::new("answers_total", "A.");
    assert_eq!(Answer::COMBINATIONS, 12);
    assert_eq!(Request::COMBINATIONS, 0);
    let methods = [Method::Get, Method::Post, Method::Other];
    let mut all = Vec::new();
    for method in methods {
        for outcome in [Outcome::Ok, Outcome::TimedOut] {
            for r#async in [false, true] {
                all.push(Answer {
                    method,
                    outcome,
                    r#async,
                });
            }
        }
    }
    let indices: Vec<usize> = all.iter().map(Labels::index).collect();
    assert_eq!(indices, (0..12).collect::<Vec<_>>());
    for (i, labels) in all.iter().enumerate() {
        ANSWERS.update(labels, |counter| counter.inc_by(i as u64));
        ANSWERS.update(labels, |counter| counter.inc_by(100));
        ANSWERS.with(labels).inc_by(1000);
    }
    let registry = Registry::new();
    registry.register(&ANSWERS).unwrap();
    let found = lines(&registry);
    assert_eq!(found.len(), 12);
    let expected = r#"answers_total{method="POST",outcome="timed_out",async="true"} 1107"#;
    assert!(found.contains(&expected.to_owned()), "{found:#?}");
    let expected = r#"answers_total{method="other \"one\"",outcome="ok",async="false"} 1108"#;
    assert!(found.contains(&expected.to_owned()), "{found:#?}");
}

#[test]
fn a_full_family_counts_every_look_up_above_its_cap() {
    let answers = CounterFamily::<Answer>::new("answers_total", "A.").with_cap(1);
    let labels = |r#async| Answer {
        method: Method::Get,
        outcome: Outcome::Ok,
        r#async,
    };
    for _ in 0..3 {
        answers.update(&labels(false), |counter| counter.inc());
        answers.update(&labels(true), |counter| counter.inc());
    }
    assert_eq!((answers.len(), answers.overflows()), (2, 3));
    let registry = Registry::new();
    registry
        .register_shared(std::sync::Arc::new(answers))
        .unwrap();
    let overflow = format!(
        "answers_total{{method=\"{OVERFLOW}\",outcome=\"{OVERFLOW}\",async=\"{OVERFLOW}\"}} 3"
    );
    assert!(
        lines(&registry).contains(&overflow),
        "{:?}",
        lines(&registry)
    );
}

#[test]
fn every_kind_has_a_family() {
    static GAUGES: GaugeFamily<Nothing> = GaugeFamily::new("gauges", "G.");
    static HISTOGRAMS: HistogramFamily<Answer> = HistogramFamily::new("histograms", "H.", &[1.0]);
    static NATIVE: NativeHistogramFamily<Answer> =
        NativeHistogramFamily::new("native", "N.", NativeOptions::new());
    static SUMMARIES: SummaryFamily<Answer> = SummaryFamily::new("summaries", "S.", &[0.5]);
    let labels = Answer {
        method: Method::Post,
        outcome: Outcome::Ok,
        r#async: false,
    };
    GAUGES.with(&Nothing {}).set(2.0);
    HISTOGRAMS.update(&labels, |histogram| histogram.observe(1.0));
    NATIVE.update(&labels, |histogram| histogram.observe(1.0));
    SUMMARIES.update(&labels, |summary| summary.observe(1.0));
    let registry = Registry::new();
    registry
        .register_all(&[&GAUGES, &HISTOGRAMS, &NATIVE, &SUMMARIES])
        .unwrap();
    let found = lines(&registry);
    assert_eq!(found[0], "gauges 2");
    let shown = r#"{method="POST",outcome="ok",async="false"} 1"#;
    for count in ["histograms_count", "native_count", "summaries_count"] {
        assert!(found.contains(&format!("{count}{shown}")), "{found:#?}");
    }
}
