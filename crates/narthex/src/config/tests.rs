//! Configurations that are taken and refused.

use super::*;

fn refused(text: &str) -> String {
    Config::parse(text).unwrap_err().to_string()
}

#[test]
fn defaults_and_globals_reach_the_jobs() {
    let config = Config::parse(
        "global:\n  scrape_interval: 15s\n  sample_limit: 7\n  external_labels: {dc: eu}\nscrape_configs:\n\
- job_name: a\n  static_configs:\n  - targets: [h:1, h:2]\n    labels: {zone: z}\n\
- job_name: b\n  scrape_interval: 5s\n  scrape_timeout: 2s\n  metrics_path: /m\n  honor_labels: yes\n  sample_limit: 1\n  params: {x: [1, 2]}\n",
    )
    .unwrap();
    let [a, b] = config.jobs.as_slice() else {
        panic!("{config:?}")
    };
    assert_eq!(
        (a.scrape_interval, a.scrape_timeout, a.limits.samples),
        (Duration::from_secs(15), Duration::from_secs(10), 7)
    );
    assert_eq!(a.static_configs[0].targets, ["h:1", "h:2"]);
    assert_eq!(
        (b.scrape_interval, b.scrape_timeout, b.limits.samples),
        (Duration::from_secs(5), Duration::from_secs(2), 1)
    );
    assert!(b.honor_labels && b.metrics_path == "/m");
    assert_eq!(
        b.params,
        [("x".to_owned(), vec!["1".to_owned(), "2".to_owned()])]
    );
    assert_eq!(config.external_labels.to_string(), "{dc=\"eu\"}");
    assert_eq!(Config::parse("# nothing\n").unwrap(), Config::default());
}

#[test]
fn a_global_timeout_shrinks_to_a_jobs_interval() {
    let config = Config::parse("scrape_configs: [{job_name: a, scrape_interval: 3s}]").unwrap();
    assert_eq!(config.jobs[0].scrape_timeout, Duration::from_secs(3));
    assert_eq!(
        refused("scrape_configs: [{job_name: a, scrape_interval: 3s, scrape_timeout: 4s}]"),
        "scrape timeout greater than scrape interval for scrape config with job name \"a\""
    );
}

#[test]
fn faults_are_named_with_their_place() {
    assert_eq!(
        refused("scrape_configs: [{scheme: http}]"),
        "job_name is empty"
    );
    assert_eq!(
        refused("scrape_configs: [{job_name: a}, {job_name: a}]"),
        "found multiple scrape configs with job name \"a\""
    );
    assert_eq!(
        refused("scrape_configs:\n- job_name: a\n  relabel_configs: []\n"),
        "line 3, column 20: relabel_configs of job \"a\" is not supported by this version"
    );
    assert_eq!(
        refused("rule_files: [x]\n"),
        "line 1, column 13: rule_files is not supported by this version"
    );
    let unknown = refused("scrape_configs:\n- job_name: a\n  consult_sd_configs: []\n");
    assert!(
        unknown.contains("unknown field `consult_sd_configs`") && unknown.contains("line"),
        "{unknown}"
    );
    assert!(refused("nonsense: 1\n").contains("nonsense"));
    assert!(
        refused("global: {scrape_interval: 5x}\n").contains("not a valid duration string: \"5x\"")
    );
    assert!(refused("global: {body_size_limit: huge}\n").contains("not a size in bytes"));
    assert!(refused("a: [\n").contains("line"));
    assert_eq!(
        refused("scrape_configs: [{job_name: a, static_configs: [{targets: ['http://h/']}]}]"),
        "\"http://h/\" is not a valid hostname"
    );
}
