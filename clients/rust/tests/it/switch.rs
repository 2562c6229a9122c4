//! The live switch of each metric.

use narthex_client::{Counter, CounterVec, Desc, Gauge, Histogram, Metric, Registry, Summary};

use crate::{encode, leak, text};

#[test]
fn a_metric_that_is_off_counts_nothing_and_is_not_shown() {
    let counter = leak(Counter::new("c_total", "C."));
    let gauge = leak(Gauge::new("g", "G."));
    let histogram = leak(Histogram::new("h", "H.", &[1.0]));
    let summary = leak(Summary::new("s", "S.", &[0.5]));
    let metrics: [&'static dyn Metric; 4] = [counter, gauge, histogram, summary];
    let count = || {
        counter.inc();
        counter.add(1.5);
        gauge.add(1.0);
        histogram.observe(0.5);
        summary.observe(0.5);
    };
    count();
    let before = text(&metrics);
    for metric in metrics {
        metric.set_enabled(false);
        assert!(!metric.is_enabled());
    }
    count();
    gauge.set(9.0);
    assert_eq!(text(&metrics), "");
    assert_eq!(counter.get(), 2.5);
    for metric in metrics {
        metric.set_enabled(true);
    }
    assert_eq!(text(&metrics), before);
    count();
    assert_eq!((counter.get(), gauge.get()), (5.0, 2.0));
    assert_eq!((histogram.count(), summary.count()), (2, 2));
}

#[test]
fn a_metric_can_be_off_from_the_start() {
    let counter = leak(Counter::new("c_total", "C."));
    counter.set_enabled(false);
    counter.inc();
    counter.set_enabled(true);
    assert_eq!(counter.get(), 0.0);
    counter.inc();
    assert_eq!(counter.get(), 1.0);
}

#[test]
fn a_family_switches_the_series_it_has_and_those_to_come() {
    let vec = leak(CounterVec::new("v_total", "V.", &["a"]));
    let handle = vec.with(&["x"]);
    vec.set_enabled(false);
    handle.inc();
    vec.with(&["y"]).inc();
    assert_eq!(text(&[vec]), "");
    vec.set_enabled(true);
    handle.inc();
    assert!(text(&[vec]).ends_with("v_total{a=\"x\"} 1\nv_total{a=\"y\"} 0\n"));
}

#[test]
fn a_registry_switches_by_name() {
    let registry = Registry::new();
    registry
        .register(leak(Counter::new("b_total", "B.")))
        .unwrap();
    registry
        .register_fn(Desc::gauge("a", "A.", &[]), |samples| {
            samples.push(&[], 1.0);
        })
        .unwrap();
    assert!(registry.set_enabled("a", false));
    assert!(!registry.set_enabled("other", false));
    assert_eq!(registry.names(), [("a", false), ("b_total", true)]);
    assert!(!encode(&registry).contains("# TYPE a gauge"));
    assert!(registry.set_enabled("a", true));
    assert!(encode(&registry).contains("# TYPE a gauge"));
}
