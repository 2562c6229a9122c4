//! Records: reading, writing, corruption and aggregation.

use super::{json, summary, *};

/// Returns a small record with everything in it.
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
pub(crate) fn sample() -> Record {
    let run = |subject, repetition, cpu, late| Run {
        subject,
        variant: "with queries".to_owned(),
        repetition,
        figures: vec![
            Figure::cost("CPU a sample", "µs", cpu).headline(),
            Figure::gain("samples", "a second", 1000.0),
            Figure::fact("scrapes", "", 17.0),
        ],
        courses: vec![Course {
            key: "resident memory".to_owned(),
            unit: "MB".to_owned(),
            points: vec![[0.5, 10.0], [1.5, 12.25]],
        }],
        distributions: vec![Distribution {
            key: "instant queries".to_owned(),
            unit: "ms".to_owned(),
            count: 3,
            corrected: vec![Quantile {
                share: 0.5,
                value: 2.5,
            }],
            uncorrected: vec![Quantile {
                share: 1.0,
                value: 1.25,
            }],
        }],
        own_costs: vec![OwnCost::new("first byte p99", "ms", late).refuse_above(5.0)],
    };
    let subject = |label: &str| Subject {
        label: label.to_owned(),
        version: format!("{label} 1.0"),
        command: format!("{label} --config={{config}}"),
    };
    Record {
        format: FORMAT,
        tool: Tool {
            name: "narthex-bench".to_owned(),
            version: "0.1.0".to_owned(),
            profile: "release".to_owned(),
        },
        command: "narthex-bench storage --targets=2".to_owned(),
        time_s: 1_700_000_000,
        seed: 1,
        machine: Machine {
            cpu: "a processor".to_owned(),
            cores: 2,
            memory_bytes: 4 << 30,
            kernel: "6.1".to_owned(),
        },
        scenario: "storage".to_owned(),
        title: "2 targets of 50 series".to_owned(),
        parameters: vec![Parameter {
            name: "targets".to_owned(),
            value: "2".to_owned(),
        }],
        subjects: vec![subject("narthex"), subject("prometheus")],
        runs: vec![
            run(0, 0, 1.0, 1.0),
            run(1, 0, 4.0, 1.0),
            run(1, 1, 12.0, 1.0),
            run(0, 1, 2.0, 1.0),
            run(0, 2, 0.001, 7.0),
        ],
        differences: vec![Difference {
            title: "families on one side only".to_owned(),
            columns: vec!["family".to_owned(), "only in".to_owned()],
            rows: vec![vec!["up".to_owned(), "narthex".to_owned()]],
        }],
        notes: vec!["victoria-metrics is not installed".to_owned()],
    }
}

#[test]
fn a_record_comes_back_as_it_was() {
    let record = sample();
    let text = json::text(&record);
    assert_eq!(json::parse(text.as_bytes(), "x").unwrap(), record);
}

#[test]
fn the_first_format_is_still_read() {
    let golden = include_bytes!("testdata/format-1.json");
    let record = json::parse(golden, "format-1.json").unwrap();
    assert_eq!(record, sample());
    assert_eq!(json::text(&record).as_bytes(), golden);
}

#[test]
fn a_damaged_record_is_refused_where_it_is_damaged() {
    let good = json::text(&sample());
    let refused = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        let damaged = good.replacen(from, to, 1);
        json::parse(damaged.as_bytes(), "x.json")
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused("\"format\":1", "\"format\":2"),
        "x.json: format 2 is not known, only 1"
    );
    assert!(
        refused("\"seed\":1", "\"sead\":1")
            .starts_with("x.json: unknown field `sead`, expected one of")
    );
    assert!(refused("\"seed\":1", "\"sead\":1").contains("at line 1 column"));
    assert!(refused("\"less\"", "\"smaller\"").contains("unknown variant `smaller`"));
    assert_eq!(
        refused("\"subject\":1", "\"subject\":2"),
        "x.json: runs[1].subject: 2 of 2"
    );
    assert_eq!(
        refused("\"key\":\"samples\"", "\"key\":\"scrapes\""),
        "x.json: runs[0].figures: two are called \"scrapes\""
    );
    assert_eq!(
        refused("\"label\":\"prometheus\"", "\"label\":\"narthex\""),
        "x.json: subjects: two are called \"narthex\""
    );
    assert_eq!(
        refused("[1.5,12.25]", "[0.25,12.25]"),
        "x.json: runs[0].courses: \"resident memory\" goes back in time"
    );
    assert_eq!(
        refused("\"share\":1.0", "\"share\":1.5"),
        "x.json: runs[0].distributions: \"instant queries\" has a share outside 0 to 1"
    );
    assert_eq!(
        refused("[\"up\",\"narthex\"]", "[\"up\"]"),
        "x.json: differences[0].rows: not all have 2 texts"
    );
    let cut = json::parse(&good.as_bytes()[..good.len() / 2], "x.json").unwrap_err();
    assert!(cut.to_string().contains("EOF while parsing"), "{cut}");
}

#[test]
fn ratios_are_made_within_a_repetition_and_refused_runs_do_not_count() {
    let record = sample();
    assert_eq!(summary::variants(&record), ["with queries"]);
    let rows = summary::rows(&record, "with queries");
    assert_eq!(rows.len(), 3);
    let cpu = &rows[0];
    let ours = cpu.values[0].unwrap();
    assert_eq!(
        (ours.median, ours.least, ours.most, ours.count),
        (1.5, 1.0, 2.0, 2)
    );
    let ratio = cpu.ratios[1].unwrap();
    assert_eq!((ratio.median, ratio.least, ratio.most), (5.0, 4.0, 6.0));
    assert_eq!(cpu.ratios[0], None);
    assert_eq!(rows[2].ratios, [None, None]);
    assert!(!summary::is_refused(&record));
    let mut all_refused = record;
    all_refused
        .runs
        .retain(|run| run.subject == 1 || run.repetition == 2);
    assert!(summary::is_refused(&all_refused));
}

#[test]
fn a_cost_above_its_limit_refuses_or_warns() {
    let cost = |value| OwnCost::new("x", "ms", value);
    assert_eq!(cost(5.0).refuse_above(5.0).verdict(), Verdict::Sound);
    assert_eq!(cost(5.1).refuse_above(5.0).verdict(), Verdict::Refused);
    assert_eq!(cost(5.1).warn_above(5.0).verdict(), Verdict::Noisy);
    assert_eq!(cost(5.1).verdict(), Verdict::Sound);
}

#[test]
fn arbitrary_bytes_do_no_harm() {
    let good = json::text(&sample());
    narthex_testkit::mutate::Mutator::new(7).run(&[good.as_bytes()], 2_000, json::try_record);
}
