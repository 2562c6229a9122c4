//! Tests of patterns on names and on a directory.

use narthex_testkit::TempDir;

use super::{glob, matches};

#[test]
fn patterns_match_as_in_go() {
    for (pattern, text, want) in [
        ("a.json", "a.json", true),
        ("*.json", "a.json", true),
        ("*.json", ".json", true),
        ("*.json", ".hidden.json", true),
        ("*.json", "a/b.json", false),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "axxbyy", false),
        ("a?c", "abc", true),
        ("a?c", "a/c", false),
        ("a?c", "aéc", true),
        ("[a-c]x", "bx", true),
        ("[^a-c]x", "bx", false),
        ("[^a-c]x", "dx", true),
        ("[ac-e]", "d", true),
        (r"\*", "*", true),
        (r"\*", "a", false),
        (r"[\-x]", "-", true),
        ("", "", true),
        ("*", "", true),
    ] {
        assert_eq!(matches(text, pattern), Ok(want), "{pattern} {text}");
    }
    for bad in ["[", "[]a", "[a", "[-]", "[x-]", "[a-b-c]", r"a\", "[^]"] {
        assert_eq!(matches("a", bad), Err("syntax error in pattern"), "{bad}");
    }
}

#[test]
fn directories_are_searched() {
    let dir = TempDir::new("glob");
    for name in ["b.json", "a.json", "c.yml", "sub1/x.json", "sub2/y.json"] {
        dir.write(name, "[]");
    }
    let at = |pattern: &str| {
        let root = format!("{}/", dir.path().display());
        let found = glob(&format!("{root}{pattern}")).expect("a good pattern");
        found
            .iter()
            .map(|path| path.strip_prefix(&root).expect("inside").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(at("*.json"), ["a.json", "b.json"]);
    assert_eq!(at("c.yml"), ["c.yml"]);
    assert_eq!(at("d.yml"), Vec::<String>::new());
    assert_eq!(at("sub?/*.json"), ["sub1/x.json", "sub2/y.json"]);
    assert_eq!(at("none/*.json"), Vec::<String>::new());
}
