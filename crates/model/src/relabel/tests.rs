//! Relabelling rules applied to label sets.

use super::*;

fn rule(change: impl FnOnce(&mut RelabelConfig)) -> Rule {
    let mut config = RelabelConfig::default();
    change(&mut config);
    Rule::new(config, NameScheme::Utf8).unwrap()
}

fn refused(scheme: NameScheme, change: impl FnOnce(&mut RelabelConfig)) -> String {
    let mut config = RelabelConfig::default();
    change(&mut config);
    Rule::new(config, scheme).unwrap_err().to_string()
}

fn set(pairs: &[(&str, &str)]) -> LabelSet {
    LabelSet::new(pairs.iter().copied())
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn each_action_does_what_it_says() {
    let labels = set(&[("a", "foo"), ("b", "Bar"), ("c", "baz")]);
    let check = |change: &dyn Fn(&mut RelabelConfig), expected: Option<&[(&str, &str)]>| {
        let result = process(&labels, &[rule(|config| change(config))]);
        assert_eq!(result, expected.map(set));
    };
    let replace = |config: &mut RelabelConfig| {
        config.source_labels = names(&["a", "b"]);
        config.regex = Some("f(.*);(.*)r".into());
        config.target_label = "d".into();
        config.replacement = "ch${1}-${2}$$".into();
    };
    check(
        &replace,
        Some(&[("a", "foo"), ("b", "Bar"), ("c", "baz"), ("d", "choo-Ba$")]),
    );
    let by_source = |action: Action| {
        move |config: &mut RelabelConfig| {
            config.source_labels = names(&["a"]);
            config.regex = Some("fo+".into());
            config.action = Some(action);
        }
    };
    check(
        &by_source(Action::Keep),
        Some(&[("a", "foo"), ("b", "Bar"), ("c", "baz")]),
    );
    check(&by_source(Action::Drop), None);
    let target = |action: Action, target: &'static str| {
        move |config: &mut RelabelConfig| {
            config.source_labels = names(&["b"]);
            config.target_label = target.into();
            config.action = Some(action);
        }
    };
    check(
        &target(Action::Lowercase, "b"),
        Some(&[("a", "foo"), ("b", "bar"), ("c", "baz")]),
    );
    check(
        &target(Action::Uppercase, "a"),
        Some(&[("a", "BAR"), ("b", "Bar"), ("c", "baz")]),
    );
    check(&target(Action::KeepEqual, "a"), None);
    check(
        &target(Action::DropEqual, "a"),
        Some(&[("a", "foo"), ("b", "Bar"), ("c", "baz")]),
    );
    check(&target(Action::DropEqual, "b"), None);
    let hash = |config: &mut RelabelConfig| {
        config.source_labels = names(&["c"]);
        config.target_label = "d".into();
        config.action = Some(Action::HashMod);
        config.modulus = 1000;
    };
    check(
        &hash,
        Some(&[("a", "foo"), ("b", "Bar"), ("c", "baz"), ("d", "976")]),
    );
    let by_name = |action: Action, regex: &'static str| {
        move |config: &mut RelabelConfig| {
            config.regex = Some(regex.into());
            config.action = Some(action);
        }
    };
    check(&by_name(Action::LabelDrop, "[ab]"), Some(&[("c", "baz")]));
    check(
        &by_name(Action::LabelKeep, "[ab]"),
        Some(&[("a", "foo"), ("b", "Bar")]),
    );
}

#[test]
fn labelmap_meets_labels_in_the_order_of_prometheus() {
    let map = rule(|config| {
        config.regex = Some("(.)_.*".into());
        config.action = Some(Action::LabelMap);
    });
    let labels = set(&[("x_a", "1"), ("x_b", "2")]);
    let mapped = process(&labels, std::slice::from_ref(&map)).unwrap();
    assert_eq!(mapped.get("x"), Some("2"), "the last by name wins");
    let touch = rule(|config| {
        config.target_label = "x_a".into();
        config.replacement = "1".into();
    });
    let mapped = process(&labels, &[touch, map]).unwrap();
    assert_eq!(mapped.get("x"), Some("1"), "a label set again comes last");
}

#[test]
fn an_unchanged_set_is_the_same_allocation() {
    let labels = set(&[("a", "foo")]);
    let keep = rule(|config| config.action = Some(Action::Keep));
    let again = rule(|config| {
        config.target_label = "a".into();
        config.replacement = "foo".into();
    });
    let result = process(&labels, &[keep, again]).unwrap();
    assert!(std::ptr::eq(result.labels(), labels.labels()));
}

#[test]
fn empty_replacements_and_bad_targets_remove_and_do_nothing() {
    let labels = set(&[("a", "foo")]);
    let empty = rule(|config| {
        config.target_label = "a".into();
        config.replacement = String::new();
    });
    assert_eq!(process(&labels, &[empty]), Some(LabelSet::empty()));
    let mut config = RelabelConfig {
        source_labels: names(&["a"]),
        regex: Some("(.*)".into()),
        target_label: "${1}".into(),
        replacement: "x".into(),
        ..RelabelConfig::default()
    };
    let legacy = Rule::new(config.clone(), NameScheme::Legacy).unwrap();
    let dashed = set(&[("a", "f-o")]);
    assert_eq!(process(&dashed, &[legacy]), Some(dashed.clone()));
    config.target_label = "$1".into();
    let utf8 = Rule::new(config, NameScheme::Utf8).unwrap();
    assert_eq!(
        process(&dashed, &[utf8]).unwrap().get("f-o"),
        Some("x"),
        "any text is a name"
    );
}

#[test]
fn case_changes_keep_the_number_of_characters() {
    assert_eq!(case::upper("straße ŉ ᾳ ά"), "STRAßE ŉ ᾼ Ά");
    assert_eq!(case::lower("İΣ ΑΣ"), "iσ ας".replace('ς', "σ"));
}

#[test]
fn refusals_are_in_the_words_of_prometheus() {
    let with = |action: Action| move |config: &mut RelabelConfig| config.action = Some(action);
    let utf8 = NameScheme::Utf8;
    assert_eq!(
        refused(utf8, |config| config.action = None),
        "relabel action cannot be empty"
    );
    assert_eq!(
        "nope".parse::<Action>().unwrap_err().to_string(),
        r#"unknown relabel action "nope""#
    );
    assert_eq!("KeepEqual".parse(), Ok(Action::KeepEqual));
    assert_eq!(
        refused(utf8, with(Action::HashMod)),
        "relabel configuration for hashmod requires non-zero modulus"
    );
    assert_eq!(
        refused(utf8, with(Action::Replace)),
        "relabel configuration for replace action requires 'target_label' value"
    );
    assert_eq!(
        refused(NameScheme::Legacy, |config| config.target_label =
            "a-b".into()),
        r#""a-b" is invalid 'target_label' for replace action"#
    );
    assert_eq!(
        refused(utf8, |config| {
            config.action = Some(Action::Lowercase);
            config.target_label = "a".into();
            config.replacement = "b".into();
        }),
        "'replacement' can not be set for lowercase action"
    );
    assert_eq!(
        refused(utf8, |config| {
            config.action = Some(Action::LabelMap);
            config.replacement = String::new();
        }),
        r#""" is invalid 'replacement' for labelmap action"#
    );
    assert_eq!(
        refused(utf8, |config| {
            config.action = Some(Action::DropEqual);
            config.target_label = "a".into();
            config.regex = Some("(.*)".into());
        }),
        "dropequal action requires only 'source_labels' and `target_label`, and no other fields"
    );
    assert_eq!(
        refused(utf8, |config| {
            config.action = Some(Action::LabelKeep);
            config.separator = ",".into();
        }),
        "labelkeep action requires only 'regex', and no other fields"
    );
    assert_eq!(
        refused(utf8, |config| config.regex = Some("abc)".into())),
        "error parsing regexp: unexpected ): `^(?s:abc))$`"
    );
}

/// Prometheus' table of targets under the legacy scheme.
#[test]
fn targets_under_the_old_scheme_may_refer_to_groups() {
    for (target, valid) in [
        ("-label", false),
        ("label", true),
        ("label${1}", true),
        ("${1}label", true),
        ("${1}", true),
        ("${", false),
        ("$", false),
        ("${}", false),
        ("foo${", false),
        ("$1", true),
        ("asd$2asd", true),
        ("-foo${1}bar-", false),
        ("bar.foo${1}bar", false),
        ("_${1}_", true),
        ("foo${bar}foo", true),
    ] {
        let config = RelabelConfig {
            target_label: target.into(),
            ..RelabelConfig::default()
        };
        assert_eq!(
            Rule::new(config, NameScheme::Legacy).is_ok(),
            valid,
            "{target}"
        );
    }
}
