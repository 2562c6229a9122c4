//! Command lines that are accepted or rejected.

use super::{command::PROGRAM, *};
use narthex_cli::{Bytes, Class, UsageError};
use std::{ffi::OsString, time::Duration};

fn call(arguments: &[&str]) -> Result<Invocation, UsageError> {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    dispatch(&arguments)
}

fn server(arguments: &[&str]) -> Result<ServerOptions, UsageError> {
    match call(&[&["narthex", "server"], arguments].concat())? {
        Invocation::Server(options) => Ok(*options),
        other => panic!("{other:?}"),
    }
}

fn refused(arguments: &[&str]) -> String {
    server(arguments).unwrap_err().to_string()
}

#[test]
fn defaults_are_prometheus_except_for_the_address_without_a_file() {
    let options = server(&[]).unwrap();
    assert_eq!(options.listen_addresses, ["127.0.0.1:9090"]);
    assert_eq!(
        (options.lookback_delta, options.max_concurrency),
        (Duration::from_secs(300), 20)
    );
    assert_eq!(options.storage_path.to_str(), Some("data/"));
    assert_eq!(
        server(&["--config.file=x"]).unwrap().listen_addresses,
        ["0.0.0.0:9090"]
    );
}

#[test]
fn every_way_of_writing_a_flag_is_taken() {
    let options = server(&[
        "--web.listen-address",
        "a:1",
        "-web.listen-address=b:2",
        "--web.enable-lifecycle",
        "--storage.tsdb.retention.time=30d",
        "--enable-feature=x, y",
        "--storage.tsdb.retention.size",
        "2GB",
        "--no-storage.tsdb.wal-compression",
    ])
    .unwrap();
    assert_eq!(options.listen_addresses, ["a:1", "b:2"]);
    assert!(options.enable_lifecycle);
    assert!(
        !server(&["--no-web.enable-lifecycle"])
            .unwrap()
            .enable_lifecycle
    );
    assert_eq!(options.retention, Some(Duration::from_secs(30 * 86_400)));
    assert_eq!(options.retention_bytes, Some(Bytes(2 << 30)));
    assert_eq!(options.features.0, ["x", "y"]);
    assert_eq!(options.values.without_effect.len(), 1);
    assert_eq!(options.rules_at_once(), 0);
    let features = "--enable-feature=x, concurrent-rule-eval";
    let options = server(&[features, "--rules.max-concurrent-evals=7"]).unwrap();
    assert_eq!(options.rules_at_once(), 7);
    assert_eq!(options.idle_features().collect::<Vec<_>>(), [("x", None)]);
    let features = "--enable-feature=auto-reload-config,promql-unquoted-utf8-names";
    let options = server(&[features]).unwrap();
    assert_eq!(options.auto_reload(), Some(Duration::from_secs(30)));
    assert!(options.query_language().unquoted_utf8_names);
}

#[test]
fn mistakes_are_named() {
    assert_eq!(
        refused(&["--web.listen-addres=x"]),
        "unknown long flag '--web.listen-addres'; did you mean '--web.listen-address'?"
    );
    assert_eq!(refused(&["--nonsense"]), "unknown long flag '--nonsense'");
    assert_eq!(
        refused(&["--config.file"]),
        "expected argument for flag '--config.file'"
    );
    assert_eq!(
        refused(&["--query.timeout=5x"]),
        "flag '--query.timeout': not a valid duration string: \"5x\""
    );
    assert_eq!(
        refused(&["--query.max-samples=-1"]),
        "flag '--query.max-samples': not a whole number, 0 or more: \"-1\""
    );
    assert_eq!(
        refused(&["--log.level=a", "--log.level=b"]),
        "flag '--log.level' cannot be repeated"
    );
    assert!(server(&["--no-agent"]).is_ok());
    assert_eq!(refused(&["x"]), "unexpected \"x\"");
}

#[test]
fn an_agent_takes_its_own_flags_only() {
    let agent = |arguments: &[&str]| match call(arguments)? {
        Invocation::Agent(options) => Ok::<_, UsageError>(*options),
        other => panic!("{other:?}"),
    };
    let plain = agent(&["narthex", "agent", "--config.file=x"]).unwrap();
    assert_eq!(plain.storage_path.to_str(), Some("data-agent/"));
    let drop_in = [
        "prometheus",
        "--agent",
        "--config.file=x",
        "--storage.agent.path=d",
        "--storage.agent.retention.max-time=4h",
        "--storage.remote.flush-deadline=5s",
    ];
    let options = agent(&drop_in).unwrap();
    assert!(options.is_agent);
    assert_eq!(options.storage_path.to_str(), Some("d"));
    assert_eq!(options.flush_deadline, Duration::from_secs(5));
    assert_eq!(options.values.without_effect.len(), 1);
    for flag in [
        "storage.tsdb.path",
        "query.timeout",
        "rules.alert.resend-delay",
    ] {
        let line = ["narthex", "agent", &format!("--{flag}=1m")];
        assert_eq!(
            agent(&line).unwrap_err().to_string(),
            format!("flag '--{flag}' is not supported: it can not be used in agent mode")
        );
    }
    assert_eq!(
        refused(&["--storage.agent.path=x"]),
        "flag '--storage.agent.path' is not supported: it can only be used in agent mode"
    );
}

#[test]
fn the_declarations_are_sound() {
    for command in PROGRAM.commands {
        let flags: Vec<_> = command.flags.concat();
        for flag in &flags {
            let same = flags.iter().filter(|other| other.name == flag.name);
            assert_eq!(same.count(), 1, "{} is declared once", flag.name);
            assert!(
                flag.class != Class::Honoured || flag.help.ends_with('.'),
                "{} has a sentence of help",
                flag.name
            );
        }
        // Checks that defaults are valid for their flags' types.
        let words = command.name.split(' ');
        let places = flags.iter().filter(|flag| flag.is_positional);
        let needed = match command.name {
            "push" => &["--job=x"][..],
            "query series" => &["--match=x"],
            "query analyze" => &["--server=x", "--type=histogram", "--match=x"],
            name if name.starts_with("tsdb ") => &["--start=1"],
            _ => &[],
        };
        let line: Vec<&str> = std::iter::once("narthex")
            .chain(words)
            .chain(needed.iter().copied())
            .chain(places.map(|flag| if flag.name == "state" { "on" } else { "x" }))
            .collect();
        assert!(call(&line).is_ok(), "{line:?}");
    }
}

#[test]
fn the_name_the_program_is_called_by_chooses_the_command() {
    assert!(matches!(
        call(&["/usr/bin/prometheus", "--log.level=warn"]),
        Ok(Invocation::Server(_))
    ));
    assert!(matches!(
        call(&["narthex", "server"]),
        Ok(Invocation::Server(_))
    ));
    assert!(matches!(call(&["narthex"]), Ok(Invocation::Print(text)) if text.contains("server")));
    for name in ["narthex", "promtool"] {
        let list = call(&[name, "check"]);
        assert!(matches!(list, Ok(Invocation::Print(text)) if text.contains("  check config [")));
    }
    for words in ["tsdb backfill rules", "tsdb create-blocks-from rules"] {
        let line = ["promtool"].into_iter().chain(words.split(' '));
        let line: Vec<&str> = line.chain(["--start=1", "x"]).collect();
        assert!(matches!(call(&line), Ok(Invocation::Backfill(_))));
    }
    assert!(
        matches!(call(&["narthex", "server", "--help"]), Ok(Invocation::Print(text)) if text.contains("--config.file"))
    );
    assert!(matches!(
        call(&["narthex", "serve"]),
        Err(UsageError::Command { .. })
    ));
}
