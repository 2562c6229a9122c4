//! Bodies that share layouts, and those that must not.

use super::*;
use crate::text::GroupLabels;
use narthex_expfmt::Escaping;

const ALLOWED: Allowed = Allowed {
    utf8_names: false,
    timestamps: false,
};

/// Pushes a body to a group with one more label than its job; returns its layout and its page.
fn pushed(
    memory: &Memory,
    shelves: &mut Vec<Arc<Shelf>>,
    label: &str,
    body: &str,
) -> (Arc<Layout>, String) {
    let pairs = [("job", "j"), label.split_once('=').unwrap()];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let grouping = &Grouping::new(pairs.to_vec());
    let common = &grouping.common();
    let target = Target { grouping, common };
    let body = (Format::Text, body.as_bytes());
    let contents = decode(memory, shelves, body, target, ALLOWED).unwrap();
    let labels = GroupLabels::new(grouping, Escaping::Underscores);
    let mut page = Vec::new();
    for (at, family) in contents.families().enumerate() {
        contents.layout.text(at).write(&mut page, family, &labels);
    }
    (contents.layout, String::from_utf8(page).unwrap())
}

#[test]
fn groups_share_a_kind_as_long_as_only_numbers_and_labels_of_theirs_differ() {
    let memory = Memory::default();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let body = "m{k=\"1\",z=\"2\"} 1\nn 2\n";
    let (first, page) = pushed(&memory, &mut a, "kind=x", body);
    assert_eq!(
        page,
        "m{instance=\"\",job=\"j\",k=\"1\",kind=\"x\",z=\"2\"} 1\nn{instance=\"\",job=\"j\",kind=\"x\"} 2\n"
    );
    let (same, page) = pushed(&memory, &mut b, "kind=y", &body.replace(" 2", " 3"));
    assert!(Arc::ptr_eq(&first, &same) && Arc::ptr_eq(&a[0], &b[0]));
    assert!(
        page.ends_with("n{instance=\"\",job=\"j\",kind=\"y\"} 3\n"),
        "{page}"
    );
    // The label of the group takes the place of one of the body.
    let (other, page) = pushed(&memory, &mut Vec::new(), "k=v", body);
    assert!(!Arc::ptr_eq(&first, &other));
    assert!(
        page.starts_with("m{instance=\"\",job=\"j\",k=\"v\",z=\"2\"} 1\n"),
        "{page}"
    );
    let text = "m{k=\"1\",z=\"2\"} 1\n# TYPE n gauge\nn 2\n";
    let (typed, _) = pushed(&memory, &mut a, "kind=x", text);
    assert!(!Arc::ptr_eq(&first, &typed));
    assert!(Arc::ptr_eq(&first.families[0], &typed.families[0]));
}

/// Bodies that begin and end alike have the same key. What one of them is must not show in another.
#[test]
fn bodies_that_look_alike_are_told_apart() {
    let memory = Memory::default();
    let bodies = ["a 1\nm{k=\"1\"} 2\nz 3\n", "a 4\nm{k=\"2\"} 5\nz 6\n"];
    let mut shelves = [Vec::new(), Vec::new()];
    for round in 0..4 {
        for (at, body) in bodies.iter().enumerate() {
            let (_, page) = pushed(&memory, &mut shelves[(at + round / 2) % 2], "g=1", body);
            let labels = "{g=\"1\",instance=\"\",job=\"j\"";
            let expected = body.replace("a ", &format!("a{labels}}} "));
            let expected = expected.replace("z ", &format!("z{labels}}} "));
            let expected = expected.replace("m{", &format!("m{labels},"));
            assert_eq!(page, expected);
        }
    }
    // They have a layout each, and none is left over.
    assert_eq!(shelves.map(|shelves| shelves.len()), [1, 1]);
}

#[test]
fn what_nobody_uses_is_forgotten() {
    let memory = Memory::default();
    let mut shelves = Vec::new();
    let (kept, _) = pushed(&memory, &mut shelves, "g=1", "kept 1\n");
    for at in 0..640 {
        pushed(&memory, &mut Vec::new(), "g=1", &format!("gone_{at} 1\n"));
    }
    for table in memory.layouts.lens() {
        assert!(table <= 256, "{table} are left");
    }
    let (again, _) = pushed(&memory, &mut shelves, "g=2", "kept 2\n");
    assert!(Arc::ptr_eq(&kept, &again));
}
