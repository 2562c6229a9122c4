//! Tests of `plan`.

use super::*;

fn plan(arguments: &[&str]) -> Result<Plan, String> {
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    let values = super::super::SCENARIO.values(&arguments).unwrap();
    Plan::from_values(&values).map_err(|error| error.to_string())
}

#[test]
fn the_defaults_are_small_and_the_remedies_are_three_more_modes() {
    let small = plan(&[]).unwrap();
    assert_eq!(small.all_series(), 24_000);
    assert_eq!(small.modes.len(), 1);
    let title = small.title();
    assert!(
        title.starts_with("5 hosts × 8 processes push 600 series each every 5s"),
        "{title}"
    );
    let names = |arguments: &[&str]| -> Vec<String> {
        let modes = plan(arguments).unwrap().modes;
        modes.into_iter().map(PushMode::name).collect()
    };
    let all = [
        "a push a process",
        "a push a host",
        "a push a host, gzip",
        "a push a host, gzip, a gateway a host",
    ];
    assert_eq!(names(&["--remedies"]), all);
    // A mode is not measured twice.
    assert_eq!(names(&["--remedies", "--batch=host"]), all[1..]);
}

#[test]
fn what_does_not_fit_is_refused() {
    for (argument, reason) in [
        ("--interval=5ms", "--interval: is at least 10ms"),
        ("--duration=4s", "--duration: is at least one interval"),
        (
            "--encoding=zstd",
            "--encoding: \"zstd\" is none of plain, gzip, snappy",
        ),
        ("--hosts=0", "--hosts: \"0\" is not a number from 1 to 1000"),
        ("--push-timeout=0s", "--push-timeout: no push takes no time"),
    ] {
        assert_eq!(plan(&[argument]).unwrap_err(), reason);
    }
    let many = plan(&["--hosts=1000", "--processes=1000"]).unwrap_err();
    assert_eq!(many, "--series: more than 20000000 in all");
}
