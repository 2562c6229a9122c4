//! `cargo xtask function-order`: writes the names of the functions that steady work runs, for `crates/narthex/build.rs`.
//!
//! The release build answers scrapes, an agent collects and sends, and a server stores and queries, below valgrind; what
//! they run once they have started is what the linker places together.
//!
//! **Invariant:** a name has the compiler's hash only if much else has the same name without it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use narthex_client::segment::{Publisher, SegmentOptions};
use narthex_client::{Counter, Registry};
use narthex_testkit::process::{Server, Spawn, port_in};
use narthex_testkit::remote_write::{Request, Series};
use narthex_testkit::{TempDir, http, tool};

use crate::product;

/// What runs on newer processors than the one that valgrind has.
const FOR_NEWER_PROCESSORS: [&str; 1] = ["crc32_x86_*"];
const LIST: &str = "crates/narthex/functions.txt";
/// Below valgrind everything takes fifty times as long.
const PATIENCE: Duration = Duration::from_secs(300);

/// Profiles the release build and writes the list.
///
/// # Errors
///
/// When the program does not build, start or answer, or valgrind is missing.
pub(crate) fn run() -> Result<(), String> {
    let program = product::build("release")?;
    let functions = functions(&program)?;
    let mut list = String::from(
        "# Functions that steady work runs, for the linker to place together (see build.rs): those of an exporter's\n\
         # scrapes, then those that an agent, then those that a server runs besides. Written by `cargo xtask function-order`.\n",
    );
    let mut known = BTreeSet::new();
    for name in FOR_NEWER_PROCESSORS {
        let _ = writeln!(list, "{name}");
    }
    for (what, work) in [
        ("node-exporter", exporter as fn(&Path) -> Profiled),
        ("agent", agent),
        ("server", server),
    ] {
        let run = work(&program)?;
        let _ = writeln!(list, "# {what}");
        let (mut names, mut bytes) = (0, 0);
        for (name, size) in steady(&functions, &run) {
            if known.insert(name.clone()) {
                let _ = writeln!(list, "{name}");
                names += 1;
                bytes += size;
            }
        }
        println!(
            "{what}: {} functions, {names} further names, {bytes} bytes",
            run.len()
        );
    }
    fs::write(LIST, list).map_err(|e| format!("{LIST}: {e}"))
}

/// Symbols of functions that ran.
type Profiled = Result<BTreeSet<String>, String>;

/// A program's functions by the name that stays.
type Functions = BTreeMap<String, Vec<Function>>;

struct Function {
    symbol: String,
    address: u64,
    size: u64,
}

fn functions(program: &Path) -> Result<Functions, String> {
    let output = Command::new(tool("nm", "binutils"))
        .args(["--print-size", "--defined-only"])
        .arg(program)
        .output()
        .map_err(|e| format!("nm: {e}"))?;
    symbols(&String::from_utf8_lossy(&output.stdout))
}

/// Parses nm's list. The compiler merges equal functions, and names their section after any of them.
fn symbols(list: &str) -> Result<Functions, String> {
    let mut functions = Functions::new();
    for line in list.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if let [address, size, "t" | "T" | "w" | "W", symbol] = fields.as_slice() {
            let number =
                |text| u64::from_str_radix(text, 16).map_err(|e| format!("nm: {line}: {e}"));
            let function = Function {
                symbol: (*symbol).to_owned(),
                address: number(address)?,
                size: number(size)?,
            };
            functions.entry(lasting(symbol)).or_default().push(function);
        }
    }
    Ok(functions)
}

/// Returns the names of the functions that ran, and the bytes that each places.
fn steady(functions: &Functions, ran: &BTreeSet<String>) -> Vec<(String, u64)> {
    /// A name that many functions share places so much at most; beyond it stand single functions, with their hashes. These
    /// are the same in every build until a dependency or the compiler changes.
    const SHARED_BYTES: u64 = 8 << 10;
    let all = functions.values().flatten();
    let running = all.filter(|function| ran.contains(&function.symbol));
    let running: BTreeSet<u64> = running.map(|function| function.address).collect();
    let mut names = Vec::new();
    for (name, functions) in functions {
        let size = functions.iter().map(|function| function.size).sum();
        let running: Vec<&Function> = functions
            .iter()
            .filter(|function| running.contains(&function.address))
            .collect();
        let running_bytes: u64 = running.iter().map(|function| function.size).sum();
        if running_bytes > 0 && (size <= SHARED_BYTES || size <= 2 * running_bytes) {
            names.push((name.clone(), size));
        } else {
            let exactly = running
                .iter()
                .map(|function| (exact(&function.symbol), function.size));
            names.extend(exactly);
        }
    }
    names
}

/// Returns a pattern for this function alone.
fn exact(symbol: &str) -> String {
    let symbol = symbol.split(".llvm.").next().unwrap_or(symbol);
    format!("{symbol}*")
}

/// Returns a pattern for the symbol that holds after another build: without the hash of a function in the older
/// mangling, those of crates in the newer one, and what the optimiser appends.
fn lasting(symbol: &str) -> String {
    if let Some(at) = symbol.find("17h").filter(|_| symbol.starts_with("_ZN"))
        && symbol.get(at + 19..at + 20) == Some("E")
    {
        return format!("{}*", &symbol[..at + 3]);
    }
    let symbol = symbol.split(".llvm.").next().unwrap_or(symbol);
    if !symbol.starts_with("_R") {
        return symbol.to_owned();
    }
    // `Cs`, a number in base 62, `_`.
    let mut name = String::new();
    let mut rest = symbol;
    while let Some(at) = rest.find("Cs") {
        let (before, hash) = rest.split_at(at + 2);
        let digits = hash.bytes().take_while(u8::is_ascii_alphanumeric).count();
        name.push_str(before);
        rest = hash;
        if digits > 5 && hash[digits..].starts_with('_') {
            name.push('*');
            rest = &hash[digits..];
        }
    }
    name.push_str(rest);
    name.push('*');
    name
}

/// Scrapes an exporter, and its landing page.
fn exporter(program: &Path) -> Profiled {
    let arguments = ["--web.listen-address=127.0.0.1:0"];
    let run = Profile::start(program, "node-exporter", arguments)?;
    let scrape = || {
        get(&format!("{}/metrics", run.url), "gzip")?;
        get(&format!("{}/metrics", run.url), "identity")
    };
    for _ in 0..3 {
        scrape()?;
    }
    run.record(true)?;
    // Longer than until the start's pages are given back.
    for _ in 0..12 {
        scrape()?;
        leave(&run.url)?;
        std::thread::sleep(Duration::from_secs(1));
    }
    run.end()
}

/// Has an agent read all it can read, and send it to a server.
fn agent(program: &Path) -> Profiled {
    /// Some work comes once a minute.
    const PERIOD: Duration = Duration::from_secs(75);
    let directory = TempDir::new("function-order");
    // It is stopped when it is dropped.
    let mut receiver = Spawn::new(program)
        .args(["server", "--web.listen-address=127.0.0.1:0"])
        .arg("--web.enable-remote-write-receiver")
        .arg(format!(
            "--storage.tsdb.path={}",
            directory.join("received").display()
        ))
        .start();
    let url = listening(&mut receiver)?;
    let segments = directory.join("segments");
    let config = directory.write(
        "narthex.yml",
        format!(
            "global: {{scrape_interval: 1s}}\nhost: {{}}\n\
             segments: {{dir: {}, interval: 1s}}\n\
             files: [{{job_name: dumped, paths: ['{}/*.prom'], interval: 1s}}]\n\
             remote_write: [{{url: '{}/api/v1/write', queue_config: {{batch_send_deadline: 1s}}}}]\n\
             scrape_configs: [{{job_name: peer, static_configs: [{{targets: ['{}']}}]}}]\n",
            segments.display(),
            directory.path().display(),
            url,
            url.trim_start_matches("http://"),
        ),
    );
    let arguments = [
        format!("--config.file={}", config.display()),
        format!("--storage.agent.path={}", directory.join("queue").display()),
        "--web.listen-address=127.0.0.1:0".to_owned(),
        "--web.enable-push-receiver".to_owned(),
    ];
    let mut run = Profile::start(program, "agent", arguments)?;
    let ready = format!("{}/-/ready", run.url);
    run.server.wait_url(&ready, PATIENCE);
    static WORK: Counter = Counter::new("steady_work_total", "Work of a process.");
    let registry = Registry::new();
    let failed = |e: &dyn std::fmt::Display| format!("segment: {e}");
    registry.register_all(&[&WORK]).map_err(|e| failed(&e))?;
    fs::create_dir_all(&segments).map_err(|e| failed(&e))?;
    let options = SegmentOptions::new(&segments, "steady");
    let mut publisher = Publisher::create(&options).map_err(|e| failed(&e))?;
    let mut work = |round: u32| {
        let page = page(round);
        let temporary = directory.write("temporary", &page);
        fs::rename(temporary, directory.join("steady.prom")).map_err(|e| failed(&e))?;
        WORK.inc();
        publisher.publish(&registry).map_err(|e| failed(&e))?;
        let group = format!("{}/metrics/job/steady/number/{}", run.url, round % 3);
        let pushed = http::request("PUT", &group, &[], page.as_bytes());
        match pushed.map_err(|e| format!("{group}: {e}"))?.status {
            200 => {}
            status => return Err(format!("{group}: {status}")),
        }
        get(&format!("{}/metrics", run.url), "gzip")?;
        std::thread::sleep(Duration::from_millis(500));
        Ok::<_, String>(())
    };
    for round in 0..4 {
        work(round)?;
    }
    run.record(true)?;
    let begin = Instant::now();
    for round in 4.. {
        if begin.elapsed() > PERIOD {
            break;
        }
        work(round)?;
        leave(&run.url)?;
    }
    run.end()
}

/// Returns a page of metrics, some of whose series come and go.
fn page(round: u32) -> String {
    let mut page = String::from("# TYPE steady_total counter\n");
    for at in round / 10 % 40..40 {
        let _ = writeln!(page, "steady_total{{at=\"{at}\"}} {}", round * at);
    }
    let _ = writeln!(page, "# TYPE steady gauge\nsteady {round}.5");
    page
}

/// Has a server scrape itself, receive samples and answer queries.
fn server(program: &Path) -> Profiled {
    const ROUNDS: usize = 20;
    let directory = TempDir::new("function-order");
    let config = directory.write(
        "narthex.yml",
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n\
         scrape_configs:\n- job_name: self\n  static_configs: [{targets: ['127.0.0.1:9']}]\n",
    );
    let arguments = [
        format!("--config.file={}", config.display()),
        format!("--storage.tsdb.path={}", directory.join("data").display()),
        "--web.listen-address=127.0.0.1:0".to_owned(),
        "--web.enable-remote-write-receiver".to_owned(),
    ];
    let mut run = Profile::start(program, "server", arguments)?;
    let ready = format!("{}/-/ready", run.url);
    run.server.wait_url(&ready, PATIENCE);
    let port = run.url.rsplit(':').next().unwrap_or_default();
    let text = fs::read_to_string(&config).map_err(|e| e.to_string())?;
    // It is its own target once its port is known.
    let text = text.replace("127.0.0.1:9'", &format!("127.0.0.1:{port}'"));
    fs::write(&config, text).map_err(|e| e.to_string())?;
    run.server.signal(narthex_testkit::process::SIGHUP);
    let mut round = 0;
    let mut work = || {
        round += 1;
        write(&run.url, round)?;
        for query in [
            "up",
            "rate(steady_total[5m])",
            "sum by (job) (steady_total)",
        ] {
            let query = http::query(&[("query", query)]);
            get(&format!("{}/api/v1/query?{query}", run.url), "gzip")?;
        }
        std::thread::sleep(Duration::from_millis(500));
        Ok::<_, String>(())
    };
    run.record(true)?;
    for _ in 0..ROUNDS {
        work()?;
        leave(&run.url)?;
    }
    run.end()
}

/// Sends a round of samples, every fifth of new series.
fn write(url: &str, round: i64) -> Result<(), String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = now.map_err(|e| e.to_string())?.as_millis() as i64;
    let job = format!("steady-{}", round / 5);
    let series = (0..200).map(|at| {
        let at = at.to_string();
        let labels = [
            ("__name__", "steady_total"),
            ("instance", &at),
            ("job", &job),
        ];
        Series::new(&labels, &[(now_ms, (round * 7) as f64)])
    });
    let request = Request {
        series: series.collect(),
        ..Request::default()
    };
    let answer = request.send(url).map_err(|e| e.to_string())?;
    match answer.status {
        200..300 => Ok(()),
        status => Err(format!("remote write: {status} {}", answer.text())),
    }
}

fn get(url: &str, encoding: &str) -> Result<(), String> {
    let headers = [("Accept-Encoding", encoding)];
    let answer = http::request("GET", url, &headers, &[]).map_err(|e| format!("{url}: {e}"))?;
    match answer.status {
        200 => Ok(()),
        status => Err(format!("{url}: {status}")),
    }
}

/// Asks on a connection that stays open, and closes it.
fn leave(url: &str) -> Result<(), String> {
    let address = url.trim_start_matches("http://");
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer)?;
        stream.shutdown(Shutdown::Write)?;
        // The server's end.
        stream.read_to_end(&mut Vec::new())?;
        Ok::<_, std::io::Error>(length)
    };
    match ask() {
        Ok(1..) => Ok(()),
        Ok(0) => Err(format!("{url}: no answer")),
        Err(e) => Err(format!("{url}: {e}")),
    }
}

/// Waits until a command listens; returns its URL.
fn listening(server: &mut Server) -> Result<String, String> {
    let line = server.wait_line("a line with its port", PATIENCE, |line| {
        line.contains("127.0.0.1") && port_in(line).is_some_and(|port| port != 0)
    });
    let port = port_in(&line).ok_or("the line was accepted because it has a port")?;
    Ok(format!("http://127.0.0.1:{port}"))
}

/// A command that runs below valgrind.
struct Profile {
    server: Server,
    url: String,
    directory: TempDir,
}

impl Profile {
    fn start<A: AsRef<OsStr>>(
        program: &Path,
        command: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self, String> {
        let directory = TempDir::new("callgrind");
        let mut server = Spawn::new(tool("valgrind", "valgrind"))
            .as_valgrind()
            .args(["--tool=callgrind", "--instr-atstart=no", "--demangle=no"])
            .arg(format!(
                "--callgrind-out-file={}",
                directory.join("out").display()
            ))
            .arg(program)
            .arg(command)
            .args(arguments)
            .start();
        Ok(Self {
            url: listening(&mut server)?,
            server,
            directory,
        })
    }

    /// Records from here on, or stops it.
    fn record(&self, on: bool) -> Result<(), String> {
        let status = Command::new(tool("callgrind_control", "valgrind"))
            .args(["-i", if on { "on" } else { "off" }])
            .arg(self.server.pid().to_string())
            .output()
            .map_err(|e| format!("callgrind_control: {e}"))?
            .status;
        match status.success() {
            true => Ok(()),
            false => Err(format!("callgrind_control: {status}")),
        }
    }

    /// Ends the program; returns what it ran while that was recorded.
    fn end(mut self) -> Profiled {
        self.record(false)?;
        self.server.terminate(PATIENCE);
        let path = self.directory.join("out");
        let profile = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(executed(&profile))
    }
}

/// Lists the functions of a profile in callgrind's format, where a name follows its number only once.
fn executed(profile: &str) -> BTreeSet<String> {
    let mut names = BTreeMap::new();
    let mut ran = BTreeSet::new();
    for line in profile.lines() {
        let (is_caller, name) = match (line.strip_prefix("fn="), line.strip_prefix("cfn=")) {
            (Some(name), _) => (true, name),
            (None, Some(name)) => (false, name),
            (None, None) => continue,
        };
        let (number, text) = name.split_once(' ').unwrap_or((name, ""));
        if !text.is_empty() {
            // A function that calls itself has the depth after its name.
            let text = text.split('\'').next().unwrap_or(text);
            names.insert(number, text);
        }
        if let Some(name) = names.get(number).filter(|_| is_caller) {
            ran.insert((*name).to_owned());
        }
    }
    ran
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_last_without_their_hashes() {
        let cases = [
            (
                "_ZN4core3fmt5write17h0123456789abcdefE",
                "_ZN4core3fmt5write17h*",
            ),
            (
                "_ZN4core3fmt5write17h0123456789abcdefE.llvm.77",
                "_ZN4core3fmt5write17h*",
            ),
            (
                "_RNvNtCsgEmfK2I1SDS_4core3fmt5write",
                "_RNvNtCs*_4core3fmt5write*",
            ),
            ("_rjem_je_arena_choose_hard", "_rjem_je_arena_choose_hard"),
        ];
        for (symbol, name) in cases {
            assert_eq!(lasting(symbol), name);
        }
    }

    #[test]
    fn functions_of_a_profile_are_those_that_ran_themselves() {
        let profile = "fn=(1) a\n1 2\ncfn=(2) b'2\ncalls=1 0\n3 4\nfn=(2)\n1 1\ncfn=(3) c\n";
        let ran: Vec<String> = executed(profile).into_iter().collect();
        assert_eq!(ran, ["a", "b"]);
    }

    #[test]
    fn functions_that_share_a_name_with_much_else_are_named_exactly() {
        let list = "\
            0100 0bb8 t _ZN5large17h0000000000000001E.llvm.7\n\
            0d00 2328 t _ZN5large17h0000000000000002E\n\
            4000 0bb8 T _ZN4most17h0000000000000001E\n\
            5000 1388 T _ZN4most17h0000000000000002E\n\
            7000 0010 t _ZN6little17h0000000000000001E\n\
            7100 0200 t _ZN6little17h0000000000000002E\n\
            7000 0010 t merged\n\
            8000 0010 t still\n\
            9000 0010 d datum\n";
        let functions = symbols(list).expect("well formed");
        let ran = [
            "5large17h0000000000000001E.llvm.7",
            "4most17h0000000000000001E",
            "6little17h0000000000000001E",
        ];
        let ran = ran.map(|symbol| format!("_ZN{symbol}")).into();
        let names = steady(&functions, &ran);
        let expected = [
            ("_ZN4most17h*", 8000),
            ("_ZN5large17h0000000000000001E*", 3000),
            ("_ZN6little17h*", 528),
            ("merged", 16),
        ];
        assert_eq!(names, expected.map(|(name, size)| (name.to_owned(), size)));
    }
}
