//! Tests of `cli`.

use super::*;

choices! {
    enum Few {
        Six = "6",
        Seven = "7",
    }
}

flags! {
    /// Flags of a scenario.
    #[derive(Debug)]
    struct Sample {
        /// Server.
        server: Vec<String> = "server";
        /// Targets.
        targets: u64 = "targets", default("850"), within(1, 1_000);
        /// Interval.
        interval: Duration = "interval", default("5s");
        /// Compress.
        gzip: bool = "gzip";
    }
}

static TABLES: &[&[Flag]] = &[Sample::FLAGS, Common::FLAGS];

fn parse(line: &str) -> Result<Values, BenchError> {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Values::parse("storage", TABLES, &arguments)
}

fn read(values: &Values) -> Result<Sample, BenchError> {
    values.read(Sample::from_values)
}

#[test]
fn flags_are_read_in_every_form() {
    let values =
        parse("--targets=7 --seed 9 --gzip --server a=b --server=c=d --interval 500ms").unwrap();
    let some = read(&values).unwrap();
    let common = values.read(Common::from_values).unwrap();
    assert_eq!(some.targets, 7);
    assert_eq!((common.seed, common.repetitions), (9, 1));
    assert!(some.gzip);
    assert_eq!(some.server, ["a=b", "c=d"]);
    assert_eq!(some.interval, Duration::from_millis(500));
    assert!(!read(&parse("--no-gzip").unwrap()).unwrap().gzip);
    assert_eq!(values.get::<f64>("targets").unwrap(), 7.0);
    assert_eq!(values.get::<Few>("targets").unwrap(), Few::Seven);
}

#[test]
fn a_wrong_line_is_refused_with_its_reason() {
    let refused = |line: &str| parse(line).unwrap_err().to_string();
    assert_eq!(refused("targets"), "unexpected \"targets\"");
    assert_eq!(refused("--color"), "unknown long flag '--color'");
    assert_eq!(
        refused("--no-targets"),
        "unknown long flag '--no-targets'; did you mean '--targets'?"
    );
    assert_eq!(refused("--seed"), "expected argument for flag '--seed'");
    assert_eq!(
        refused("--seed 1 --seed 2"),
        "flag '--seed' cannot be repeated"
    );
    let refused = |line: &str| read(&parse(line).unwrap()).unwrap_err().to_string();
    assert_eq!(
        refused("--targets=0"),
        "--targets: \"0\" is not a number from 1 to 1000"
    );
    for time in ["5", "25h"] {
        let text = format!("--interval: {time:?} is not a time of at most a day");
        let error = refused(&format!("--interval={time}"));
        assert!(error.starts_with(&text), "{error}");
    }
    assert_eq!(
        refused("--gzip=maybe"),
        "--gzip: not true or false: \"maybe\""
    );
    let choice = parse("--targets=8").unwrap().get::<Few>("targets");
    assert_eq!(
        choice.unwrap_err().to_string(),
        "--targets: \"8\" is none of 6, 7"
    );
}

#[test]
fn the_command_line_goes_before_the_file_and_the_file_before_the_default() {
    let text =
        "scenario: storage\ntargets: 12\ninterval: 9s\nserver:\n  - narthex\n  - prometheus\n";
    let file = || ScenarioFile::parse(text, "x.yml").unwrap();
    let values = parse("--server=a=b").unwrap().with_file(file()).unwrap();
    let some = read(&values).unwrap();
    assert_eq!(some.server, ["a=b"]);
    assert_eq!(some.targets, 12);
    assert_eq!(
        values.get::<Few>("targets").unwrap_err().to_string(),
        "x.yml:2:10: targets: \"12\" is none of 6, 7"
    );
    let none = ScenarioFile::parse("scenario: storage\ntargets: 0\n", "x.yml").unwrap();
    let none = parse("").unwrap().with_file(none).unwrap();
    assert_eq!(
        read(&none).unwrap_err().to_string(),
        "x.yml:2:10: targets: \"0\" is not a number from 1 to 1000"
    );
    let values = parse("--targets=3").unwrap().with_file(file()).unwrap();
    let some = read(&values).unwrap();
    assert_eq!(some.server, ["narthex", "prometheus"]);
    assert_eq!(some.targets, 3);
    assert_eq!(values.get::<u64>("seed").unwrap(), 1);
    let refused = |text: &str| {
        let file = ScenarioFile::parse(text, "x.yml").unwrap();
        parse("").unwrap().with_file(file).unwrap_err().to_string()
    };
    assert_eq!(
        refused("scenario: storage\n  \ntarget: 12\n"),
        "x.yml:3:1: storage has no \"target\""
    );
    assert_eq!(
        refused("scenario: storage\nout: /x\n"),
        "x.yml:2:1: storage has no \"out\""
    );
    assert_eq!(
        refused("scenario: storage\ntargets: [1, 2]\n"),
        "x.yml:2:1: targets takes one value"
    );
}

#[test]
fn a_directory_is_named_from_the_root() {
    let arguments = ["--dir=src".to_owned()];
    let values = Values::parse("storage", TABLES, &arguments).unwrap();
    let dir = values.dir().unwrap();
    assert!(dir.is_absolute() && dir.ends_with("src"), "{dir:?}");
}

#[test]
fn a_record_has_no_paths_of_the_machine() {
    let arguments = [
        "--server",
        "narthex=/a/b/narthex",
        "--server=prometheus=/x/prometheus",
        "--dir",
        "/t/u",
    ];
    let arguments = arguments.map(str::to_owned);
    let values = Values::parse("storage", TABLES, &arguments).unwrap();
    let record = values.record("x".to_owned(), Vec::new(), Vec::new());
    assert_eq!(
        record.command,
        "narthex-bench storage --server narthex=narthex --server=prometheus=prometheus --dir u"
    );
    let names: Vec<&str> = record.parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "server",
            "targets",
            "interval",
            "gzip",
            "repetitions",
            "seed"
        ]
    );
    assert_eq!(
        record.parameters[0].value,
        "narthex=narthex, prometheus=prometheus"
    );
    assert_eq!(
        without_path("--url=http://127.0.0.1/x"),
        "--url=http://127.0.0.1/x"
    );
}
