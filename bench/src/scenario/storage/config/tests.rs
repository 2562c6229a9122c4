//! Tests of `config`.

use super::*;

fn plan(arguments: &[&str]) -> Plan {
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    let values = super::super::SCENARIO.values(&arguments).unwrap();
    Plan::from_values(&values).unwrap()
}

fn addresses() -> [SocketAddrV4; 2] {
    ["127.1.0.1:80", "127.1.0.2:80"].map(|address| address.parse().unwrap())
}

#[test]
fn the_configuration_lists_every_target() {
    let plan = plan(&["--targets=2", "--interval=1500ms"]);
    let targets = Targets::new(&plan, "config-static", &addresses()).unwrap();
    let text = targets.scrape_config(&plan, "");
    assert!(text.contains("scrape_interval: 1500ms\n"), "{text}");
    let second = "- targets: [\"127.1.0.2:80\"]\n        labels:\n          cluster: \"prod\"\n";
    assert!(text.contains(second), "{text}");
    assert_eq!(storage_config(&plan), "");
}

#[test]
fn replaced_targets_have_other_labels_in_their_file() {
    let plan = plan(&["--targets=2", "--churn-share=0.5"]);
    let mut targets = Targets::new(&plan, "config-churn", &addresses()).unwrap();
    let config = targets.scrape_config(&plan, "");
    assert!(
        config.contains("file_sd_configs:") && !config.contains("static"),
        "{config}"
    );
    let file = targets.file.clone().unwrap();
    let read =
        || -> serde_json::Value { serde_json::from_slice(&fs::read(&file).unwrap()).unwrap() };
    let before = read();
    targets.replace(&plan.fleet, std::iter::once(1), 1).unwrap();
    let after = read();
    assert_eq!(before[0], after[0]);
    assert_eq!(before[1]["targets"], after[1]["targets"]);
    assert_ne!(before[1]["labels"]["pod"], after[1]["labels"]["pod"]);
}

#[test]
fn native_histograms_are_asked_for_as_the_version_wants_it() {
    let plan = plan(&["--targets=2", "--series=100", "--shape=native"]);
    let targets = Targets::new(&plan, "config-native", &addresses()).unwrap();
    let config = |version| targets.scrape_config(&plan, version);
    for (version, knows) in [
        ("prometheus, version 3.14.0 (branch: x)", true),
        ("prometheus, version 3.7.1", false),
        ("prometheus, version 2.42.0+ds (branch: x)", false),
        ("narthex 0.1.0", true),
    ] {
        let has = config(version).contains("scrape_native_histograms: true");
        assert_eq!(has, knows, "{version}");
    }
}

#[test]
fn time_that_is_compressed_allows_the_past() {
    let plan = plan(&["--targets=2", "--compress-time=60"]);
    let targets = Targets::new(&plan, "config-past", &addresses()).unwrap();
    assert!(storage_config(&plan).ends_with("out_of_order_time_window: 230m\n"));
    let config = |version| targets.scrape_config(&plan, version);
    for (version, knows) in [
        ("prometheus, version 3.15.0 (branch: x)", true),
        ("prometheus, version 2.48.0", true),
        ("prometheus, version 2.42.0+ds (branch: x)", false),
        ("narthex 0.1.0", true),
        ("victoria-metrics-2022", false),
    ] {
        assert_eq!(
            config(version).contains("track_timestamps"),
            knows,
            "{version}"
        );
    }
}
