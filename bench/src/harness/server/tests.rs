//! Tests of `server`.

use super::*;

fn prometheus() -> ServerKind {
    let text = "{name: prometheus, program: prometheus-of-nobody, package: prometheus, ready: /ready, \
                arguments: ['--config.file={config}', '--listen={listen}'], config: \"a {scrape} in {dir}\\n\"}";
    serde_saphyr::from_str(text).unwrap()
}

fn chosen(arguments: &[&str]) -> Result<(Vec<ServerSpec>, Vec<String>), BenchError> {
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    let values = Values::parse("storage", &[Servers::FLAGS], &arguments).unwrap();
    ServerSpec::of_kinds(&values, [prometheus()])
}

#[test]
fn a_server_is_a_preset_a_label_and_a_program() {
    let (servers, notes) = chosen(&["--server=prometheus@old=/bin/sh"]).unwrap();
    assert_eq!(servers[0].label, "prometheus@old");
    assert_eq!(servers[0].kind.name, "prometheus");
    assert!(notes.is_empty());
    let subject = servers[0].subject();
    assert_eq!(
        subject.command,
        "prometheus-of-nobody --config.file={config} --listen={listen}"
    );
    let hint = "prometheus is not installed: install Debian's package prometheus, or name it with \
                --server prometheus=PATH";
    for (arguments, reason) in [
        (&["--server=prometheus"][..], format!("--server: {hint}")),
        (&[], format!("there is no server to measure: {hint}")),
        (
            &["--server=influx=/bin/sh"],
            "--server: \"influx\" is none of prometheus".to_owned(),
        ),
        (
            &["--server=prometheus=/nowhere"],
            "--server: /nowhere: No such file or directory (os error 2)".to_owned(),
        ),
        (
            &[
                "--server=prometheus=/bin/sh",
                "--server=prometheus=/bin/cat",
            ],
            "--server: two are called prometheus; use prometheus@other=PATH".to_owned(),
        ),
    ] {
        assert_eq!(chosen(arguments).unwrap_err().to_string(), reason);
    }
}

#[test]
fn a_version_that_is_not_said_is_the_packages() {
    let version = |path: &str| {
        let (servers, _) = chosen(&[&format!("--server=prometheus={path}")]).unwrap();
        servers[0].subject().version
    };
    let packaged = version("/usr/bin/false");
    assert!(packaged.starts_with("Debian's package "), "{packaged}");
    assert_eq!(version("/proc/self/exe"), "of unknown version");
}

#[test]
fn a_server_that_ends_shows_its_output_and_has_its_configuration() {
    // The output of cat for a server's arguments.
    let (servers, _) = chosen(&["--server=prometheus@cat=/bin/cat"]).unwrap();
    let base = std::env::temp_dir();
    let mut server = RunningServer::start(&servers[0], &base, &[("scrape", "b")]).unwrap();
    let config = fs::read_to_string(server.dir.path().join(CONFIG)).unwrap();
    assert_eq!(config, format!("a b in {}\n", server.dir.path().display()));
    assert!(server.url("/x").starts_with("http://127.0.0.1:"));
    let error = server
        .wait_ready(Duration::from_secs(10))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("prometheus@cat ended (exit status: 1)"),
        "{error}"
    );
    assert!(error.contains("config.file"), "{error}");
}
