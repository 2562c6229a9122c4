//! Tests of `target`.

use super::*;

#[test]
fn a_url_is_an_address_a_host_and_a_path() {
    let target = Target::parse("http://127.0.0.1:9090/a?b=c", false).unwrap();
    assert_eq!(target.address, "127.0.0.1:9090".parse().unwrap());
    assert_eq!(
        (target.host.as_str(), target.path.as_str()),
        ("127.0.0.1:9090", "/a?b=c")
    );
    let request = String::from_utf8(target.request()).unwrap();
    assert!(request.starts_with("GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:9090\r\n"));
    let target = Target::parse("http://127.0.0.1", false).unwrap();
    assert_eq!((target.address.port(), target.path.as_str()), (80, "/"));
    let target = Target::parse("http://[::1]:80/", false).unwrap();
    assert!(target.address.ip().is_loopback());
}

#[test]
fn other_machines_are_loaded_only_when_that_is_said() {
    let error = Target::parse("http://192.0.2.1:80/", false).unwrap_err();
    assert!(error.contains("--allow-remote"), "{error}");
    assert!(Target::parse("http://192.0.2.1:80/", true).is_ok());
    for url in [
        "https://127.0.0.1/",
        "127.0.0.1",
        "http:///x",
        "http://127.0.0.1?x",
        "http://127.0.0.1/a b",
    ] {
        let error = Target::parse(url, true).unwrap_err();
        assert!(error.contains("is not an http:// URL"), "{error}");
    }
}
