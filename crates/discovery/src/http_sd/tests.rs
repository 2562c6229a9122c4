//! Content types.

use super::is_json;

#[test]
fn json_is_told_from_the_rest() {
    for good in [
        "application/json",
        " Application/JSON ",
        "application/json;charset=utf-8",
        "application/json; charset=\"utf-8\"",
        "application/json; CHARSET=UTF-8",
    ] {
        assert!(is_json(good), "{good}");
    }
    for bad in [
        "",
        "text/plain",
        "text/json",
        "application/json;",
        "application/json; charset=latin1",
        "application/json; charset=utf-8; x=y",
        "application/jsonx",
    ] {
        assert!(!is_json(bad), "{bad}");
    }
}
