//! Tests of `expect`.

use super::{super::corpus::tests::recording, *};

fn served(times_ms: &[i64]) -> Vec<Served> {
    let served = |time_ms: &i64| Served {
        at_ms: *time_ms,
        time_ms: *time_ms,
        samples: 1,
        bytes: 1,
    };
    times_ms.iter().map(served).collect()
}

#[test]
fn a_sample_has_the_values_of_all_rounds() {
    let bodies = [
        "# TYPE a gauge\na{x=\"1 {\", job=\"j\"} 1\nb 2\nc 3\n",
        "a{x=\"1 {\", job=\"j\"} 1.5\nc 4\n",
        "b NaN\nc 5\na{x=\"1 {\", job=\"j\"} 2\n",
    ];
    let corpus = Corpus::parse(recording(1_000, &bodies.map(str::to_owned))).unwrap();
    let corpus = Arc::new(corpus);
    let all = sample(&corpus, 9, 100).unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all[0].values, [(0, 1.0), (1, 1.5), (2, 2.0)]);
    assert_eq!(
        all[0].selector("i"),
        "a{instance=\"i\",exported_job=\"j\",x=\"1 {\"}"
    );
    assert_eq!(all[1].values.len(), 2);
    assert_eq!(sample(&corpus, 1, 2).unwrap().len(), 2);
    let own =
        serde_json::json!({"__name__": "a", "instance": "i", "x": "1 {", "exported_job": "j"});
    assert!(all[0].is_own(&own));
    assert!(!all[1].is_own(&own));
    let bucket = Expected::parse("h_bucket{le=\"1\"} 5").unwrap();
    assert_eq!(bucket.selector("i"), "h_bucket{instance=\"i\"}");
    for (bound, is_own) in [("1", true), ("1.0", true), ("1.5", false), ("+Inf", false)] {
        let metric = serde_json::json!({"__name__": "h_bucket", "le": bound});
        assert_eq!(bucket.is_own(&metric), is_own, "{bound}");
    }
}

#[test]
fn values_are_compared_bit_by_bit() {
    let expected = Expected {
        written: "a".to_owned(),
        name: "a".to_owned(),
        labels: BTreeMap::new(),
        values: vec![(0, 0.1), (1, f64::NAN), (2, -0.0), (3, 7.0)],
    };
    let served = served(&[1_000, 2_000, 3_000, 4_000]);
    let right = [(1_000, 0.1), (2_000, f64::NAN), (3_000, -0.0), (4_000, 7.0)];
    let written = Times::Written { shift_ms: 0 };
    for times in [written, Times::Scraped] {
        let judge = |stored: &[(i64, f64)]| expected.judge(stored, &served, times);
        let all = Compared {
            samples: if times == written { 3 } else { 4 },
            ..Compared::default()
        };
        assert_eq!(judge(&right), all);
        let off = judge(&[(1_000, 0.2)]).first.unwrap();
        assert_eq!(off, "a was 0.1 and is read back as 0.2");
        let mut off = right;
        off[0].1 = 0.1 + f64::EPSILON / 8.0;
        off[2].1 = 0.0;
        assert_eq!(judge(&off).different, 2);
        assert_eq!(judge(&right[..2]).missing, all.samples - 2);
        assert_eq!(judge(&[]).missing, all.samples);
    }
    let stored = [(1_000, 0.1), (1_001, 0.1), (2_000, f64::NAN)];
    let got = expected.judge(&stored, &served, written);
    assert_eq!((got.missing, got.different, got.strange), (1, 0, 1));
    // A lost round shifts nothing: the server requested each a little before it was answered.
    let lost = [(990, 0.1), (2_950, -0.0), (3_990, 7.0)];
    let got = expected.judge(&lost, &served, Times::Scraped);
    assert_eq!((got.missing, got.different, got.strange), (1, 0, 0));
    let json = serde_json::json!([[1.5, "0.1"], [2.0, "NaN"]]);
    assert_eq!(points(&json)[0], (1_500, 0.1));
}
