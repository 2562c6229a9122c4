//! Tests of bounds, arithmetic, resets and layouts of native histograms.

use super::*;

fn exponential(histogram_schema: i32, offset: i32, buckets: &[f64]) -> Histogram {
    Histogram {
        histogram_schema,
        count: buckets.iter().sum(),
        positive_spans: vec![Span {
            offset,
            length: u32::try_from(buckets.len()).unwrap(),
        }],
        positive_buckets: buckets.to_vec(),
        ..Histogram::default()
    }
}

fn custom(bounds: &[f64], buckets: &[f64]) -> Histogram {
    Histogram {
        custom_values: bounds.to_vec(),
        ..exponential(CUSTOM_BUCKETS, 0, buckets)
    }
}

#[test]
fn bounds_are_prometheus_bounds() {
    // One step below the doubles nearest to 1/√2 and √2, as in Prometheus' table.
    let h = exponential(1, -1, &[1.0, 1.0, 1.0, 1.0]);
    let uppers: Vec<f64> = h.buckets().iter().map(|b| b.upper).collect();
    assert_eq!(
        uppers,
        [
            f64::from_bits(0x3fe6_a09e_667f_3bcc),
            1.0,
            f64::from_bits(0x3ff6_a09e_667f_3bcc),
            2.0
        ]
    );
    let upper = |schema, index| exponential(schema, index, &[1.0]).buckets()[0].upper;
    assert_eq!(
        (upper(0, 1024), upper(0, 1025), upper(-4, 64)),
        (f64::MAX, f64::INFINITY, f64::MAX)
    );
    assert_eq!(
        (upper(0, -1074), upper(0, -1073), upper(-1, -2)),
        (5e-324, 1e-323, 0.0625)
    );
    // All 256 bits patterns of Prometheus' table, the last ones four units below the nearest floats.
    let bits = (0..256).map(|i| upper(8, i - 256).to_bits());
    let hash = bits.fold(0u64, |hash, bits| hash.rotate_left(5) ^ bits);
    assert_eq!(
        (upper(8, -255), upper(8, -1)),
        (0.5013556375251013, 0.9972960560854698)
    );
    assert_eq!(hash, 0xc606_9eca_7bbb_6a32);
}

#[test]
fn adding_merges_layouts_and_resolutions() {
    let mut fine = exponential(1, 0, &[1.0, 2.0, 3.0, 4.0]);
    let coarse = exponential(0, 1, &[10.0, 0.0, 20.0]);
    assert_eq!(fine.add(&coarse), Ok(Notes::default()));
    // Indices 0..=3 at schema 1 are 0, 1, 1, 2 at schema 0.
    assert_eq!(fine.test_notation(), "{{count:40 buckets:[1 15 4 20]}}");
    let mut gap = exponential(0, 0, &[1.0]);
    gap.subtract(&exponential(0, 5, &[2.0])).unwrap();
    assert_eq!(gap.positive().collect::<Vec<_>>(), [(0, 1.0), (5, -2.0)]);
    assert_eq!(
        fine.add(&custom(&[1.0], &[1.0, 1.0])),
        Err(IncompatibleBuckets)
    );
}

#[test]
fn zero_buckets_are_widened_to_bucket_bounds() {
    let mut narrow = Histogram {
        zero_count: 1.0,
        ..exponential(0, 0, &[2.0, 3.0, 4.0])
    };
    let wide = Histogram {
        zero_threshold: 1.5,
        zero_count: 10.0,
        ..exponential(0, 2, &[7.0])
    };
    narrow.add(&wide).unwrap();
    assert_eq!(
        narrow.test_notation(),
        "{{count:16 z_bucket:16 z_bucket_w:2 offset:2 buckets:[11]}}"
    );
}

#[test]
fn custom_bounds_are_reconciled() {
    let mut a = custom(&[1.0, 2.0, 5.0], &[1.0, 2.0, 3.0, 4.0]);
    let b = custom(&[2.0, 3.0, 5.0], &[10.0, 20.0, 30.0, 40.0]);
    assert_eq!(
        a.add(&b),
        Ok(Notes {
            reset_conflict: false,
            bounds_reconciled: true
        })
    );
    assert_eq!(
        a.test_notation(),
        "{{schema:-53 count:110 custom_values:[2 5] buckets:[13 53 44]}}"
    );
    assert!(!b.is_reset_after(&custom(&[2.0, 5.0], &[10.0, 50.0, 40.0])));
    assert!(b.is_reset_after(&custom(&[2.0, 5.0], &[9.0, 51.0, 40.0])));
}

#[test]
fn resets_are_detected() {
    let before = exponential(1, 0, &[1.0, 2.0, 3.0]);
    assert!(!exponential(1, 0, &[1.0, 2.0, 3.0, 1.0]).is_reset_after(&before));
    assert!(
        exponential(1, 0, &[1.0, 5.0, 2.0]).is_reset_after(&before),
        "a bucket went down"
    );
    assert!(
        exponential(1, 1, &[5.0, 5.0]).is_reset_after(&before),
        "a bucket vanished"
    );
    assert!(
        !exponential(0, 0, &[1.0, 5.0]).is_reset_after(&before),
        "a lower resolution"
    );
    assert!(
        exponential(2, 0, &[9.0]).is_reset_after(&before),
        "a higher resolution"
    );
    let hinted = Histogram {
        reset_hint: ResetHint::NotReset,
        ..exponential(1, 0, &[])
    };
    assert!(!hinted.is_reset_after(&before));
}

#[test]
fn stored_hints_follow_runs() {
    let a = exponential(0, 0, &[1.0]);
    let b = exponential(0, 0, &[2.0]);
    assert_eq!(a.stored_hint(None), ResetHint::Unknown);
    assert_eq!(b.stored_hint(Some(&a)), ResetHint::NotReset);
    assert_eq!(a.stored_hint(Some(&b)), ResetHint::Unknown);
    let gauge = Histogram {
        reset_hint: ResetHint::Gauge,
        ..b.clone()
    };
    assert_eq!(gauge.stored_hint(Some(&a)), ResetHint::Gauge);
    assert_eq!(b.stored_hint(Some(&gauge)), ResetHint::Unknown);
}

#[test]
fn sums_are_compensated() {
    let tiny = Histogram {
        sum: 1.0,
        ..exponential(0, 0, &[1.0])
    };
    let huge = Histogram {
        sum: 1e100,
        ..exponential(0, 0, &[1e100])
    };
    let minus = Histogram {
        sum: -1e100,
        ..exponential(0, 0, &[-1e100])
    };
    let mut sum = HistogramSum::new(tiny.clone());
    for h in [&huge, &tiny, &minus] {
        sum.add(h).unwrap();
    }
    let total = sum.finish();
    assert_eq!(
        (total.count, total.sum, total.positive_buckets),
        (2.0, 2.0, vec![2.0])
    );
}

#[test]
fn trimming_cuts_buckets() {
    let mut h = custom(&[10.0, 20.0], &[1.0, 2.0, 3.0]);
    h.trim(15.0, Keep::Below);
    assert_eq!(
        h.test_notation(),
        "{{schema:-53 count:2 sum:17.5 custom_values:[10 20] buckets:[1 1]}}"
    );
    let mut whole = custom(&[10.0, 20.0], &[1.0, 2.0, 0.0]);
    whole.sum = 123.0;
    whole.trim(20.0, Keep::Below);
    assert_eq!((whole.count, whole.sum), (3.0, 123.0));
}

#[test]
fn text_is_prometheus_text() {
    let h = Histogram {
        zero_count: 2.0,
        zero_threshold: 0.001,
        sum: 1e6,
        ..exponential(0, 0, &[1.0, 0.0, 3.5])
    };
    assert_eq!(
        h.to_string(),
        "{count:4.5, sum:1e+06, [-0.001,0.001]:2, (0.5,1]:1, (2,4]:3.5}"
    );
    assert_eq!(
        custom(&[5.0], &[1.0, 2.0]).to_string(),
        "{count:3, sum:0, [-Inf,5]:1, (5,+Inf]:2}"
    );
}
