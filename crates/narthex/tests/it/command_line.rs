//! Features of the command line itself: files of arguments, paths of any bytes, completion, manual pages, the
//! reference.

use crate::support::{self, PATIENCE, Running};
use narthex_testkit::{TempDir, process::Spawn, workspace_root};
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _};

/// Bytes that are not UTF-8 were refused, and before that replaced, which names another directory.
#[test]
fn a_path_may_be_any_bytes() {
    let dir = TempDir::new("not-utf-8");
    let flag = |name: &str| [name.as_bytes(), dir.path().as_os_str().as_bytes(), b"/\xff"].concat();
    let server = Running::of(
        support::narthex()
            .args(["server", "--web.listen-address=127.0.0.1:0"])
            .arg(OsStr::from_bytes(&flag("--storage.tsdb.path="))),
    );
    assert!(dir.path().join(OsStr::from_bytes(b"\xff")).is_dir());
    server.stop();
    let finished = support::narthex()
        .arg("server")
        .arg(OsStr::from_bytes(&flag("--log.level=")))
        .run(PATIENCE);
    let said = finished.stderr;
    assert_eq!(finished.exit.code, Some(2), "{said}");
    assert!(
        said.starts_with("narthex: error: flag '--log.level': not UTF-8: "),
        "{said}"
    );
}

#[test]
fn arguments_are_read_from_files() {
    let dir = TempDir::new("argument-file");
    let (flags, more) = (dir.join("flags"), dir.join("more"));
    let data = dir.join("data");
    let text = format!(
        "# flags of a server\n--web.listen-address=127.0.0.1:0\n@{}\n",
        more.display()
    );
    fs::write(&flags, text).unwrap();
    fs::write(&more, format!("--storage.tsdb.path\n{}\n", data.display())).unwrap();
    let file = format!("@{}", flags.display());
    let server = Running::of(support::narthex().args(["server", &file]));
    assert!(data.is_dir());
    server.stop();
    fs::write(&more, file.as_bytes()).unwrap();
    let finished = support::narthex().args(["server", &file]).run(PATIENCE);
    assert_eq!(finished.exit.code, Some(2));
    assert!(
        finished.stderr.contains("too many files of arguments"),
        "{}",
        finished.stderr
    );
}

/// bash splits the words its own way, and the candidate replaces only the last one.
#[test]
fn bash_completes_commands_flags_values_and_paths() {
    const SCRIPT: &str = r#"
        source <("$NARTHEX" completion bash) || exit 1
        complete -p narthex
        try() {
            COMP_WORDS=("$NARTHEX" "$@") COMP_CWORD=$# COMPREPLY=()
            _narthex
            printf '%s: %s\n' "$*" "${COMPREPLY[*]}"
        }
        try se
        try check conf
        try completion ba
        try server --storage.tsdb.pa
        try server --no-web.enable-l
        try server --web.enable-l
        try server --log.level = de
        try server --log.level =
        try server --log.level deb
        try server --config.file = "$DIR/pro"
        try server --config.file = "$DIR/a:" b
        try server --storage.tsdb.path "$DIR/"
        try check config "$DIR/p"
        COMP_WORDBREAKS=' '
        try server --log.level=wa
        try server --config.file="$DIR/pro"
    "#;
    let dir = TempDir::new("completion");
    fs::write(dir.join("prometheus.yml"), "").unwrap();
    fs::write(dir.join("a:b.yml"), "").unwrap();
    fs::create_dir(dir.join("data")).unwrap();
    let binary = std::env::var("NARTHEX_BINARY")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_narthex").to_owned());
    let finished = Spawn::new("bash")
        .args(["--norc", "-c", SCRIPT])
        .env("NARTHEX", binary)
        .env("DIR", dir.path())
        .run(PATIENCE);
    let expected = "complete -F _narthex narthex
se: server segment
check conf: config
completion ba: bash
server --storage.tsdb.pa: --storage.tsdb.path=
server --no-web.enable-l:\u{20}
server --web.enable-l: --web.enable-lifecycle
server --log.level = de: debug
server --log.level =: debug info warn error
server --log.level deb: debug
server --config.file = DIR/pro: DIR/prometheus.yml
server --config.file = DIR/a: b: b.yml
server --storage.tsdb.path DIR/: DIR/data
check config DIR/p: DIR/prometheus.yml
server --log.level=wa: --log.level=warn
server --config.file=DIR/pro: --config.file=DIR/prometheus.yml
";
    let found = finished
        .stdout
        .replace(&dir.path().display().to_string(), "DIR");
    assert_eq!(found, expected, "{}", finished.stderr);
}

#[test]
fn the_reference_is_what_the_program_prints() {
    let printed = support::narthex().arg("--reference").run(PATIENCE).stdout;
    let committed = fs::read_to_string(workspace_root().join("docs/cli.md")).unwrap();
    assert_eq!(printed, committed, "stale: run `cargo xtask gen-docs`");
    for (line, shown) in [
        (
            ["man", "server"],
            ".B \\-\\-web.listen\\-address=0.0.0.0:9090 ...\n",
        ),
        (["server", "--help-man"], ".TH \"NARTHEX\\-SERVER\" 1"),
        (["completion", "zsh"], "compdef _narthex narthex"),
        (["completion", "fish"], "complete -c narthex -f"),
    ] {
        let finished = support::narthex().args(line).run(PATIENCE);
        assert!(
            finished.stdout.contains(shown),
            "{line:?}: {}",
            finished.stdout
        );
    }
}
