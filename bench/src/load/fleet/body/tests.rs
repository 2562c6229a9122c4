//! Tests of `body`.

use super::*;

#[test]
fn a_value_has_its_shortest_text() {
    for value in [
        0.0,
        1.0,
        9.0,
        1000.0,
        0.5,
        0.001,
        0.01,
        0.1,
        123.456,
        999.999,
        120.03,
        7.25e11,
        1e12,
        1e15,
        0.0001,
        1.0 / 3.0,
        -1.0,
        -0.0,
        4_503_599_627_370_497.5,
        f64::INFINITY,
    ] {
        let mut text = Vec::new();
        write_value(value, &mut text);
        assert_eq!(std::str::from_utf8(&text).unwrap(), value.to_string());
    }
    for thousandths in 0..1_000_000 {
        let value = f64::from(thousandths) / 1000.0;
        let mut text = Vec::new();
        write_value(value, &mut text);
        assert!(text == value.to_string().as_bytes(), "{value}");
    }
}

fn config(targets: usize, series: usize, shape: Shape, line_labels: bool) -> FleetConfig {
    FleetConfig {
        targets,
        series,
        seed: 3,
        shape,
        gzip: false,
        line_labels,
        clock: None,
    }
}

fn rendered(series: &Target) -> String {
    let lines = series.prefixes().iter().zip(series.values());
    lines
        .map(|(prefix, value)| format!("{prefix}{value}\n"))
        .collect()
}

#[test]
fn texts_are_the_fleets_over_many_rounds_and_share_their_layout() {
    for shape in [Shape::Fleet, Shape::Service] {
        let mut bodies = Body::fleet(&config(12, 97, shape, true));
        let first = Arc::clone(&bodies[0].layout);
        assert!(bodies.iter().all(|body| Arc::ptr_eq(&body.layout, &first)));
        assert!(bodies[0].common.starts_with("cluster="));
        assert!(bodies[0].common.ends_with(".internal\","));
        let mut text = Vec::new();
        for (index, body) in bodies.iter_mut().enumerate() {
            let mut series = shape.target(index, 3, 97);
            for round in 0..100 {
                series.step();
                assert_eq!(body.next(0, &mut text, &mut Scratch::default()), 97);
                let is_same = text == rendered(&series).as_bytes();
                assert!(is_same, "round {round} of {index} differs");
                assert_eq!(body.values(), series.values());
            }
        }
    }
}

#[test]
fn labels_of_the_target_are_in_its_lines_or_in_its_configuration() {
    for shape in [Shape::Fleet, Shape::Service] {
        let config = config(2, 397, shape, false);
        let mut bodies = Body::fleet(&config);
        let mut series = shape.target(1, 3, 397);
        series.step();
        let labels = target_labels(&config, 1, 0);
        assert!(
            labels.starts_with("cluster=\"prod\",") && labels.contains("pod="),
            "{labels}"
        );
        let mut text = Vec::new();
        bodies[1].next(0, &mut text, &mut Scratch::default());
        assert_eq!(rendered(&series).replace(&*labels, "").as_bytes(), text);
        assert_ne!(target_labels(&config, 1, 1), labels);
    }
}

#[test]
fn lines_without_anything_in_common_still_have_their_text() {
    let mut text = Vec::new();
    for shape in [Shape::Fleet, Shape::Objects] {
        let mut series = shape.target(0, 3, 1);
        series.step();
        Body::fleet(&config(1, 1, shape, true))[0].next(0, &mut text, &mut Scratch::default());
        assert!(text == rendered(&series).as_bytes());
    }
}

#[test]
fn shuffled_lines_are_the_same_lines_with_their_family_around_them() {
    let mut body = Body::fleet(&config(1, 97, Shape::Shuffled, true)).remove(0);
    let mut series = Shape::Fleet.target(0, 3, 97);
    let (mut text, mut orders) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        series.step();
        assert_eq!(body.next(0, &mut text, &mut Scratch::default()), 97);
        let text = String::from_utf8(text.clone()).unwrap();
        let (mut got, expected) = (text.lines().collect::<Vec<_>>(), rendered(&series));
        let families = |text: &str| -> Vec<String> {
            let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
            types
                .map(|rest| rest.split(' ').next().unwrap().to_owned())
                .collect()
        };
        for line in got.iter().filter(|line| !line.starts_with('#')) {
            let before = &text[..text.find(line).unwrap()];
            let of_line = |family: &&String| line.starts_with(family.as_str());
            // The corpus has families whose first line belongs to another one: those have no comments.
            if families(&text).iter().any(|family| of_line(&family)) {
                assert!(
                    families(before).iter().any(|family| of_line(&family)),
                    "{line}"
                );
            }
        }
        orders.push(
            got.iter()
                .map(|l| l.split(' ').next().unwrap().to_owned())
                .collect::<Vec<_>>(),
        );
        let mut expected: Vec<&str> = expected.lines().collect();
        got.sort_unstable();
        expected.sort_unstable();
        assert_eq!(got, expected);
    }
    assert_ne!(orders[0], orders[1]);
}

#[test]
fn groups_of_lines_share_stamps_and_repeat_them_with_their_values() {
    let mut body = Body::fleet(&config(1, 600, Shape::Cadvisor, true)).remove(0);
    let mut round = |now_ms: i64| -> Vec<(String, i64)> {
        let mut text = Vec::new();
        body.next(now_ms, &mut text, &mut Scratch::default());
        let text = String::from_utf8(text).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let parts = lines.map(|line| line.rsplit_once(' ').unwrap());
        parts
            .map(|(line, stamp)| (line.to_owned(), stamp.parse().unwrap()))
            .collect()
    };
    let mut before = round(100_000);
    let (mut repeated, mut renewed) = (0, 0);
    for now_ms in (105_000..200_000).step_by(5_000) {
        let after = round(now_ms);
        let stamps: std::collections::BTreeSet<i64> = after.iter().map(|line| line.1).collect();
        assert!((8..=10).contains(&stamps.len()), "{stamps:?}");
        assert!(
            stamps
                .iter()
                .all(|stamp| now_ms - stamp <= 15_000 && *stamp <= now_ms + 1)
        );
        for (old, new) in before.iter().zip(&after) {
            assert!(new.1 >= old.1);
            assert!(new.1 > old.1 || new.0 == old.0, "the value is of the stamp");
            repeated += usize::from(new.1 == old.1);
            renewed += usize::from(new.1 > old.1);
        }
        before = after;
    }
    assert!(
        repeated * 8 > renewed && repeated * 2 < renewed,
        "{repeated} {renewed}"
    );
}

#[test]
fn flapping_series_come_back_and_stamps_go_forward() {
    let mut body = Body::fleet(&config(1, 100, Shape::Flapping, true)).remove(0);
    let mut text = Vec::new();
    let counts: Vec<usize> = (0..9)
        .map(|_| body.next(0, &mut text, &mut Scratch::default()))
        .collect();
    assert!(
        counts.iter().all(|count| (92..100).contains(count)),
        "{counts:?}"
    );
    assert_eq!(counts[..3], counts[3..6]);
    let mut body = Body::fleet(&config(1, 100, Shape::Stamped, true)).remove(0);
    let stamps = |text: &[u8]| -> Vec<i64> {
        let text = std::str::from_utf8(text).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect()
    };
    body.next(100_000, &mut text, &mut Scratch::default());
    let first = stamps(&text);
    assert!(first.iter().all(|stamp| (90_000..=100_000).contains(stamp)));
    assert!(first.iter().any(|stamp| *stamp != first[0]));
    body.next(105_000, &mut text, &mut Scratch::default());
    assert!(first.iter().zip(stamps(&text)).all(|(a, b)| b - a == 5_000));
}
