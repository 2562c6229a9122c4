//! `proxy_from_environment`: which requests go through the proxy named in the environment.

use crate::{
    support::{self, PATIENCE, Running, until},
    target::Target,
};
use narthex_testkit::{TempDir, process::Spawn};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// A proxy that answers requests itself and records them.
struct Proxy {
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy; `answer` returns the body for a request line, or `None` to refuse it.
    fn start(answer: impl Fn(&str) -> Option<(&'static str, String)> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped) = (Arc::clone(&heads), Arc::clone(&stop));
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let Some(head) = read_request(&stream) else {
                    continue;
                };
                let reply = match answer(head.lines().next().unwrap_or_default()) {
                    Some((kind, body)) => format!(
                        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    ),
                    None => {
                        "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                            .to_owned()
                    }
                };
                kept.lock().unwrap().push(head);
                // A client that has left does not need the response.
                let _ = (&stream).write_all(reply.as_bytes());
            }
        });
        Self {
            address,
            heads,
            stop,
            accepting: Some(accepting),
        }
    }

    /// Waits for a request with this beginning and returns its head.
    fn wait_head(&self, begin: &str) -> String {
        until(begin, || {
            let heads = self.heads.lock().unwrap();
            heads.iter().find(|head| head.starts_with(begin)).cloned()
        })
    }

    fn saw(&self, part: &str) -> bool {
        let heads = self.heads.lock().unwrap();
        heads.iter().any(|head| head.contains(part))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        drop(TcpStream::connect(&self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Reads a request with its body; returns the head.
fn read_request(stream: &TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let here = name.eq_ignore_ascii_case("content-length");
        here.then(|| value.trim().parse::<u64>().ok())?
    });
    let mut body = Vec::new();
    reader
        .take(length.unwrap_or(0))
        .read_to_end(&mut body)
        .ok()?;
    Some(head)
}

/// Sets proxy variables, after removing those of the machine.
fn with_environment(spawn: Spawn, set: &[(&str, &str)]) -> Spawn {
    let names = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    ];
    names.iter().fold(spawn, |spawn, name| {
        let value = set.iter().find(|(known, _)| known == name);
        spawn.env(name, value.map_or("", |(_, value)| value))
    })
}

#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn whatever_asks_the_environment_goes_through_its_proxy() {
    let dir = TempDir::new("proxy-environment");
    let page = |_: u64| "page 1\n".to_owned();
    let (near, listed) = (Target::start(page), Target::start(page));
    let list = format!(r#"[{{"targets": ["{}"]}}]"#, listed.address);
    let proxy = Proxy::start(move |line| {
        let plain = "text/plain; version=0.0.4";
        match line {
            "GET http://metrics.example:8080/metrics HTTP/1.1" => {
                Some((plain, "far 1\n".to_owned()))
            }
            "GET http://10.1.2.3/metrics HTTP/1.1" => Some((plain, "far 2\n".to_owned())),
            "GET http://sd.example/list HTTP/1.1" => Some(("application/json", list.clone())),
            "POST http://token.example/token HTTP/1.1" => Some((
                "application/json",
                r#"{"access_token": "t0ken", "token_type": "bearer"}"#.to_owned(),
            )),
            _ => None,
        }
    });
    let config = dir.write(
        "p.yml",
        format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\nscrape_configs:\n\
- {{job_name: far, proxy_from_environment: true, static_configs: [{{targets: ['metrics.example:8080', '10.1.2.3']}}]}}\n\
- {{job_name: near, proxy_from_environment: true, static_configs: [{{targets: ['{near}']}}]}}\n\
- {{job_name: exempt, proxy_from_environment: true, static_configs: [{{targets: ['10.2.0.1:1', 'in.direct.invalid']}}]}}\n\
- {{job_name: unasked, static_configs: [{{targets: ['unasked.invalid']}}]}}\n\
- {{job_name: secure, scheme: https, proxy_from_environment: true, proxy_connect_header: {{X-Key: [k3y]}}, static_configs: [{{targets: ['secure.example']}}]}}\n\
- {{job_name: token, oauth2: {{client_id: me, client_secret: s, token_url: 'http://token.example/token', proxy_from_environment: true}}, static_configs: [{{targets: ['{near}']}}]}}\n\
- {{job_name: listed, http_sd_configs: [{{url: 'http://sd.example/list', proxy_from_environment: true}}]}}\n",
            near = near.address
        ),
    );
    let http = format!("http://me:pw@{}", proxy.address);
    let spawn = support::server_in(&dir.join("data")).arg(support::config_flag(&config));
    let server = Running::of(with_environment(
        spawn,
        &[
            ("HTTP_PROXY", &http),
            ("https_proxy", &proxy.address),
            ("no_proxy", "10.2.0.0/16, .direct.invalid"),
        ],
    ));
    let up = |job: &str, count: usize| {
        server.wait_vector(&format!("up{{job=\"{job}\"}} == 1"), |v| v.len() == count);
    };
    up("far", 2);
    up("near", 1);
    up("token", 1);
    up("listed", 1);
    let plain = proxy.wait_head("GET http://metrics.example:8080/metrics ");
    assert!(
        plain.contains("proxy-authorization: Basic bWU6cHc=\r\n"),
        "{plain}"
    );
    let tunnel = proxy
        .wait_head("CONNECT secure.example:443 ")
        .to_lowercase();
    assert!(tunnel.contains("x-key: k3y\r\n"), "{tunnel}");
    assert!(!tunnel.contains("proxy-authorization"), "{tunnel}");
    server.wait_vector("scrape_samples_scraped{job=~\"exempt|unasked\"}", |v| {
        v.len() == 3
    });
    for direct in [
        near.address.as_str(),
        &listed.address,
        "10.2.0.1",
        "invalid",
    ] {
        assert!(!proxy.saw(direct), "{direct} is reached directly");
    }
    server.stop();
}

#[test]
fn what_is_no_proxy_is_told_to_those_who_ask_for_it() {
    let dir = TempDir::new("proxy-unusable");
    let config = |proxy: bool| {
        let text = format!("scrape_configs: [{{job_name: a, proxy_from_environment: {proxy}}}]\n");
        dir.write(format!("{proxy}.yml"), text)
    };
    let environment = [("HTTPS_PROXY", "socks5://127.0.0.1:1")];
    let spawn = support::server_in(&dir.join("refused")).arg(support::config_flag(&config(true)));
    let refused = with_environment(spawn, &environment).run(PATIENCE);
    assert_eq!(refused.exit.code, Some(1), "{}", refused.stderr);
    let told = r#"job "a": HTTPS_PROXY: "#;
    assert!(
        refused.stderr.contains(told) || refused.stderr.contains(&told.replace('"', "\\\"")),
        "{}",
        refused.stderr
    );
    let spawn = support::server_in(&dir.join("data")).arg(support::config_flag(&config(false)));
    Running::of(with_environment(spawn, &environment)).stop();
}
