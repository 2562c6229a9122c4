//! Attempts by targets, senders and readers to make a server grow, and the allowed responses.
//!
//! **Invariant:** an attack ends by itself, holds nothing afterwards, and reports every status it got.

use crate::{
    client,
    hostile::{Deed, Villain, bomb, compressed, head},
    support::PATIENCE,
};
use narthex_testkit::{
    http,
    remote_write::{self, Metadata, Request, Series},
};
use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// One attack, and the statuses it may get.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Victim) -> Vec<u16>,
    pub(crate) answers: &'static [u16],
}

/// The server under attack.
pub(crate) struct Victim {
    pub(crate) url: String,
    pub(crate) villains: Vec<(Villain, Arc<AtomicBool>)>,
}

/// All attacks; each also runs together with the next.
pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "a gigabyte behind a megabyte of gzip",
        run: |victim| victim.provoke("gigabyte", "no memory for"),
        answers: &[],
    },
    Attack {
        name: "symbols that are named again and again",
        run: long_symbols,
        // Empty labels and series without a sample are ignored.
        answers: &[204, 400, 503],
    },
    Attack {
        name: "ten million series of a target",
        run: |victim| victim.provoke("ten-million", "memory"),
        answers: &[],
    },
    Attack {
        name: "a result that is read a byte a second",
        run: slow_readers,
        answers: &[200, 422, 503],
    },
    Attack {
        name: "more series than one target may have",
        run: |victim| victim.provoke("short-names", "memory"),
        answers: &[],
    },
    Attack {
        name: "new series of a sender",
        run: flood_of_series,
        answers: &[204, 400, 503],
    },
    Attack {
        name: "other series in every page",
        run: |victim| victim.provoke("churn", ""),
        answers: &[],
    },
    Attack {
        name: "patterns that compile to much",
        run: patterns,
        answers: &[400, 422, 503],
    },
    Attack {
        name: "other families in every page",
        run: |victim| victim.provoke("families", ""),
        answers: &[],
    },
    Attack {
        name: "labels that double",
        run: doubled_labels,
        answers: &[400, 422, 503],
    },
    Attack {
        name: "a time on every line",
        run: |victim| victim.provoke("times", ""),
        answers: &[],
    },
    Attack {
        name: "heads that do not end",
        run: endless_heads,
        answers: &[],
    },
    Attack {
        name: "millions of parameters",
        run: parameters,
        answers: &[400, 503],
    },
    Attack {
        name: "bodies that do not end",
        run: slow_senders,
        answers: &[204, 503],
    },
    Attack {
        name: "more samples of a series than a strip has rows",
        run: one_series,
        answers: &[204, 400, 503],
    },
    Attack {
        name: "profiles of the heap",
        run: profiles,
        answers: &[200, 503],
    },
];

/// Targets whose pages are refused for their size.
pub(crate) const HUGE: &[&str] = &["gigabyte", "ten-million", "short-names"];

/// Attacks of targets on the scraper once provoked; before that, they serve one sample.
const TARGETS: &[(&str, Deed)] = &[
    ("gigabyte", |stream, _| {
        compressed(stream, "gzip", gigabyte())
    }),
    ("ten-million", |stream, number| {
        head(stream, TEXT)?;
        for piece in 0..1000 {
            stream.write_all(fresh_series(number, piece * 10_000, 10_000).as_bytes())?;
        }
        Ok(())
    }),
    // Short enough to be read, but with more series than one target may have.
    ("short-names", |stream, _| {
        head(stream, TEXT)?;
        for piece in 0..60 {
            stream.write_all(fresh_series(0, piece * 10_000, 10_000).as_bytes())?;
        }
        Ok(())
    }),
    // Every page has new series, so the head grows.
    ("churn", |stream, number| {
        head(stream, TEXT)?;
        stream.write_all(fresh_series(number, 0, 10_000).as_bytes())
    }),
    ("families", |stream, number| {
        head(stream, TEXT)?;
        let help = "x".repeat(1000);
        let mut page = String::new();
        for at in 0..5000 {
            let _ = writeln!(page, "# HELP f{number}_{at} {help}\nf{number}_{at} 1");
        }
        stream.write_all(page.as_bytes())
    }),
    ("times", |stream, _| {
        head(stream, TEXT)?;
        let mut page = String::new();
        let now_ms = now_ms();
        for at in 0..20_000 {
            let _ = writeln!(page, "t{at} {at}.5 {}", now_ms - at);
        }
        stream.write_all(page.as_bytes())
    }),
];

const TEXT: &str = "Content-Type: text/plain; version=0.0.4\r\n";

/// Starts all targets; they are harmless until provoked.
pub(crate) fn villains(stop: &Arc<AtomicBool>) -> Vec<(Villain, Arc<AtomicBool>)> {
    gigabyte();
    let start = |(name, deed): &(&'static str, Deed)| {
        let roused = Arc::new(AtomicBool::new(false));
        let (asked, deed) = (Arc::clone(&roused), *deed);
        let either = move |stream: &mut TcpStream, number| {
            if asked.load(Ordering::SeqCst) {
                return deed(stream, number);
            }
            head(stream, TEXT)?;
            stream.write_all(b"tame 1\n")
        };
        (Villain::start(name, either, stop), roused)
    };
    TARGETS.iter().map(start).collect()
}

impl Victim {
    fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Lets a target attack until a scrape failed with `words` or was stored without some of its new series, or was made
    /// three times if `words` is empty.
    fn provoke(&self, name: &str, words: &str) -> Vec<u16> {
        let more = if words.is_empty() { 3 } else { 1 };
        let of_name = |(villain, _): &&(Villain, _)| villain.name == name;
        let (villain, roused) = self.villains.iter().find(of_name).unwrap();
        let rounds = villain.asked.load(Ordering::SeqCst) + more;
        let refused_before = self.refused_series(name);
        roused.store(true, Ordering::SeqCst);
        let mut error = None;
        let end = Instant::now() + PATIENCE;
        loop {
            error = self.last_error(name).or(error);
            // While all memory is short, new series are left out of a page that could be stored otherwise.
            let refused = error.as_ref().is_some_and(|error| error.contains(words))
                || self.refused_series(name) > refused_before;
            let done = villain.asked.load(Ordering::SeqCst) >= rounds;
            if done && (refused || words.is_empty()) {
                break;
            }
            assert!(Instant::now() < end, "{name}: the last error is {error:?}");
            thread::sleep(Duration::from_millis(20));
        }
        roused.store(false, Ordering::SeqCst);
        Vec::new()
    }

    /// Returns why the last scrape of a job failed; `None` if it did not or the API does not answer.
    fn last_error(&self, job: &str) -> Option<String> {
        let answer = client::try_call(&self.url, "/api/v1/targets", &[("scrapePool", job)]);
        let answer = answer.ok().filter(|answer| answer.status == 200)?;
        let targets = client::data_of(&answer, "targets");
        let target = &targets["activeTargets"][0];
        let down = target["health"] == "down";
        down.then(|| target["lastError"].as_str().unwrap().to_owned())
    }

    /// Returns how many times a new series of a job was refused so far; zero if the server does not answer.
    fn refused_series(&self, job: &str) -> u64 {
        let page = http::get(&format!("{}/metrics", self.url));
        let page = page.map(|page| page.text()).unwrap_or_default();
        let of_job = format!("_refused_series_total{{job=\"{job}\"}} ");
        let counts = page.lines().filter_map(|line| line.split_once(&of_job));
        counts
            .map(|(_, count)| count.parse::<u64>().unwrap_or_default())
            .sum()
    }

    fn form(&self, path: &str, body: &[u8]) -> u16 {
        let url = format!("{}{path}", self.url);
        let answer = http::post(&url, "application/x-www-form-urlencoded", body);
        answer.unwrap().status
    }
}

/// Returns a gigabyte compressed to a megabyte of gzip.
fn gigabyte() -> &'static [u8] {
    static BOMB: OnceLock<Vec<u8>> = OnceLock::new();
    BOMB.get_or_init(|| bomb("gzip", 1 << 30))
}

/// Returns lines of `count` series that no earlier page had.
fn fresh_series(number: u64, from: u64, count: u64) -> String {
    let mut lines = String::new();
    for at in from..from + count {
        let _ = writeln!(lines, "m{number}_{at} 1");
    }
    lines
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(out: &mut Vec<u8>, number: u8, content: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, content.len());
    out.extend_from_slice(content);
}

/// Returns a version 2 request with a symbol of a megabyte, and `count` times the same series.
fn one_long_symbol(series: &[u8], count: usize) -> Vec<u8> {
    let mut body = Vec::new();
    field(&mut body, 4, b"");
    field(&mut body, 4, b"__name__");
    field(&mut body, 4, &vec![b'x'; 1_000_000]);
    for _ in 0..count {
        field(&mut body, 5, series);
    }
    body
}

fn long_symbols(victim: &Victim) -> Vec<u16> {
    let version_2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
    let mut statuses = Vec::new();
    let mut send = |content_type: &str, plain: &[u8]| {
        let body = remote_write::snappy(plain);
        let answer = remote_write::send(&victim.url, content_type, &body).unwrap();
        statuses.push(answer.status);
    };
    // Series that name the symbol: in labels without a sample, in metadata, in an exemplar.
    let sample = [0x12, 0x0b, 0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x10, 1];
    let no_sample = b"\x0a\x04\x01\x02\x02\x02".to_vec();
    let metadata = [b"\x0a\x02\x01\x02\x2a\x04\x08\x01\x18\x02", &sample[..]].concat();
    let exemplar = [b"\x0a\x02\x01\x02\x22\x04\x0a\x02\x01\x02", &sample[..]].concat();
    for series in [no_sample, metadata, exemplar] {
        send(version_2, &one_long_symbol(&series, 100_000));
    }
    // Empty labels, one for every two bytes.
    let mut request = Vec::new();
    field(&mut request, 1, &b"\x0a\x00".repeat(8 << 20));
    send("application/x-protobuf", &request);
    statuses
}

/// Returns a number that is unique among attacks.
fn next_number() -> u32 {
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    NUMBERS.fetch_add(1, Ordering::SeqCst)
}

/// Sends new series with new metadata, a full request at a time.
fn flood_of_series(victim: &Victim) -> Vec<u16> {
    let flood = next_number();
    let time_ms = now_ms();
    let statuses = (0..6).map(|number| {
        let name = |at: usize| format!("w{flood}_{number}_{at}");
        let series = (0..20_000).map(|at| {
            Series::new(
                &[("__name__", &name(at)), ("job", "flood")],
                &[(time_ms, 1.0)],
            )
        });
        let families = (0..2000).map(|at| Metadata {
            family: name(at),
            help: "x".repeat(1000),
            ..Metadata::default()
        });
        let request = Request {
            series: series.collect(),
            families: families.collect(),
        };
        request.send(&victim.url).unwrap().status
    });
    statuses.collect()
}

/// Sends more than a million samples of one series, all with different times.
fn one_series(victim: &Victim) -> Vec<u16> {
    let (now_ms, name) = (now_ms(), format!("long{}", next_number()));
    // Four times a fourth: a server without optimization needs seconds for each, more of them beside another attack.
    let statuses = (0..4).map(|part| {
        let samples = (0..300_000_i64).map(|at| (now_ms - 1_200_000 + 300_000 * part + at, 0.5));
        let samples: Vec<(i64, f64)> = samples.collect();
        let request = Request {
            series: vec![Series::new(
                &[("__name__", &name), ("job", "flood")],
                &samples,
            )],
            ..Request::default()
        };
        request.send(&victim.url).unwrap().status
    });
    statuses.collect()
}

/// Opens clients that request everything and read a byte a second.
fn slow_readers(victim: &Victim) -> Vec<u16> {
    const SECONDS: usize = 3;
    let ask = |at: usize| {
        let mut stream = TcpStream::connect(victim.address()).ok()?;
        let path = match at % 3 {
            0 => "/federate?match[]=%7B__name__%3D~%22.%2B%22%7D",
            1 => "/api/v1/series?match[]=%7B__name__%3D~%22.%2B%22%7D",
            _ => "/api/v1/query?query=%7B__name__%3D~%22.%2B%22%7D",
        };
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
        stream.set_nonblocking(true).ok()?;
        Some((stream, Vec::new()))
    };
    let mut readers: Vec<(TcpStream, Vec<u8>)> = (0..40).filter_map(ask).collect();
    let mut read = |most: usize| {
        for (stream, line) in &mut readers {
            let mut bytes = [0; 16];
            // Clients still waiting for their turn have no response yet.
            let read = stream.read(&mut bytes[..most]).unwrap_or(0);
            line.extend_from_slice(&bytes[..read]);
        }
    };
    for _ in 0..SECONDS {
        thread::sleep(Duration::from_secs(1));
        read(1);
    }
    read(16);
    let status = |(_, line): &(TcpStream, Vec<u8>)| {
        let text = std::str::from_utf8(line.get(9..12)?).ok()?;
        text.parse().ok()
    };
    readers.iter().filter_map(status).collect()
}

fn patterns(victim: &Victim) -> Vec<u16> {
    let pattern = |n: usize| http::encode(&format!("{{a=~\"\\pL{{200}}{n}\"}}"));
    let matches: Vec<String> = (0..300)
        .map(|n| format!("match[]={}", pattern(n)))
        .collect();
    let matches = matches.join("&");
    let selectors: Vec<String> = (0..300).map(|n| format!("up{}", pattern(n))).collect();
    let query = format!("query={}", selectors.join("+or+"));
    let calls = [
        ("/api/v1/series", &matches),
        ("/api/v1/labels", &matches),
        ("/api/v1/query_exemplars", &query),
        ("/api/v1/query", &query),
    ];
    let ask = |(path, form): (&str, &String)| victim.form(path, form.as_bytes());
    calls.into_iter().map(ask).collect()
}

fn doubled_labels(victim: &Victim) -> Vec<u16> {
    let nested = |begin: &str, end: &str| format!("{}up{}", begin.repeat(40), end.repeat(40));
    let joined = nested("label_join(", ",\"job\",\"\",\"job\",\"job\")");
    let replaced = nested("label_replace(", ",\"job\",\"$1$1\",\"job\",\"(.*)\")");
    let counted = format!("count_values(\"a\", {replaced})");
    let ask =
        |query: &String| victim.form("/api/v1/query", http::query(&[("query", query)]).as_bytes());
    [joined, replaced, counted].iter().map(ask).collect()
}

fn parameters(victim: &Victim) -> Vec<u16> {
    let ask = || victim.form("/api/v1/query", &b"a&".repeat(5 << 20));
    thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asking
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .collect()
    })
}

/// Opens connections that begin a request and never finish it.
pub(crate) fn unfinished(address: &str, count: usize, begin: &[u8]) -> Vec<TcpStream> {
    let start = |_| {
        let mut stream = TcpStream::connect(address).ok()?;
        let patience = Some(Duration::from_millis(200));
        let _ = stream.set_write_timeout(patience);
        // The server may have stopped reading or accepting.
        let _ = stream.write_all(begin);
        Some(stream)
    };
    (0..count).filter_map(start).collect()
}

fn endless_heads(victim: &Victim) -> Vec<u16> {
    let line = format!("X-More: {}\r\n", "x".repeat(4000));
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{}", line.repeat(90));
    let held = unfinished(victim.address(), 300, head.as_bytes());
    thread::sleep(Duration::from_millis(500));
    drop(held);
    Vec::new()
}

/// A well-behaved sender gets a response while others announce much and stall.
fn slow_senders(victim: &Victim) -> Vec<u16> {
    let mut begin =
        b"POST /api/v1/write HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n\
        Content-Encoding: snappy\r\nContent-Length: 30000000\r\n\r\n"
            .to_vec();
    begin.resize(4 << 20, b'x');
    let held = unfinished(victim.address(), 64, &begin);
    let request = Request {
        series: vec![Series::new(
            &[("__name__", "w"), ("job", "good")],
            &[(now_ms(), 1.0)],
        )],
        ..Request::default()
    };
    let statuses = (0..3).map(|_| request.send(&victim.url).unwrap().status);
    let statuses = statuses.collect();
    drop(held);
    statuses
}

fn profiles(victim: &Victim) -> Vec<u16> {
    let paths = ["/debug/pprof/heap", "/debug/flamegraph?heap"];
    let ask = |path: &str| client::get(&format!("{}{path}", victim.url)).status;
    thread::scope(|scope| {
        let asking: Vec<_> = paths.map(|path| scope.spawn(move || ask(path))).into();
        asking
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .collect()
    })
}
