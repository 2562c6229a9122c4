//! Each check passes and fails on a small tree.

use super::*;

fn tree(files: &[(&str, &str)]) -> Tree {
    Tree {
        files: files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
            .collect(),
    }
}

fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_needs_a_header() {
    assert!(source::check(&tree(&[("a.rs", "//! Purpose.\nfn a() {}\n")])).is_empty());
    assert_eq!(source::check(&tree(&[("a.rs", "// Purpose.\n")])).len(), 1);
}

#[test]
fn sizes_count_code_and_not_tests() {
    let long = format!("//! x\n{}", "fn a() {}\n".repeat(1_000));
    assert_eq!(source::check(&tree(&[("src/a.rs", &long)])).len(), 1);
    assert_eq!(source::check(&tree(&[("src/a/tests.rs", &long)])), []);
    let tested = format!(
        "//! x\n#[cfg(test)]\nmod tests {{\n{}}}\n",
        "fn a() {}\n".repeat(1_000)
    );
    assert_eq!(source::check(&tree(&[("src/a.rs", &tested)])), []);
    let library = format!("//! x\n{}", "mod a;\n".repeat(200));
    assert_eq!(
        source::check(&tree(&[("crates/x/src/lib.rs", &library)])).len(),
        1
    );
}

#[test]
fn edges_are_enforced() {
    let manifest = |dependencies: &str| {
        let text = format!(
            "[package]\nname = \"narthex-promql\"\n\n{dependencies}\n\n[lints]\nworkspace = true\n"
        );
        let table = "<!-- edges -->\n| `model` | |\n| `tsdb` | |\n| `testkit` | |\n| `promql` | `model` |\n<!-- /edges -->";
        texts(&manifests::check(&tree(&[
            ("ARCHITECTURE.md", table),
            ("crates/promql/Cargo.toml", &text),
        ])))
    };
    assert_eq!(
        manifest("[dependencies]\nnarthex-model = { workspace = true }\nmemchr.workspace = true"),
        [""; 0]
    );
    assert_eq!(
        manifest("[dev-dependencies]\nnarthex-testkit = { workspace = true }"),
        [""; 0]
    );
    for wrong in [
        "[dependencies]\nnarthex-tsdb = { workspace = true }",
        "[dependencies.narthex-tsdb]\nworkspace = true",
        "[target.'cfg(unix)'.dependencies]\nhyper = \"1\"",
        "[dependencies]\nnarthex-testkit.workspace = true",
        "[build-dependencies]\ntokio = \"1\"",
    ] {
        assert_eq!(manifest(wrong).len(), 1, "{wrong}");
    }
}

#[test]
fn links_and_paths_must_exist() {
    let check = |text: &str| {
        let files = [
            ("docs/a.md", text),
            ("docs/b.md", "# The `one` idea\n"),
            ("crates/x/src/lib.rs", "//! x\n"),
        ];
        texts(&documents::check(&tree(&files)))
    };
    for fine in [
        "[b](b.md#the-one-idea) [x](../crates/x) <https://example.org> [o](https://example.org/no)",
        "`crates/x/src/lib.rs:1` and `crates/{x,y}/src` and `cargo xtask`",
        "```\n[no](no.md) `crates/no`\n```",
        "[out](../../elsewhere)",
    ] {
        assert_eq!(check(fine), [""; 0], "{fine}");
    }
    for wrong in [
        "[b](c.md)",
        "[b](b.md#two)",
        "see `crates/y/src/lib.rs`",
        "[ref]: no.md",
    ] {
        assert_eq!(check(wrong).len(), 1, "{wrong}");
    }
}

#[test]
fn the_map_stays_short() {
    let map = |lines: usize| {
        let text = "line\n".repeat(lines);
        documents::check_map(&tree(&[("ARCHITECTURE.md", &text)]))
    };
    assert_eq!(map(300), None);
    assert!(map(301).is_some());
}

#[test]
fn formats_and_their_documents_change_together() {
    let code = (
        "crates/x/src/f.rs",
        "//! Bytes: docs/format/f.md\nconst MAGIC: [u8; 2] = *b\"AB\"; // first\n",
    );
    let document = ("docs/format/f.md", "# F\n\nSource: `crates/x/src/f.rs`\n");
    let list = formats::record(&tree(&[code, document])).unwrap();
    let listed = (formats::LIST, list.as_str());
    assert_eq!(formats::check(&tree(&[code, document, listed])), []);

    let commented = (
        code.0,
        "//! See docs/format/f.md.\n\nconst MAGIC: [u8; 2] =  *b\"AB\"; // first\n",
    );
    assert_eq!(formats::check(&tree(&[commented, document, listed])), []);

    let changed = (
        code.0,
        "//! Bytes: docs/format/f.md\nconst MAGIC: [u8; 2] = *b\"AC\"; // first\n",
    );
    let alone = tree(&[changed, document, listed]);
    assert!(
        formats::check(&alone)[0]
            .text
            .contains("this document did not")
    );
    assert!(formats::record(&alone).is_err());

    let described = (document.0, "# F, second\n\nSource: `crates/x/src/f.rs`\n");
    let both = tree(&[changed, described, listed]);
    assert!(
        formats::check(&both)[0]
            .text
            .contains("run `cargo xtask formats`")
    );
    assert_ne!(formats::record(&both).unwrap(), list);

    // A document that pins nothing is fine as long as a source names it.
    let loose = ("docs/format/g.md", "# G\n");
    let naming = ("crates/x/src/g.rs", "//! Bytes: docs/format/g.md\n");
    assert_eq!(formats::check(&tree(&[loose, naming])), []);
    assert_eq!(formats::check(&tree(&[loose])).len(), 1);
    assert!(
        formats::check(&tree(&[naming]))[0]
            .text
            .contains("no such document")
    );
    let gone = texts(&formats::check(&tree(&[document, naming, loose])));
    assert!(
        gone.iter().any(|text| text.contains("f.rs does not exist")),
        "{gone:?}"
    );
    assert_eq!(formats::check(&tree(&[listed])).len(), 1);
}

#[test]
fn large_files_belong_into_testdata() {
    let large = "x".repeat(MAX_BLOB_BYTES + 1);
    assert_eq!(blobs(&tree(&[("a.bin", &large)])).len(), 1);
    assert_eq!(
        blobs(&tree(&[
            ("crates/x/testdata/a.bin", &large),
            ("crates/ui/dist/a.js", &large)
        ])),
        []
    );
}

#[test]
fn a_tree_knows_its_directories() {
    let tree = tree(&[("a/b/c", "")]);
    assert!(tree.has("a") && tree.has("a/b/") && tree.has("a/b/c") && tree.has(""));
    assert!(!tree.has("a/bc") && !tree.has("b"));
}

#[test]
fn modules_import_each_other_one_way() {
    let found = |a: &str, b: &str, list: &str| {
        let sources = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("crates/x/src/a.rs", a),
            ("crates/x/src/a/inner.rs", "use super::A;\n"),
            ("crates/x/src/b/mod.rs", b),
            ("crates/x/src/c.rs", "use crate::a::A;\n"),
            (circles::LIST, list),
        ];
        texts(&circles::check(&tree(&sources)))
    };
    let pair = "crates/x/src/a.rs: imports in a circle: crates/x/src/a.rs, crates/x/src/b/mod.rs";
    assert_eq!(found("use crate::b::B;", "", ""), [""; 0]);
    assert_eq!(
        found("use crate::b::B;", "use crate::{d, a::A};", ""),
        [pair]
    );
    assert_eq!(
        found("fn f() { crate::b::g() }", "use super::{a::{A, E}};", ""),
        [pair]
    );
    let three = "crates/x/src/a.rs: imports in a circle: crates/x/src/a.rs, crates/x/src/b/mod.rs, crates/x/src/c.rs";
    assert_eq!(found("use super::b::B;", "use super::c::C;", ""), [three]);
    // Names in tests and comments do not count, nor do visibilities.
    let tests =
        "// crate::a\npub(in crate::a) fn f() {}\n#[cfg(test)]\nmod tests { use crate::a::A; }\n";
    assert_eq!(found("use crate::b::B;", tests, ""), [""; 0]);
    // Within one directory they are one unit.
    assert_eq!(
        found("use self::inner::I;\nuse crate::a::inner::I;", "", ""),
        [""; 0]
    );
    let known = "crates/x/src/a.rs\ncrates/x/src/b/mod.rs\n";
    assert_eq!(
        found("use crate::b::B;", "use crate::a::A;", known),
        [""; 0]
    );
    let gone = "xtask/circles.txt: crates/x/src/b/mod.rs is in no circle any more: remove the line";
    assert_eq!(found("", "", "crates/x/src/b/mod.rs\n"), [gone]);
}
