//! Errors of a registry, and their texts.

use std::io;
use std::sync::Arc;

use narthex_client::{
    Counter, CounterVec, Desc, Error, Gauge, Histogram, HistogramVec, Metric, Registry, Summary,
    SummaryVec,
};

use crate::{encode, leak};

fn refusal(metric: impl Metric + 'static) -> String {
    let registry = Registry::new();
    let error = registry.register(leak(metric)).unwrap_err();
    assert_eq!(encode(&registry), "", "nothing is registered");
    error.to_string()
}

#[test]
fn invalid_names_are_refused() {
    for name in ["", "1x", "a-b", "a b", "ä", "a\n", "a\"", "{}"] {
        let error = refusal(Counter::new(name, "X."));
        assert_eq!(
            error,
            format!("{name:?} is no metric name: want [a-zA-Z_:][a-zA-Z0-9_:]*")
        );
    }
    for name in ["a", "_", ":", "a1:b_2", "__x"] {
        Registry::new()
            .register(leak(Gauge::new(name, "X.")))
            .unwrap();
    }
}

#[test]
fn invalid_labels_are_refused() {
    let refused = |label: &'static str| refusal(CounterVec::new("m", "M.", leak([label])));
    assert_eq!(
        refusal(SummaryVec::new("m", "M.", &["quantile"], &[])),
        "metric m: label \"quantile\" is what a summary names its quantiles"
    );
    for label in ["", "1", "a:b", "a-b", "ü"] {
        assert_eq!(
            refused(label),
            format!("metric m: label {label:?} is no label name: want [a-zA-Z_][a-zA-Z0-9_]*")
        );
    }
    assert_eq!(
        refused("__name__"),
        "metric m: label \"__name__\" begins with __, which is reserved"
    );
    assert_eq!(
        refusal(CounterVec::new("m", "M.", &["a", "b", "a"])),
        "metric m: label \"a\" is declared twice"
    );
    assert_eq!(
        refusal(HistogramVec::new("m", "M.", &["le"], &[1.0])),
        "metric m: label \"le\" is what a histogram names its bounds"
    );
    Registry::new()
        .register(leak(CounterVec::new("m", "M.", &["le", "quantile"])))
        .unwrap();
}

#[test]
fn invalid_bounds_are_refused() {
    let refused = |bounds: &[f64]| refusal(Histogram::new("m", "M.", leak(bounds.to_vec())));
    let text = "is not finite or not above the one before";
    assert_eq!(
        refused(&[1.0, 1.0]),
        format!("metric m: bound 1 at position 1 {text}")
    );
    assert_eq!(
        refused(&[1.0, 2.0, 0.5]),
        format!("metric m: bound 0.5 at position 2 {text}")
    );
    assert_eq!(
        refused(&[f64::NAN]),
        format!("metric m: bound NaN at position 0 {text}")
    );
    assert_eq!(
        refused(&[1.0, f64::INFINITY]),
        format!("metric m: bound inf at position 1 {text}")
    );
}

#[test]
fn invalid_quantiles_are_refused() {
    let refused = |quantiles: &[f64]| refusal(Summary::new("m", "M.", leak(quantiles.to_vec())));
    let text = "is outside 0 to 1 or not above the one before";
    assert_eq!(
        refused(&[0.5, 0.5]),
        format!("metric m: quantile 0.5 {text}")
    );
    assert_eq!(refused(&[-0.1]), format!("metric m: quantile -0.1 {text}"));
    assert_eq!(
        refused(&[0.5, 1.5]),
        format!("metric m: quantile 1.5 {text}")
    );
    assert_eq!(
        refused(&[f64::NAN]),
        format!("metric m: quantile NaN {text}")
    );
    Registry::new()
        .register(leak(Summary::new("m", "M.", &[0.0, 1.0])))
        .unwrap();
}

#[test]
fn a_name_is_exposed_by_one_metric_only() {
    let registry = Registry::new();
    let counter = leak(Counter::new("x", "X."));
    registry.register(counter).unwrap();
    assert_eq!(
        registry.register(counter).unwrap_err().to_string(),
        "metric x is already registered"
    );
    let again = registry.register_fn(Desc::gauge("x", "X.", &[]), |_| {});
    assert!(matches!(again, Err(Error::Duplicate { .. })));
    registry
        .register(leak(Counter::new("h_count", "X.")))
        .unwrap();
    let clash = registry.register_shared(Arc::new(Histogram::new("h", "H.", &[1.0])));
    assert_eq!(
        clash.unwrap_err().to_string(),
        "metric h: h_count is already exposed by another metric"
    );
    // The rejected histogram took no name.
    registry
        .register(leak(Counter::new("h_sum", "X.")))
        .unwrap();
    registry
        .register(leak(Histogram::new("k", "K.", &[1.0])))
        .unwrap();
    let clash = registry.register(leak(Counter::new("k_bucket", "X.")));
    assert_eq!(
        clash.unwrap_err().to_string(),
        "metric k_bucket is already registered"
    );
}

#[test]
fn every_error_reads_well() {
    let metric = || "m".to_owned();
    let errors = [
        Error::InvalidName { name: metric() },
        Error::InvalidLabel {
            metric: metric(),
            label: "l".to_owned(),
            reason: "is bad",
        },
        Error::Duplicate {
            metric: metric(),
            exposed: metric(),
        },
        Error::Duplicate {
            metric: metric(),
            exposed: "m_sum".to_owned(),
        },
        Error::InvalidBound {
            metric: metric(),
            index: 3,
            bound: 0.5,
        },
        Error::InvalidQuantile {
            metric: metric(),
            quantile: 1.5,
        },
        Error::Unreadable {
            path: "/proc/x".to_owned(),
            kind: io::ErrorKind::NotFound,
        },
    ];
    for error in errors {
        let text = error.to_string();
        assert!(
            text.len() > 10 && !text.contains("Error") && !text.ends_with('.'),
            "{text}"
        );
        assert!(text.contains('m') || text.contains("/proc/x"), "{text}");
    }
}
