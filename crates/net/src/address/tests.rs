//! Tests of listen addresses in Go's syntax.

use super::{ListenHost, parse_listen};

#[test]
fn forms_of_go_are_taken() {
    let ip = |text: &str| ListenHost::Ip(text.parse().expect(text));
    for (address, host, port) in [
        (":9090", ListenHost::Any, 9090),
        ("0.0.0.0:9090", ip("0.0.0.0"), 9090),
        ("127.0.0.1:0", ip("127.0.0.1"), 0),
        ("[::1]:65535", ip("::1"), 65535),
        ("[::]:80", ip("::"), 80),
        (
            "localhost:9090",
            ListenHost::Name("localhost".to_owned()),
            9090,
        ),
        (
            " node-1.example_x:1 ",
            ListenHost::Name("node-1.example_x".to_owned()),
            1,
        ),
    ] {
        assert_eq!(
            parse_listen(address).expect(address),
            (host, port),
            "{address}"
        );
    }
}

#[test]
fn anything_else_is_refused_with_a_reason() {
    for (address, reason) in [
        ("", "missing port in address"),
        ("9090", "missing port in address"),
        ("localhost", "missing port in address"),
        ("localhost:", "missing port in address"),
        ("[::1]", "missing port in address"),
        ("[::1", "missing ']' in address"),
        ("[localhost]:1", "not an IPv6 address"),
        (
            "::1:9090",
            "too many colons in address (IPv6 needs brackets)",
        ),
        (":65536", "the port is not a number from 0 to 65535"),
        (":-1", "the port is not a number from 0 to 65535"),
        (":http", "the port is not a number from 0 to 65535"),
        (
            "http://x:80",
            "too many colons in address (IPv6 needs brackets)",
        ),
        ("a/b:80", "neither a host name nor an IP address"),
    ] {
        let error = parse_listen(address).expect_err(address);
        assert_eq!(
            error.to_string(),
            format!("cannot listen on {address:?}: {reason}")
        );
    }
}
