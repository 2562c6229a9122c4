//! Tests of parsing, rejecting and resolving URLs.

use super::Url;

fn parse(text: &str) -> Url {
    Url::parse(text).expect(text)
}

#[test]
fn parts_are_found() {
    for (text, host, port, authority, path) in [
        ("http://h", "h", 80, "h", "/"),
        (
            "http://h:9090/metrics?a=b&c",
            "h",
            9090,
            "h:9090",
            "/metrics?a=b&c",
        ),
        (
            "HTTP://Node-1.Example_x:81?q",
            "node-1.example_x",
            81,
            "node-1.example_x:81",
            "/?q",
        ),
        ("http://[::1]:9100/m#frag", "::1", 9100, "[::1]:9100", "/m"),
        ("http://[FE80::1]", "fe80::1", 80, "[fe80::1]", "/"),
        ("http://10.0.0.1:/", "10.0.0.1", 80, "10.0.0.1:", "/"),
        ("http://h/ä b\"", "h", 80, "h", "/%C3%A4%20b\""),
        ("http://h/a%20b/../c", "h", 80, "h", "/a%20b/../c"),
    ] {
        let url = parse(text);
        assert_eq!(
            (
                url.host(),
                url.port(),
                url.authority(),
                url.path_and_query()
            ),
            (host, port, authority, path),
            "{text}"
        );
        assert_eq!(url.as_str(), format!("http://{authority}{path}"));
    }
}

#[test]
fn refused_with_a_reason() {
    for (text, reason) in [
        ("", "no scheme (want http://host/path)"),
        ("localhost:9090", "no scheme (want http://host/path)"),
        ("ftp://h/", "unsupported scheme (want http or https)"),
        ("http://", "no host"),
        ("http:///path", "no host"),
        ("http://:9090/", "no host"),
        ("http://h:0/", "invalid port"),
        ("http://h:65536/", "invalid port"),
        ("http://h:+80/", "invalid port"),
        ("http://h:8080x/", "invalid port"),
        ("http://::1/", "no host"),
        ("http://fe80::1/", "invalid port"),
        ("http://[::1/", "missing ']' in host"),
        ("http://[1.2.3.4]/", "not an IPv6 address between brackets"),
        ("http://[::1]x/", "text after the host"),
        ("http://h /", "invalid character in host"),
        ("http://bücher/", "invalid character in host"),
        ("http://h/\r\nX: y", "control character in URL"),
        ("http://h/\u{7f}", "control character in URL"),
    ] {
        let error = Url::parse(text).expect_err(text);
        assert_eq!(error.to_string(), format!("invalid URL {text:?}: {reason}"));
    }
    let error = Url::parse("http://user:pass@h/").expect_err("credentials");
    assert_eq!(
        error.to_string(),
        "invalid URL \"http://xxxxx@h/\": credentials in a URL are not supported"
    );
    let long = format!("http://h/{}", "x".repeat(70_000));
    let error = Url::parse(&long).expect_err("too long").to_string();
    assert!(
        error.ends_with("longer than 65536 bytes") && error.len() < 300,
        "{error}"
    );
}

/// The cases of RFC 3986 §5.4 that can occur in a `Location`.
#[test]
fn references_resolve() {
    let base = parse("http://a:8/b/c/d;p?q");
    for (reference, want) in [
        ("http://other/x", "http://other/x"),
        ("//g:1/x", "http://g:1/x"),
        ("g", "http://a:8/b/c/g"),
        ("./g", "http://a:8/b/c/g"),
        ("g/", "http://a:8/b/c/g/"),
        ("/g", "http://a:8/g"),
        ("?y", "http://a:8/b/c/d;p?y"),
        ("g?y", "http://a:8/b/c/g?y"),
        ("#s", "http://a:8/b/c/d;p?q"),
        ("g#s", "http://a:8/b/c/g"),
        ("g;x=1/./y", "http://a:8/b/c/g;x=1/y"),
        ("", "http://a:8/b/c/d;p?q"),
        (".", "http://a:8/b/c/"),
        ("..", "http://a:8/b/"),
        ("../g", "http://a:8/b/g"),
        ("../..", "http://a:8/"),
        ("../../../g", "http://a:8/g"),
        ("/./g", "http://a:8/g"),
        ("/g/../../h", "http://a:8/h"),
        ("g?y=/../x", "http://a:8/b/c/g?y=/../x"),
        (" /trimmed ", "http://a:8/trimmed"),
    ] {
        assert_eq!(
            base.join(reference).expect(reference).as_str(),
            want,
            "{reference:?}"
        );
    }
    assert_eq!(
        base.join("https://a").expect("encrypted").as_str(),
        "https://a/"
    );
    let encrypted = parse("https://h/x");
    assert_eq!((encrypted.port(), encrypted.origin()), (443, "https://h"));
    assert_eq!(
        encrypted.join("//a/y").expect("relative").as_str(),
        "https://a/y"
    );
    assert_eq!(
        encrypted.join("y").expect("relative").as_str(),
        "https://h/y"
    );
    assert!(base.join("/a\nb").is_err());
}
