//! Lists `dist` and writes the table of embedded files. Invariant: equal files give an equal table, on every machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(env("CARGO_MANIFEST_DIR")).join("dist");
    println!("cargo::rerun-if-changed=dist");
    let mut files = BTreeMap::new();
    collect(&root, &root, &mut files);
    assert!(
        files.contains_key("index.html"),
        "{} has no index.html: run `npm ci && npm run build` in ui/",
        root.display()
    );
    let table = render(&files);
    let out = PathBuf::from(env("OUT_DIR")).join("table.rs");
    fs::write(&out, table).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Reads every file below `dir` into `files`, keyed by its path from `root` with forward slashes.
fn collect(root: &Path, dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries {
        let path = entry
            .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
            .path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(root, &path, files);
            continue;
        }
        println!("cargo::rerun-if-changed={}", path.display());
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.strip_prefix(root).expect("collected below root");
        let name = name
            .to_str()
            .expect("names in dist are UTF-8")
            .replace('\\', "/");
        files.insert(name, bytes);
    }
}

fn render(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut table = String::from("&[\n");
    for (name, bytes) in files {
        if name.ends_with(".gz") {
            continue;
        }
        let gzip = include(&format!("{name}.gz"));
        let content_type = content_type(name);
        let tag = fnv1a(bytes);
        // The build puts a hash of the content into the names below assets/.
        let immutable = name.starts_with("assets/");
        writeln!(
            table,
            "    Asset {{ path: {path:?}, gzip: {gzip}, content_type: {content_type:?}, \
             etag: \"W/\\\"{tag:016x}\\\"\", immutable: {immutable} }},",
            path = format!("/{name}"),
        )
        .expect("writing to a String succeeds");
    }
    table.push(']');
    table
}

fn include(name: &str) -> String {
    let path = format!("/dist/{name}");
    format!("include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))")
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json" | "webmanifest") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => panic!("dist/{name}: no content type is known for it; add one in build.rs"),
    }
}

/// 64 bits of FNV-1a: tells versions of one file apart; nobody gains by forging one.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
