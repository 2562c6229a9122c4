//! Tests of `scenario_file`.

use super::*;

const WHOLE: &str = "# A comment.\nscenario: storage\ntargets: 7\nserver:\n  - narthex\n  - mine\n\
    servers:\n  - name: mine\n    arguments: [\"-c={config}\", -v]\n    config: |\n      a: 1\n      {scrape}\n\
    \x20   ready: /ok\n";

#[test]
fn a_file_has_flags_and_kinds_of_server() {
    let file = ScenarioFile::parse(WHOLE, "x.yml").unwrap();
    assert_eq!(file.scenario, "storage");
    assert_eq!(
        file.entries[0].values,
        [("7".to_owned(), "x.yml:3:10".to_owned())]
    );
    assert_eq!(file.entries[1].values.len(), 2);
    let kind = &file.kinds[0];
    assert_eq!((kind.name.as_str(), kind.program()), ("mine", "mine"));
    assert_eq!(kind.arguments, ["-c={config}", "-v"]);
    assert_eq!(kind.config, "a: 1\n{scrape}\n");
    assert_eq!(kind.url, "http://{listen}");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, reason) in [
        ("", "x.yml:1:1: `scenario: NAME` is missing"),
        ("targets: 7\n", "x.yml:1:1: `scenario: NAME` is missing"),
        ("- a\n", "x.yml:1:1: expected mapping start"),
        ("a: 1\nb: 2\na: 3\n", "x.yml:3:1: duplicate mapping key: a"),
        (
            "scenario: x\ntargets: {a: 1}\n",
            "x.yml:2:10: invalid type: map, expected a value",
        ),
        ("scenario: [x]\n", "x.yml:1:11: expected string scalar"),
        (
            "scenario: x\n---\na: 1\n",
            "x.yml:3:1: multiple YAML documents",
        ),
        (
            "scenario: x\nservers:\n  - name: a\n    redy: /x\n",
            "x.yml:4:5: unknown field `redy`, expected one of name, program",
        ),
        (
            "scenario: x\nservers:\n  - ready: /x\n",
            "x.yml:3:5: a server needs a `name` without =, @ and /",
        ),
        (
            "scenario: x\nservers:\n  - name: a\n    ready: /x\n    url: http://example.org\n",
            "x.yml:3:5: a server's `url` begins with http://{listen}: only this machine is measured",
        ),
    ] {
        let error = ScenarioFile::parse(text, "x.yml").unwrap_err().to_string();
        assert!(error.starts_with(reason), "{text:?}: {error}");
    }
}

#[test]
fn arbitrary_bytes_do_no_harm() {
    let mutator = narthex_testkit::mutate::Mutator::new(5);
    mutator.run(&[WHOLE.as_bytes()], 5_000, |data| {
        if let Ok(text) = std::str::from_utf8(data)
            && let Err(error) = ScenarioFile::parse(text, "f.yml")
        {
            assert!(error.to_string().starts_with("f.yml:"), "{error}");
        }
    });
}
