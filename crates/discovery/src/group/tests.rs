//! Target groups in both notations.

use super::*;

fn read(text: &str, notation: Notation) -> Result<Vec<TargetGroup>, String> {
    read_groups(text.as_bytes(), notation, "__meta_filepath", "f")
}

#[test]
fn both_notations_say_the_same() {
    let json = r#"[{"targets":["a:1","b"],"labels":{"env":"x","n":"1"}},{"targets":[]}]"#;
    let yaml = "- targets: ['a:1', b]\n  labels:\n    env: x\n    n: 1\n- targets: []\n";
    let groups = read(json, Notation::Json).expect("good JSON");
    assert_eq!(groups, read(yaml, Notation::Yaml).expect("good YAML"));
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0].source, "f:0");
    assert_eq!(groups[1].source, "f:1");
    let labels = [("__meta_filepath", "f"), ("env", "x"), ("n", "1")];
    let labels = labels.map(|(n, v)| (n.to_owned(), v.to_owned()));
    assert_eq!(groups[0].labels, LabelMap::from(labels));
    assert_eq!(groups[0].targets[1][ADDRESS_LABEL], "b");
    for empty in ["", "# nothing\n", "---\n"] {
        assert_eq!(read(empty, Notation::Yaml), Ok(Vec::new()));
    }
    assert_eq!(read("null", Notation::Json), Ok(Vec::new()));
}

#[test]
fn what_is_no_list_of_groups_is_refused() {
    for (text, notation, want) in [
        ("", Notation::Json, "EOF"),
        ("[null]", Notation::Json, "nil target group item found"),
        ("- null\n", Notation::Yaml, "nil target group item found"),
        (r#"[{"bad":1}]"#, Notation::Json, "unknown field `bad`"),
        (
            "- bad: 1\n",
            Notation::Yaml,
            "line 1, column 3: unknown field `bad`",
        ),
        (r#"{"targets":[]}"#, Notation::Json, "line 1 column 0"),
        (
            r#"[{"targets":["a"]}] x"#,
            Notation::Json,
            "trailing characters",
        ),
        (
            r#"[{"targets":["a"],"labels":{"":"x"}}]"#,
            Notation::Json,
            "not a valid label name",
        ),
    ] {
        let error = read(text, notation).expect_err(text);
        assert!(error.contains(want), "{text}: {error}");
    }
}
