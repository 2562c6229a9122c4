//! Tests of `NO_PROXY` and of proxy URLs.

use super::*;

#[test]
fn exemptions_are_gos() {
    let list = "a.example, .b.example,*.c.example:81,10.0.0.0/8,192.168.1.1,[fe80::1]:80,fd00::/8";
    let parsed = NoProxy::parse(list);
    for (host, port, want) in [
        ("a.example", 80, true),
        ("x.a.example", 80, true),
        ("xa.example", 80, false),
        ("b.example", 80, false),
        ("x.b.example", 80, true),
        ("x.c.example", 81, true),
        ("x.c.example", 80, false),
        ("10.255.0.1", 443, true),
        ("11.0.0.1", 443, false),
        ("192.168.1.1", 1, true),
        ("192.168.1.2", 1, false),
        ("fe80::1", 80, true),
        ("fe80::1", 81, false),
        ("fd00::5", 81, true),
        ("localhost", 80, true),
        ("127.1.2.3", 80, true),
        ("::1", 80, true),
        ("a.example.", 80, false),
        ("d.example", 80, false),
    ] {
        assert_eq!(parsed.matches(host, port), want, "{host}:{port}");
    }
    assert!(NoProxy::parse("x,*").matches("anything", 1));
    assert!(!NoProxy::parse("").matches("anything", 1));
}

#[test]
fn urls_are_parsed_and_shown_without_passwords() {
    let proxy = ProxyUrl::parse("http://us%65r:p%3Aw@Proxy:3128").expect("a proxy");
    assert_eq!(proxy.authorization(), Some("Basic dXNlcjpwOnc="));
    assert_eq!(proxy.to_string(), "http://user:xxxxx@proxy:3128/");
    assert_eq!(format!("{proxy:?}"), "\"http://user:xxxxx@proxy:3128/\"");
    let plain = ProxyUrl::parse("https://proxy").expect("a proxy");
    assert_eq!((plain.authorization(), plain.url().port()), (None, 443));
    for bad in ["proxy:3128", "socks5://proxy", "http://", "http://u:%g@h"] {
        assert!(ProxyUrl::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_environment_is_read_as_go_reads_it() {
    let set = |pairs: &'static [(&'static str, &'static str)]| {
        ProxyEnvironment::read(|name| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    };
    let http = |environment: &ProxyEnvironment| {
        let named = environment.http.clone().transpose().expect("usable");
        named.as_ref().map(ToString::to_string)
    };
    assert_eq!(http(&set(&[])), None);
    assert_eq!(
        http(&set(&[
            ("http_proxy", "proxy:1"),
            ("HTTP_PROXY", "http://upper:2")
        ])),
        Some("http://upper:2/".to_owned())
    );
    assert_eq!(
        http(&set(&[("http_proxy", "proxy:1")])),
        Some("http://proxy:1/".to_owned())
    );
    let cgi = set(&[("HTTP_PROXY", "http://evil:2"), ("REQUEST_METHOD", "GET")]);
    assert_eq!(http(&cgi), None);
    let unusable = set(&[("HTTPS_PROXY", "socks5://x")]);
    let proxies = |from_environment| {
        let config = ProxyConfig {
            from_environment,
            ..ProxyConfig::default()
        };
        Proxies::new(&config, &unusable)
    };
    assert!(matches!(proxies(false), Ok(None)), "nobody asks for it");
    let error = proxies(true).expect_err("it is asked for").to_string();
    assert!(error.contains("HTTPS_PROXY: "), "{error}");
}
