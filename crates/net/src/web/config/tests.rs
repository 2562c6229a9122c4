//! Tests of durations. Files are tested with the servers in `tests/it`.

use super::*;

#[test]
fn durations_are_gos() {
    for (text, millis) in [
        ("0", 0),
        ("1000000", 1),
        ("1s", 1000),
        ("1m30s", 90_000),
        ("1.5h", 5_400_000),
        ("100ms", 100),
        ("+2s", 2000),
    ] {
        let got = go_duration(text).expect(text);
        assert_eq!(got, Duration::from_millis(millis), "{text}");
    }
    for bad in ["", "s", "-1s", "1x", "1s2", "1.2.3s"] {
        assert!(go_duration(bad).is_err(), "{bad}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let text = "tls_server_config: {cert: c, key: hush}\n";
    let config = WebConfig::parse(text, Path::new("web.yml")).expect("readable");
    assert!(!format!("{config:?}").contains("hush"));
}
