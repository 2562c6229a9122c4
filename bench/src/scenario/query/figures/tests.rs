//! Tests of `figures`.

use super::*;
use crate::{
    load::DatasetConfig,
    scenario::query::{answers::Answer, questions},
};
use std::time::Duration;

fn plan() -> Plan {
    Plan {
        data: DatasetConfig {
            series: 50,
            duration: Duration::from_secs(60),
            interval: Duration::from_secs(30),
            seed: 1,
            end_ms: 1_700_000_000_000,
            churn: None,
        },
        questions: questions::read(
            Some("queries:\n- {name: a, class: x, expr: up}\n- {name: b, class: y, expr: up}\n"),
            "q",
        )
        .unwrap(),
        rounds: 1,
        restarts: 0,
        refreshes: false,
        base: std::env::temp_dir(),
    }
}

fn asked(value: &str) -> Asked {
    let body = format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{}},"value":[1,"{value}"]}}]}}}}"#
    );
    Asked {
        answer: Answer::read(body.as_bytes()).unwrap(),
        touched: Some(7.0),
    }
}

#[test]
fn agreement_is_a_column_for_each_further_server_and_details_where_there_are_any() {
    let servers = [
        vec![asked("1"), asked("2")],
        vec![asked("1"), asked("3")],
        vec![asked("1.0000000000002"), asked("2")],
    ];
    let tables = agreement(&plan(), &["one", "two", "three"], &servers);
    assert_eq!(tables[0].columns[3..], ["two", "three"]);
    assert_eq!(
        tables[0].rows,
        [
            ["a", "7", "1", "equal", "within 2e-13"],
            ["b", "7", "1", "1 differ", "equal"]
        ]
    );
    assert_eq!(tables[1].rows, [["b", "two", "{} @ 1", "2", "3"]]);
    assert_eq!(agreement(&plan(), &["one"], &servers[..1]).len(), 1);
}

#[test]
fn every_question_and_every_class_has_its_latency() {
    let ms = Duration::from_millis;
    let round = Round {
        took: vec![vec![ms(1), ms(3), ms(2)], vec![ms(10)]],
        cpu: ms(40),
        used: crate::harness::Used::default(),
    };
    let run = run(&plan(), "warm", &round, None);
    let figure = |key: &str| run.figure(key).unwrap().value;
    assert!((2.0..2.02).contains(&figure("x queries p50")));
    assert!((10.0..10.1).contains(&figure("y queries p99")));
    assert!((2.0..2.02).contains(&figure("x: a p50")));
    assert_eq!(figure("CPU a query"), 10.0);
    assert_eq!(run.distributions.len(), 4);
}
