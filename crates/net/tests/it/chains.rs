//! Compares verdicts on certificate chains with Go's on the same bytes.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use narthex_net::fuzz::judge_chain;
use narthex_testkit::{go_program, process::Spawn};
use serde_json::Value;

use crate::support::PATIENCE;

/// Returns the kind of Go's and our errors.
fn kind_of(verdict: Result<(), String>) -> &'static str {
    let Err(reason) = verdict else {
        return "";
    };
    let kinds = [
        ("signed by unknown authority", "unknown"),
        ("Unknown", "unknown"),
        ("incompatible key usage", "usage"),
        ("Usage", "usage"),
        ("not authorized to sign for this name", "names"),
        ("Names", "names"),
        ("has expired or is not yet valid", "time"),
        ("Early", "time"),
        ("Late", "time"),
        ("unhandled critical extension", "critical"),
        ("Critical", "critical"),
        ("is not valid for any names", "host"),
        ("certificate is valid for ", "host"),
        ("doesn't contain any IP SANs", "host"),
        ("relies on legacy Common Name", "host"),
    ];
    let known = kinds.iter().find(|(text, _)| reason.contains(text));
    known.map_or_else(|| panic!("{reason}"), |(_, kind)| kind)
}

fn ders(list: &Value) -> Vec<Vec<u8>> {
    let der = |text: &Value| BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap();
    list.as_array().unwrap().iter().map(der).collect()
}

/// Regression: an authority for mail only, one beyond its path length and one that may not sign certificates were
/// accepted for servers if the server's certificate was a CA certificate.
#[test]
fn chains_are_judged_as_go_judges_them() {
    let made = Spawn::new(go_program("gopeer"))
        .args(["chains"])
        .run(PATIENCE);
    assert_eq!(made.exit.code, Some(0), "{}", made.stderr);
    let mut complaints = Vec::new();
    let mut counts = [0, 0];
    for line in made.stdout.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (roots, chain) = (ders(&case["roots"]), ders(&case["chain"]));
        let (roots, chain): (Vec<&[u8]>, Vec<&[u8]>) = (
            roots.iter().map(Vec::as_slice).collect(),
            chain.iter().map(Vec::as_slice).collect(),
        );
        let host = case["host"].as_str().unwrap();
        // In the form in which a URL's host reaches the handshake.
        let host = host.trim_end_matches('.');
        let client = case["client"].as_bool().unwrap();
        let now = case["now"].as_u64().unwrap();
        let ours = judge_chain(&roots, &chain, host, client, now);
        counts[usize::from(ours.is_ok())] += 1;
        let (shown, kind) = (format!("{ours:?}"), kind_of(ours));
        if case["kind"] != kind {
            let theirs = (&case["kind"], &case["error"]);
            complaints.push(format!("{}: {theirs:?}, ours {shown}", case["name"]));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(counts.iter().all(|count| *count >= 30), "{counts:?}");
}
