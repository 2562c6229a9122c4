//! What is embedded is what lies in `dist`, complete, typed, and free of anything from elsewhere.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use narthex_ui::{CONTENT_SECURITY_POLICY, PAGES, SECURITY_HEADERS, asset, assets};

/// Everything a browser may ever load, packed where that pays; also what the product's size grows by. Two thirds are the
/// query editor.
const MAX_DIST_BYTES: usize = 300_000;

/// What a browser fetches before the first page shows anything, packed.
const MAX_FIRST_BYTES: usize = 64_000;

fn dist() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dist")
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn text(path: &str) -> String {
    String::from_utf8(
        asset(path)
            .unwrap_or_else(|| panic!("{path} is not embedded"))
            .plain(),
    )
    .unwrap()
}

#[test]
fn every_file_of_dist_is_served_with_its_bytes_and_type() {
    let mut found = Vec::new();
    files_below(&dist(), &mut found);
    let mut served = BTreeSet::new();
    for file in found {
        let name = format!("/{}", file.strip_prefix(dist()).unwrap().to_str().unwrap());
        let bytes = fs::read(&file).unwrap();
        if let Some(plain) = name.strip_suffix(".gz") {
            let asset =
                asset(plain).unwrap_or_else(|| panic!("{name} packs a file that does not exist"));
            assert_eq!(asset.gzip, bytes, "{name}");
            continue;
        }
        let asset = asset(&name).unwrap_or_else(|| panic!("{name} is not embedded"));
        assert!(asset.plain() == bytes, "{name}");
        let wanted = match name.rsplit('.').next().unwrap() {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{name}: say here what type .{other} has"),
        };
        assert_eq!(asset.content_type, wanted, "{name}");
        served.insert(name);
    }
    let embedded: BTreeSet<_> = assets().iter().map(|asset| asset.path.to_owned()).collect();
    assert_eq!(embedded, served, "nothing is embedded that is not in dist");
}

#[test]
fn the_root_is_the_page_and_unknown_paths_are_nothing() {
    assert_eq!(asset("/"), asset("/index.html"));
    assert!(asset("/").is_some());
    for path in [
        "",
        "index.html",
        "/index.html.gz",
        "/assets",
        "/assets/",
        "/../Cargo.toml",
        "//index.html",
    ] {
        assert_eq!(asset(path), None, "{path:?}");
    }
}

/// The paths of the views, from the page's own source.
#[test]
fn the_page_is_at_every_path_it_navigates_to() {
    let views = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/views/index.ts");
    let views = fs::read_to_string(views).unwrap();
    let paths: Vec<_> = views
        .split("view(\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert!(paths.len() > 5, "{paths:?}");
    for path in &paths {
        assert!(PAGES.contains(path), "{path}");
    }
    for path in PAGES {
        assert_eq!(asset(path), asset("/index.html"), "{path}");
        assert!(paths.contains(&path) || path == "/graph", "{path}");
        // Links in the page are relative to its root, so a page below another would not find its files.
        assert_eq!(path.rfind('/'), Some(0), "{path}");
    }
}

/// Values of `src="..."` and `href="..."`.
fn references(html: &str) -> Vec<String> {
    ["src=\"", "href=\""]
        .iter()
        .flat_map(|attribute| html.split(attribute).skip(1))
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_page_refers_only_to_embedded_files() {
    let references = references(&text("/"));
    assert!(
        references.len() >= 3,
        "script, style sheet and icon: {references:?}"
    );
    for reference in references {
        let path = reference
            .strip_prefix('.')
            .unwrap_or_else(|| panic!("{reference} is not relative"));
        let asset = asset(path).unwrap_or_else(|| panic!("{reference} is not embedded"));
        assert!(asset.immutable, "{reference} is cached by name");
    }
}

#[test]
fn the_page_keeps_its_own_policy() {
    for forbidden in ["unsafe", "http:", "https:", "data:", "*"] {
        assert!(!CONTENT_SECURITY_POLICY.contains(forbidden), "{forbidden}");
    }
    assert!(CONTENT_SECURITY_POLICY.starts_with("default-src 'self'; "));
    assert!(!CONTENT_SECURITY_POLICY.contains('\n'));
    assert!(
        SECURITY_HEADERS
            .iter()
            .any(|(_, value)| *value == CONTENT_SECURITY_POLICY)
    );
    let html = text("/");
    for script in html.split("<script").skip(1) {
        let (attributes, rest) = script.split_once('>').unwrap();
        assert!(attributes.contains("src="), "an inline script: {script}");
        assert!(
            rest.trim_start().starts_with("</script>"),
            "a script with content: {rest}"
        );
    }
    assert!(
        !html.contains("<style") && !html.contains(" style=") && !html.contains(" on"),
        "{html}"
    );
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    // Names of XML vocabularies, never fetched.
    const VOCABULARIES: [&str; 4] = [
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xhtml",
        "http://www.w3.org/1998/Math/MathML",
        "http://www.w3.org/1999/xlink",
    ];
    for asset in assets() {
        let mut text = String::from_utf8(asset.plain()).unwrap();
        for name in VOCABULARIES {
            text = text.replace(name, "");
        }
        for scheme in ["http://", "https://", "url(//", "src=\"//", "@import"] {
            assert!(!text.contains(scheme), "{} contains {scheme}", asset.path);
        }
    }
}

#[test]
fn tags_are_weak_and_differ_and_caching_follows_the_name() {
    let tags: BTreeSet<_> = assets().iter().map(|asset| asset.etag).collect();
    assert_eq!(tags.len(), assets().len());
    assert!(
        tags.iter()
            .all(|tag| tag.starts_with("W/\"") && tag.ends_with('"')),
        "{tags:?}"
    );
    let page = asset("/").unwrap();
    assert!(!page.immutable);
    assert_eq!(page.cache_control(), "no-cache");
    let script = assets()
        .iter()
        .find(|asset| asset.path.ends_with(".js"))
        .unwrap();
    assert_eq!(
        script.cache_control(),
        "public, max-age=31536000, immutable"
    );
}

#[test]
fn the_page_stays_small() {
    let total: usize = assets().iter().map(|asset| asset.gzip.len()).sum();
    assert!(total < MAX_DIST_BYTES, "{total} bytes");
    let page = text("/");
    let first: usize = references(&page)
        .iter()
        .filter_map(|path| asset(path.strip_prefix('.')?))
        .map(|asset| asset.gzip.len())
        .sum();
    assert!(first > 0 && first < MAX_FIRST_BYTES, "{first} bytes");
}
