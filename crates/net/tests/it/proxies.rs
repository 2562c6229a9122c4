//! Compares the environment's proxy for a URL with Go's answer.

use narthex_net::{ProxyEnvironment, Url};
use narthex_testkit::{LineServer, go_program, rng::SplitMix64, scaled};
use serde_json::{Value, json};

/// Names for the entries of `NO_PROXY`.
const NAMES: [&str; 18] = [
    "a.example",
    ".a.example",
    "*.a.example",
    "*a.example",
    "example",
    "localhost",
    "10.0.0.0/8",
    "10.1.2.3",
    "0.0.0.0/0",
    "fd00::/8",
    "fd00::1",
    "[fd00::1]",
    "::ffff:10.1.2.3",
    "300.0.0.0/8",
    "10.0.0.0/33",
    ".",
    "A.Example",
    "",
];
const PORTS: [&str; 9] = ["", "", "", ":", ":80", ":080", ":8080", ":x", ":1:2"];
const HOSTS: [&str; 16] = [
    "a.example",
    "b.a.example",
    "ba.example",
    "a.example.",
    "b.example",
    "example",
    "localhost",
    "sub.localhost",
    "127.0.0.1",
    "127.8.9.1",
    "[::1]",
    "10.1.2.3",
    "11.1.2.3",
    "[fd00::1]",
    "[fe00::1]",
    "[::ffff:10.1.2.3]",
];
const URL_PORTS: [&str; 4] = ["", ":80", ":8080", ":443"];
const PROXIES: [&str; 5] = [
    "",
    "proxy:3128",
    "http://proxy",
    "https://p:1",
    "10.9.9.9:1",
];

fn ours(question: &Value) -> String {
    let text = |key: &str| question[key].as_str().unwrap().to_owned();
    let environment = ProxyEnvironment::read(|name| match name {
        "HTTP_PROXY" => Some(text("http")),
        "https_proxy" => Some(text("https")),
        "NO_PROXY" => Some(text("no_proxy")),
        _ => None,
    });
    let url = Url::parse(&text("url")).unwrap();
    let proxy = environment.proxy_of(&url).unwrap();
    proxy.map_or_else(String::new, |proxy| {
        proxy.to_string().trim_end_matches('/').to_owned()
    })
}

#[test]
fn the_environment_decides_as_in_go() {
    let mut go = LineServer::start_with(&go_program("gopeer"), &["proxies"]);
    let mut rng = SplitMix64::new(7);
    let (mut through, cases) = (0, scaled(4000));
    for _ in 0..cases {
        let mut pick = |from: &[&'static str]| *rng.pick(from);
        let entries: Vec<String> = (0..3)
            .map(|_| format!("{}{}", pick(&NAMES), pick(&PORTS)))
            .collect();
        let no_proxy = entries.join(", ");
        let scheme = pick(&["http", "https"]);
        let question = json!({
            "http": pick(&PROXIES),
            "https": pick(&PROXIES),
            "no_proxy": no_proxy,
            "url": format!("{scheme}://{}{}/", pick(&HOSTS), pick(&URL_PORTS)),
        });
        let answer: Value = serde_json::from_str(&go.ask(&question.to_string())).unwrap();
        assert_eq!(answer["proxy"], ours(&question), "{question} {answer}");
        through += u64::from(answer["proxy"] != "");
    }
    assert!(through > cases / 10, "{through} of {cases} through a proxy");
}
