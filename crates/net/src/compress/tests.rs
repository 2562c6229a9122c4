//! Tests of which types are compressed.

use super::*;

#[test]
fn texts_are_compressible() {
    let with =
        |kind: &'static str| HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
    for kind in [
        "text/plain; version=0.0.4",
        "application/json",
        "Application/JSON;x",
        "image/svg+xml",
        "application/openmetrics-text; version=1.0.0",
        "text/javascript",
    ] {
        assert!(is_compressible(&with(kind)), "{kind}");
    }
    for kind in [
        "",
        "image/png",
        "text/event-stream",
        "font/woff2",
        "application/x-protobuf",
    ] {
        assert!(!is_compressible(&with(kind)), "{kind}");
    }
    let mut done = with("text/plain");
    done.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert!(!is_compressible(&done));
}
