//! Tests of `recorder`.

use super::*;

#[test]
fn a_target_is_a_url_with_or_without_a_name() {
    let target = |name: &str, url: &str| {
        Ok(Target {
            name: name.to_owned(),
            url: url.to_owned(),
        })
    };
    let metrics = "http://127.0.0.1:9100/metrics";
    assert_eq!(
        Target::parse("node=http://127.0.0.1:9100", 0),
        target("node", metrics)
    );
    assert_eq!(Target::parse(metrics, 3), target("target-3", metrics));
    let query = "http://127.0.0.1:1/x?a=b";
    assert_eq!(Target::parse(query, 1), target("target-1", query));
    for text in [
        "node=https://a",
        "a b=http://c",
        "=http://c",
        "127.0.0.1:9100",
    ] {
        assert!(Target::parse(text, 0).is_err(), "{text}");
    }
}
