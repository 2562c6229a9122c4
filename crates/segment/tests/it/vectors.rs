//! What every client library writes for the same metrics is read alike, `clients/vectors/segment.txt`, and shown alike by
//! those that have a page of their own; so are exemplars, `clients/vectors/exemplars.txt`.

use narthex_client::{
    CounterVec, Format, Gauge, HistogramVec, Metric, NativeHistogramVec, NativeOptions, Registry,
    segment::{GaugeMerge, Publisher, SegmentOptions},
};
use narthex_expfmt::{Negotiated, Writer};
use narthex_segment::{Pool, PoolOptions};
use narthex_testkit::{TempDir, go_example, process::Spawn, tool, workspace_root};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

fn pool(dir: &Path) -> Pool {
    let mut options = PoolOptions::default();
    options.dir = dir.to_owned();
    Pool::new(options)
}

/// Renders a round as the server's text format, its lines sorted: series are in the order in which they were written. What
/// only the Lua library counts is left out, its own errors.
fn rendered(pool: &mut Pool, now_ms: i64) -> String {
    let frame = pool.collect(now_ms).expect("the directory is read");
    let mut page = Vec::new();
    Writer::new(frame.schema(), Negotiated::default()).write(frame, &mut page);
    let page = String::from_utf8(page).expect("text");
    sorted(&page, |line| !line.contains("nginx_metric_errors_total"))
}

fn sorted(text: &str, filter: impl Fn(&&str) -> bool) -> String {
    let mut lines: Vec<&str> = text.lines().filter(filter).collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

fn vector(name: &str) -> String {
    let path = workspace_root().join("clients/vectors").join(name);
    fs::read_to_string(path).expect("the vector is there")
}

/// Fails unless the segments in a directory are read as the vector says.
fn assert_vector(dir: &Path) {
    let mut pool = pool(dir);
    let expected = sorted(&vector("segment.txt"), |_| true);
    assert_eq!(rendered(&mut pool, 1), expected);
    assert_eq!(pool.problems(), []);
}

/// Returns a page's samples of the vector's metrics: sorted, without labels that readers add or that have no value.
fn samples(page: &str) -> Vec<String> {
    let vector = vector("segment.txt");
    let families: Vec<&str> = (vector.lines())
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let suffixes = ["", "_bucket", "_sum", "_count"];
    let mut lines: Vec<String> = (page.lines())
        .filter(|line| {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            let is = |family: &&str| {
                suffixes
                    .iter()
                    .any(|suffix| name == format!("{family}{suffix}"))
            };
            families.iter().any(is)
        })
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            let value: f64 = value.parse().expect("a number");
            let mut series = series.replace(['{', '}'], ",") + ",";
            for label in [",app=\"vector\",", ",worker=\"0\",", ",code=\"\","] {
                series = series.replace(label, ",");
            }
            format!("{} {value}", series.trim_end_matches(','))
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// Returns a page's series and buckets that have exemplars, with the exemplars' labels, sorted.
fn exemplars(page: &str) -> String {
    let line = |line: &str| {
        let (sample, exemplar) = line.split_once(" # ")?;
        let (series, _value) = sample.rsplit_once(' ')?;
        let (labels, _value_and_time) = exemplar.rsplit_once("} ")?;
        Some(format!("{series} # {labels}}}\n"))
    };
    let mut lines: Vec<String> = page.lines().filter_map(line).collect();
    lines.sort_unstable();
    lines.concat()
}

/// Fails unless a library's own pages are the vectors: text, and OpenMetrics if it has that.
fn assert_pages(text: &str, openmetrics: Option<&str>) {
    assert_eq!(samples(text), samples(&vector("segment.txt")), "{text}");
    if let Some(page) = openmetrics {
        assert_eq!(exemplars(page), vector("exemplars.txt"), "{page}");
    }
}

/// Fails unless the Rust client writes the vector with these histograms, which have observed its values.
fn assert_rust_writes_the_vector(sizes: &'static dyn Metric) {
    let help = "Requests: \"quoted\", \\ and\ngröße.";
    let requests = CounterVec::new("requests_total", help, &["code", "path"]);
    let first = requests.with(&["200", "/a\"\\\n"]);
    first.add_with_exemplar(2.5, [("trace_id", "a\"\\\nß")]);
    first.add(-1.0);
    requests.with(&["größe", "日本/🦀"]).inc();
    requests.with(&["", "\\n"]).add(3.0);
    requests.with(&["\t", "a,b}={\"c\\\"=1"]).add(4.0);
    let (open, free) = (Gauge::new("open", "Open."), Gauge::new("free", "Free."));
    open.set(-3.0);
    free.set(7.0);
    let registry = Registry::new();
    let register = |metric| registry.register_shared(metric).expect("a valid name");
    registry.register(sizes).expect("a valid name");
    register(Arc::new(requests));
    register(Arc::new(open));
    register(Arc::new(free));
    let dir = TempDir::new("vector");
    let mut options = SegmentOptions::new(dir.path(), "vector");
    options.worker = "0".to_owned();
    options.gauges.insert("open".to_owned(), GaugeMerge::Sum);
    let mut publisher = Publisher::create(&options).expect("a new segment");
    publisher
        .publish(&registry)
        .expect("this process created it");
    assert_vector(dir.path());
    let page = |format| {
        let mut page = Vec::new();
        registry.encode(format, &mut page);
        String::from_utf8(page).expect("text")
    };
    assert_pages(&page(Format::Text), Some(&page(Format::OpenMetrics)));
}

#[test]
fn the_rust_client_writes_the_vector() {
    static SIZES: HistogramVec<1> = HistogramVec::new("size", "Sizes.", &["kind"], &[0.5, 1.5]);
    for value in [0.5, 9.0, -1.0] {
        SIZES.with(&["b"]).observe(value);
    }
    let sizes = SIZES.with(&["b"]);
    sizes.observe_with_exemplar(0.75, [("trace_id", "日本")]);
    assert_rust_writes_the_vector(&SIZES);
}

#[test]
fn a_native_histogram_writes_its_classic_buckets() {
    const OPTIONS: NativeOptions = NativeOptions::new().bounds(&[0.5, 1.5]);
    static SIZES: NativeHistogramVec<1> =
        NativeHistogramVec::new("size", "Sizes.", &["kind"], OPTIONS);
    for value in [0.5, 9.0, -1.0] {
        SIZES.with(&["b"]).observe(value);
    }
    let sizes = SIZES.with(&["b"]);
    sizes.observe_with_exemplar(0.75, [("trace_id", "日本")]);
    assert_rust_writes_the_vector(&SIZES);
}

/// Compiles a program as C and as C++, and tests it.
fn with_compiled(source: &str, test: impl Fn(&Path, &TempDir)) {
    for [compiler, language, standard] in [["cc", "c", "-std=c99"], ["c++", "c++", "-std=c++11"]] {
        let dir = TempDir::new("vector");
        let program = dir.join("program");
        let mut command = Command::new(compiler);
        let command = command.args([
            "-x",
            language,
            standard,
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
        ]);
        let command = command
            .arg("-o")
            .arg(&program)
            .arg(workspace_root().join("clients/c").join(source));
        assert!(
            command
                .status()
                .expect("a C and a C++ compiler are installed")
                .success()
        );
        test(&program, &dir);
    }
}

#[test]
fn the_c_header_writes_the_vector() {
    with_compiled("example.c", |program, dir| {
        let segments = dir.join("segments");
        let mut command = Command::new(program);
        assert_writes_the_vector(command.arg(&segments).arg("vector"), &segments);
    });
}

/// A record that a reader does not take ends its segment there, so none may be written.
#[test]
fn the_c_header_refuses_what_readers_do() {
    with_compiled("tests/refuse.c", |program, dir| {
        let segments = dir.join("segments");
        let run = Spawn::new(program)
            .arg(&segments)
            .run(Duration::from_secs(60));
        assert_eq!(run.exit.code, Some(0), "{}{}", run.stdout, run.stderr);
        let mut pool = pool(&segments);
        let page = rendered(&mut pool, 1);
        assert!(page.ends_with("\nlast_total{app=\"refuse\"} 1\n"), "{page}");
        assert_eq!(page.matches("app=").count(), 3, "{page}");
        assert_eq!(pool.problems(), []);
    });
}

/// Fails unless a program writes the vector, waits, shows it on its own pages if it has them, and ends.
fn assert_writes_the_vector(command: &mut Command, segments: &Path) {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child: Child = piped.spawn().expect("the program starts");
    let mut ready = String::new();
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    lines.read_line(&mut ready).expect("a line");
    assert_vector(segments);
    drop(child.stdin.take());
    let mut pages = String::new();
    lines.read_to_string(&mut pages).expect("text");
    assert!(child.wait().expect("it ends").success());
    let mut pages = pages.split("\n---\n");
    if let Some(text) = pages.next().filter(|text| !text.is_empty()) {
        assert_pages(text, pages.next());
    }
    let left = rendered(&mut pool(segments), 2);
    assert!(
        !left.contains(" gauge\n") && left.contains("size_count"),
        "its gauges are gone: {left}"
    );
}

#[test]
fn the_lua_library_writes_the_vector() {
    let dir = TempDir::new("vector");
    let segments = dir.join("segments");
    let mut command = Command::new(tool("luajit", "luajit2"));
    let script = workspace_root().join("clients/lua/tests/vector.lua");
    assert_writes_the_vector(command.arg(script).arg(&segments), &segments);
}

#[test]
fn the_go_package_writes_the_vector() {
    let dir = TempDir::new("vector");
    let segments = dir.join("segments");
    let mut command = Command::new(go_example("segment"));
    assert_writes_the_vector(command.arg(&segments).arg("vector"), &segments);
}

/// `parts` says whether a forked child counts a half of it.
fn assert_python_writes_the_vector(parts: &[&str]) {
    assert!(
        Path::new("/usr/lib/python3/dist-packages/prometheus_client").is_dir(),
        "the Python client is missing. Install it with:\napt-get install -y python3-prometheus-client"
    );
    let dir = TempDir::new("vector");
    let segments = dir.join("segments");
    let mut command = Command::new("/usr/bin/python3");
    let script = workspace_root().join("clients/python/tests/vector.py");
    // No bytecode beside the sources.
    let command = command.arg("-B").arg(script).arg(&segments).args(parts);
    assert_writes_the_vector(command, &segments);
}

#[test]
fn the_python_module_writes_the_vector() {
    assert_python_writes_the_vector(&[]);
}

#[test]
fn a_python_process_and_its_forked_child_write_the_vector() {
    assert_python_writes_the_vector(&["fork"]);
}

#[test]
fn the_lua_library_passes_its_own_tests() {
    let dir = TempDir::new("lua");
    let tests = workspace_root().join("clients/lua/tests/unit.lua");
    let run = Spawn::new(tool("luajit", "luajit2"))
        .arg(tests)
        .arg(dir.path())
        .run(Duration::from_secs(120));
    assert_eq!(run.exit.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains(", 0 failed"), "{}", run.stdout);
}
