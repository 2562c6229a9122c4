//! Tests of `questions`.

use super::*;

fn data() -> DatasetConfig {
    DatasetConfig {
        series: 100,
        duration: Duration::from_secs(3600),
        interval: Duration::from_secs(30),
        seed: 1,
        end_ms: 1_700_000_400_000,
        churn: None,
    }
}

#[test]
fn the_list_for_replaced_pods_has_the_classes_that_are_compared() {
    let text = include_str!("../../../../scenarios/queries-churn.yml");
    let questions = read(Some(text), "queries-churn.yml").unwrap();
    let of = |class| {
        let of_class = questions.iter().filter(|question| question.class == class);
        of_class.count()
    };
    assert_eq!(
        ["instant", "range", "scan", "metadata"].map(of),
        [3, 4, 4, 1]
    );
    assert!(
        questions
            .iter()
            .all(|question| !question.touches.is_empty())
    );
}

#[test]
fn the_list_that_is_built_in_has_twenty_queries_of_three_classes() {
    let questions = read(None, "built in").unwrap();
    assert_eq!(questions.len(), 20);
    let of = |class| {
        questions
            .iter()
            .filter(|question| question.class == class)
            .count()
    };
    assert_eq!((of("small"), of("scan"), of("metadata")), (7, 11, 2));
    assert!(
        questions
            .iter()
            .all(|question| question.touched(&data()).is_some())
    );
    for endpoint in [
        Endpoint::Instant,
        Endpoint::Range,
        Endpoint::Values,
        Endpoint::Series,
    ] {
        assert!(
            questions
                .iter()
                .any(|question| question.endpoint == endpoint),
            "{endpoint:?}"
        );
    }
    let exprs: Vec<&str> = questions
        .iter()
        .map(|question| question.expr.as_str())
        .collect();
    for word in [
        "rate(",
        "histogram_quantile(",
        "topk(",
        "group_left",
        "max_over_time(",
        "=~",
        "!~",
        ":1m]",
    ] {
        assert!(exprs.iter().any(|expr| expr.contains(word)), "{word}");
    }
}

#[test]
fn times_are_placed_in_the_data() {
    let text = "queries:\n- {name: a, class: c, kind: range, expr: up, start: 50%, end: -10m, step: 90s}\n\
        - {name: b, class: c, expr: a{b=\"c\"}}\n- {name: d, class: c, kind: values, label: pod, start: 0%}\n\
        - {name: e, class: c, kind: series, expr: up, start: -1s}\n";
    let text = text.replace("a{b=\"c\"}", "'a{b=\"c\"}'");
    let questions = read(Some(&text), "q.yml").unwrap();
    let paths: Vec<String> = questions
        .iter()
        .map(|question| question.path(&data(), 0))
        .collect();
    assert_eq!(
        paths,
        [
            "/api/v1/query_range?query=up&start=1699998600.000&end=1699999800.000&step=90.000",
            "/api/v1/query?query=a%7Bb%3D%22c%22%7D&time=1700000400.000",
            "/api/v1/label/pod/values?start=1699996800.000&end=1700000400.000",
            "/api/v1/series?match%5B%5D=up&start=1700000399.000&end=1700000400.000",
        ]
    );
    assert_eq!(
        questions[0].path(&data(), 2),
        "/api/v1/query_range?query=up&start=1699998420.000&end=1699999620.000&step=90.000"
    );
    let others = questions[1..].iter().zip(&paths[1..]);
    others.for_each(|(question, path)| assert_eq!(question.path(&data(), 2), *path));
    assert_eq!(questions[0].touched(&data()), None);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, reason) in [
        ("queries: []\n", "q.yml: there is no query"),
        (
            "a: 1\n",
            "q.yml:1:1: unknown field `a`, expected one of queries",
        ),
        (
            "queries:\n- {name: a, expr: up}\n",
            "q.yml:2:13: missing field `class`",
        ),
        (
            "queries:\n- {name: a, class: c}\n",
            "q.yml:2:3: a query needs an `expr`",
        ),
        (
            "queries:\n- {name: a, class: c, kind: values}\n",
            "q.yml:2:3: a query needs a `label`",
        ),
        (
            "queries:\n- {name: a, class: c, expr: up, start: 1h}\n",
            "q.yml:2:40: \"1h\" is neither a share, as 50%, nor a time, as -30m",
        ),
        (
            "queries:\n- {name: a, class: c, expr: up, start: 101%}\n",
            "q.yml:2:40: \"101%\" is neither a share, as 50%, nor a time, as -30m",
        ),
        (
            "queries:\n- {name: a, class: c, expr: up, step: 0s}\n",
            "q.yml:2:39: \"0s\" is no time, such as 30s",
        ),
        (
            "queries:\n- {name: a, class: c, expr: up, kind: x}\n",
            "q.yml:2:39: unknown variant `x`, expected one of instant, range, values, series",
        ),
        (
            "queries:\n- {name: a, class: c, expr: up, exp: x}\n",
            "q.yml:2:33: unknown field `exp`, expected one of name, class",
        ),
        (
            "queries:\n- {name: a, class: c, expr: up}\n- {name: a, class: c, expr: up}\n",
            "q.yml:3:3: two are called \"a\"",
        ),
    ] {
        let error = read(Some(text), "q.yml").unwrap_err().to_string();
        assert!(error.starts_with(reason), "{text}: {error}");
    }
}
