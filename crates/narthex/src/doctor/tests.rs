//! Every rule with a page that it is about, and pages that none is about.

use super::*;
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::LabelSet;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn examined(page: &str) -> Vec<Finding> {
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let round = parser.parse(Format::Text, page.as_bytes(), 1_000_000, &mut KeepLabels);
    examine(&[&round.unwrap().frame], 1_000_000).unwrap()
}

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/doctor/pages")
}

#[test]
fn every_rule_finds_what_its_page_shows_and_says_it() {
    let mut said = Vec::new();
    for (name, _) in FILES {
        let page = fs::read_to_string(pages().join(format!("{name}.prom"))).unwrap();
        let findings = examined(&page);
        let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, [*name], "{findings:#?}");
        let Finding { text, help, .. } = &findings[0];
        assert!(!text.contains('{') && !help.contains('{'), "{text} {help}");
        said.push(format!("{name}: {text}"));
    }
    let expected = fs::read_to_string(pages().join("expected.txt")).unwrap();
    assert_eq!(said, expected.lines().collect::<Vec<_>>());
}

#[test]
fn every_file_of_a_rule_is_listed() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/doctor/rules");
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let listed = FILES.iter().map(|(name, _)| format!("{name}.rule"));
    assert_eq!(names, listed.collect::<Vec<_>>());
}

#[test]
fn halved_pages_and_others_have_no_findings() {
    assert!(examined("").is_empty());
    assert!(examined("up 1\nnode_sockstat_TCP_tw 24000\n").len() == 1);
    assert!(examined("node_sockstat_TCP_tw 12\nnarthex_host_local_ports 28232\n").is_empty());
    let healthy = fs::read_to_string(pages().join("healthy.prom")).unwrap();
    assert!(healthy.lines().count() > 250);
    let findings = examined(&healthy);
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn the_severest_comes_first() {
    let findings = examined("node_timex_sync_status 0\nnode_timex_offset_seconds 1\n");
    let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Critical, Severity::Warning]);
    assert_eq!(worst(&findings), Some(Severity::Critical));
    assert_eq!(worst(&[]), None);
}
