//! Cost of a round compared with node_exporter with the same collectors: CPU, system calls, memory.
//!
//! `cargo bench -p narthex-host --bench collect [-- --veths N] [--exporter PATH] [--rounds N]`. With `--veths` it runs
//! in its own network namespace (needs root) with that many pairs of devices. node_exporter's figures include rendering
//! and HTTP, which are needed to get its numbers; ours are frames, with and without the text page. `--each` prints the
//! cost of each collector alone, `--only NAME` measures one beside node_exporter's, and `--ipvs N` the ipvs collector
//! with that many backends, from files that both read.

use std::fmt::{Display, Write as _};
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use narthex_expfmt::{Negotiated, Writer};
use narthex_host::{CollectorKind, CollectorSet, HostConfig, HostSource};
use narthex_model::Frame;
use narthex_testkit::client::Client;
use narthex_testkit::proc::{ProcFile, ThreadTime, children};
use narthex_testkit::process::Spawn;
use narthex_testkit::{TempDir, tool};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let mut options = Options::parse();
    if let Some(rounds) = options.collect_only {
        return collect_only(rounds, &options);
    }
    let dir = TempDir::new("ipvs");
    if options.ipvs > 0 {
        write_ipvs(&dir, options.ipvs);
        options.procfs = Some(dir.path().display().to_string());
        options.only = Some(CollectorKind::Ipvs);
    }
    if options.veths > 0 {
        isolate(options.veths);
    }
    if options.each {
        return measure_each(&options);
    }
    let (ours, samples) = measure(options.source(), &options, false);
    let (ours_text, _) = measure(options.source(), &options, true);
    let our_calls = our_system_calls(&options);
    let our_rss = our_resident_kib(&options);
    let theirs = measure_exporter(&options);
    let mut out = std::io::stdout().lock();
    let mut line = |text: String| writeln!(out, "{text}").expect("stdout is open");
    line(format!(
        "rounds {}, pause {} ms, veth pairs {}",
        options.rounds, options.pause_ms, options.veths
    ));
    line(format!("node_exporter: {}", theirs.version));
    line(format!(
        "{:<44}{:>14}{:>14}{:>9}",
        "", "narthex-host", "node_exporter", "ratio"
    ));
    let mut row = |name: &str, ours: f64, theirs: f64| {
        line(format!(
            "{name:<44}{ours:>14.1}{theirs:>14.1}{:>9.1}",
            theirs / ours
        ));
    };
    row("samples", samples as f64, theirs.samples as f64);
    row("CPU µs a round", ours, theirs.cpu_us);
    row(
        "CPU µs a round, text page included",
        ours_text,
        theirs.cpu_us,
    );
    row("system calls a round", our_calls, theirs.calls);
    row("resident KiB", our_rss, theirs.resident_kib);
}

struct Options {
    veths: u32,
    rounds: u32,
    pause_ms: u64,
    exporter: Option<String>,
    collect_only: Option<u32>,
    text: bool,
    each: bool,
    only: Option<CollectorKind>,
    procfs: Option<String>,
    ipvs: u32,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self {
            veths: 0,
            rounds: 200,
            pause_ms: 20,
            exporter: None,
            collect_only: None,
            text: false,
            each: false,
            only: None,
            procfs: None,
            ipvs: 0,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .unwrap_or_else(|| panic!("{name} needs a value"))
            };
            match name.as_str() {
                "--veths" => options.veths = value().parse().expect("a number"),
                "--rounds" => options.rounds = value().parse().expect("a number"),
                "--pause-ms" => options.pause_ms = value().parse().expect("a number"),
                "--exporter" => options.exporter = Some(value()),
                "--collect-only" => options.collect_only = Some(value().parse().expect("a number")),
                "--text" => options.text = true,
                "--each" => options.each = true,
                "--only" => options.only = CollectorKind::from_name(&value()),
                "--procfs" => options.procfs = Some(value()),
                "--ipvs" => options.ipvs = value().parse().expect("a number"),
                // Passed by cargo.
                "--bench" => {}
                other => panic!("{other} is unknown"),
            }
        }
        options
    }
}

impl Options {
    fn source(&self) -> HostSource {
        let mut config = HostConfig::default();
        if let Some(kind) = self.only {
            config.collectors = CollectorSet::none().with(kind);
        }
        if let Some(path) = &self.procfs {
            config.procfs = path.into();
        }
        HostSource::new(config).expect("the defaults are valid")
    }

    /// Returns the arguments with which a child of this program measures the same.
    fn forwarded(&self) -> Vec<String> {
        let only = self
            .only
            .iter()
            .map(|kind| ["--only".into(), kind.name().to_owned()]);
        let procfs = self
            .procfs
            .iter()
            .map(|path| ["--procfs".into(), path.clone()]);
        only.chain(procfs).flatten().collect()
    }
}

/// Writes the tables of a load balancer with services of ten backends each.
fn write_ipvs(dir: &TempDir, backends: u32) {
    let mut table = String::from(
        "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  \
         -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n",
    );
    for at in 0..backends {
        if at % 10 == 0 {
            writeln!(table, "TCP  0A60{:04X}:0050 rr", at / 10).expect("strings take anything");
        }
        writeln!(
            table,
            "  -> 0AF4{at:04X}:1F90      Masq    1      {at}          0"
        )
        .expect("strings take anything");
    }
    dir.write("net/ip_vs", table);
    let totals =
        "   Total\n   Conns\n       A        B        C                D                E\n\n";
    dir.write("net/ip_vs_stats", totals);
}

/// Prints the cost of each collector alone, one per line.
fn measure_each(options: &Options) {
    for kind in CollectorKind::ALL {
        let collectors = CollectorSet::none().with(kind);
        let config = HostConfig {
            collectors,
            ..HostConfig::default()
        };
        let host = HostSource::new(config).expect("the defaults are valid");
        let (cpu_us, samples) = measure(host, options, false);
        print_line(&format!(
            "{:<12}{samples:>6} samples{cpu_us:>10.1} CPU µs",
            kind.name()
        ));
    }
}

/// Renders frames as text pages.
#[derive(Default)]
struct Pages {
    writer: Option<Writer>,
    page: Vec<u8>,
}

impl Pages {
    fn write(&mut self, frame: &Frame) {
        let writer = self
            .writer
            .get_or_insert_with(|| Writer::new(frame.schema(), Negotiated::default()));
        writer.rebind(frame.schema());
        self.page.clear();
        writer.write(frame, &mut self.page);
        assert!(self.page.len() > 1000);
    }
}

/// Returns CPU microseconds of the whole process per round, and the samples of a round.
fn measure(mut host: HostSource, options: &Options, text: bool) -> (f64, usize) {
    let mut pages = Pages::default();
    let mut samples = 0;
    for now_ms in 0..5 {
        samples = host.collect(now_ms).present().count();
    }
    let mut spent = Duration::ZERO;
    for now_ms in 0..options.rounds {
        thread::sleep(Duration::from_millis(options.pause_ms));
        let before = cpu_time();
        let frame = host.collect(i64::from(now_ms));
        if text {
            pages.write(frame);
        }
        spent += cpu_time() - before;
    }
    (
        spent.as_secs_f64() * 1e6 / f64::from(options.rounds),
        samples,
    )
}

fn collect_only(rounds: u32, options: &Options) {
    let mut host = options.source();
    let mut pages = Pages::default();
    for now_ms in 0..rounds {
        // Long enough for the threads that wait for file systems to go back to sleep, as between scrapes.
        thread::sleep(Duration::from_millis(2));
        let frame = host.collect(i64::from(now_ms));
        if options.text {
            pages.write(frame);
        }
    }
    print_line(&format!("resident {}", resident_kib(&"self")));
}

fn print_line(text: &str) {
    writeln!(std::io::stdout(), "{text}").expect("stdout is open");
}

/// Counts the system calls of two runs; their difference excludes start and exit.
fn our_system_calls(options: &Options) -> f64 {
    const FEW: u32 = 20;
    const MANY: u32 = 220;
    let count = |rounds: u32| {
        let dir = TempDir::new("strace");
        let report = dir.join("report");
        let status = Command::new(tool("strace", "strace"))
            .args(["-f", "-c", "-o"])
            .arg(&report)
            .arg(std::env::current_exe().expect("a path"))
            .args(["--collect-only", &rounds.to_string()])
            .args(options.forwarded())
            .stdout(Stdio::null())
            .status()
            .expect("strace runs");
        assert!(status.success());
        total_calls(&fs::read_to_string(report).expect("strace reported"))
    };
    // One of them is the bench's own pause between two rounds.
    (count(MANY) - count(FEW)) as f64 / f64::from(MANY - FEW) - 1.0
}

fn our_resident_kib(options: &Options) -> f64 {
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["--collect-only", "200"])
        .args(options.forwarded())
        .output()
        .expect("the bench runs itself");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.trim()
        .strip_prefix("resident ")
        .and_then(|kib| kib.parse().ok())
        .expect("a number")
}

struct Exporter {
    version: String,
    samples: usize,
    cpu_us: f64,
    calls: f64,
    resident_kib: f64,
}

fn measure_exporter(options: &Options) -> Exporter {
    let program: std::path::PathBuf = match &options.exporter {
        Some(path) => path.into(),
        None => tool("prometheus-node-exporter", "prometheus-node-exporter"),
    };
    let version = Command::new(&program)
        .arg("--version")
        .output()
        .expect("it runs");
    let version = String::from_utf8_lossy(&[version.stdout, version.stderr].concat()).into_owned();
    let wanted = |kind: &CollectorKind| options.only.is_none_or(|only| only == *kind);
    let kinds = known_to(&program).filter(wanted);
    let mut exporter = Spawn::new(program)
        .args(
            options
                .procfs
                .iter()
                .map(|path| format!("--path.procfs={path}")),
        )
        .args([
            "--web.listen-address=127.0.0.1:0",
            "--web.disable-exporter-metrics",
            "--collector.disable-defaults",
        ])
        // Debian's build leaves out `lo` and tmpfs.
        .args(["--collector.netdev.device-exclude=^$"])
        .args(kinds.map(|kind| format!("--collector.{}", kind.name())))
        .start();
    let port = exporter.wait_port("Listening on", Duration::from_secs(20));
    let pid = pid_of_listener(port);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = Client::new(address, Duration::from_secs(30));
    let mut samples = 0;
    for _ in 0..5 {
        samples = scrape(&mut client);
    }
    let before = tasks_cpu(pid);
    for _ in 0..options.rounds {
        thread::sleep(Duration::from_millis(options.pause_ms));
        scrape(&mut client);
    }
    let cpu_us = (tasks_cpu(pid) - before).as_secs_f64() * 1e6 / f64::from(options.rounds);
    let calls = exporter_calls(pid, &mut client);
    let version = version.lines().next().unwrap_or_default().to_owned();
    Exporter {
        version,
        samples,
        cpu_us,
        calls,
        resident_kib: resident_kib(&pid),
    }
}

/// Returns the collectors that the program has, according to its help.
fn known_to(program: &std::path::Path) -> impl Iterator<Item = CollectorKind> + use<> {
    let help = Command::new(program).arg("--help").output();
    let help = help.expect("it runs");
    let help = String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).into_owned();
    let is_known = move |kind: &CollectorKind| {
        let flag = format!("collector.{}", kind.name());
        help.split_ascii_whitespace()
            .any(|word| word.trim_start_matches("--").trim_start_matches("[no-]") == flag)
    };
    CollectorKind::ALL.into_iter().filter(is_known)
}

fn exporter_calls(pid: i32, client: &mut Client) -> f64 {
    const SCRAPES: u32 = 50;
    let dir = TempDir::new("strace");
    let report = dir.join("report");
    let mut tracer = Spawn::new(tool("strace", "strace"))
        .args(["-f", "-c", "-p", &pid.to_string(), "-o"])
        .arg(&report)
        .start();
    tracer.wait_line("attached", Duration::from_secs(10), |line| {
        line.contains("attached")
    });
    for _ in 0..SCRAPES {
        scrape(client);
    }
    tracer.signal(narthex_testkit::process::SIGINT);
    tracer.wait_exit(Duration::from_secs(10));
    total_calls(&fs::read_to_string(report).expect("strace reported")) as f64 / f64::from(SCRAPES)
}

/// Scrapes on one connection, as Prometheus does; returns the number of samples.
fn scrape(client: &mut Client) -> usize {
    let response = client.get("/metrics", &[]).expect("it answers");
    assert_eq!(response.status, 200);
    let text = response.text();
    text.lines().filter(|line| !line.starts_with('#')).count()
}

/// Returns the child of this process that listens on `port`.
fn pid_of_listener(port: u16) -> i32 {
    let pid = children("self").expect("the kernel lists children").pop();
    pid.unwrap_or_else(|| panic!("no child listens on {port}"))
}

/// Sums the CPU time of all threads, in nanoseconds as the scheduler counts them.
fn tasks_cpu(pid: i32) -> Duration {
    let threads = ThreadTime::of_all(pid).expect("it runs");
    threads.values().map(|thread| thread.run).sum()
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).expect("below a second");
    Duration::new(time.tv_sec.cast_unsigned(), nanoseconds)
}

fn resident_kib(pid: &dyn Display) -> f64 {
    let status = ProcFile::read(pid, "status").expect("it runs");
    status.number("VmRSS:").expect("it has memory") as f64
}

/// Reads the total of `strace -c`: the number before the word.
fn total_calls(report: &str) -> u64 {
    let line = report
        .lines()
        .find(|line| line.ends_with("total"))
        .expect("a total");
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    fields
        .get(3)
        .and_then(|calls| calls.parse().ok())
        .expect("a number of calls")
}

fn isolate(pairs: u32) {
    // SAFETY: the process has one thread; only its network devices and mounts change.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }
        .expect("namespaces of its own need root");
    // Else sysfs would show the devices of the namespace it was mounted in.
    for arguments in ["--make-rprivate /", "-t sysfs sysfs /sys"] {
        let status = Command::new("mount").args(arguments.split(' ')).status();
        assert!(status.expect("mount runs").success(), "mount {arguments}");
    }
    let mut batch = String::from("link set lo up\n");
    for at in 0..pairs {
        writeln!(batch, "link add veth{at} type veth peer name peer{at}")
            .expect("strings take anything");
        writeln!(batch, "link set veth{at} up\nlink set peer{at} up")
            .expect("strings take anything");
    }
    let mut ip = Command::new(tool("ip", "iproute2"))
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("ip runs");
    ip.stdin
        .take()
        .expect("piped")
        .write_all(batch.as_bytes())
        .expect("ip reads");
    assert!(ip.wait().expect("it ends").success());
    // The kernel keeps announcing addresses and carriers for a while.
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(100));
    }
}
