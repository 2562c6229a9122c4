//! What every client library writes for the same metrics is read alike: `clients/vectors/segment.txt`.

use narthex_client::{
    CounterVec, Gauge, HistogramVec, Metric, NativeHistogramVec, NativeOptions, Registry,
    segment::{GaugeMerge, Publisher, SegmentOptions},
};
use narthex_model::{ColumnId, Frame};
use narthex_segment::{Pool, PoolOptions};
use narthex_testkit::{TempDir, go_example, process::Spawn, tool, workspace_root};
use std::{
    fs,
    io::{BufRead as _, BufReader},
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

fn shown(frame: &Frame) -> Vec<String> {
    let line = |at: usize| {
        let id = ColumnId(u32::try_from(at).expect("few columns"));
        let labels = frame.schema().column(id).set.to_string();
        format!("{} {}", labels.replace(", ", ","), frame.values()[at])
    };
    let mut lines: Vec<String> = frame.present().iter().map(line).collect();
    // Only the Lua library counts its own errors.
    lines.retain(|line| !line.starts_with("nginx_metric_errors_total"));
    lines.sort_unstable();
    lines
}

/// Fails unless the segments in a directory are read as the vector says.
fn assert_vector(dir: &Path) {
    let path = workspace_root().join("clients/vectors/segment.txt");
    let mut pool = pool(dir);
    let lines = shown(pool.collect(1).expect("the directory is read")).join("\n") + "\n";
    assert_eq!(
        lines,
        fs::read_to_string(path).expect("the vector is there")
    );
    assert_eq!(pool.problems(), []);
}

/// Fails unless the Rust client writes the vector with these histograms, which have observed its values.
fn assert_rust_writes_the_vector(sizes: &'static dyn Metric) {
    let requests = CounterVec::new("requests_total", "R.", &["code", "path"]);
    requests.with(&["200", "/a\"\\\n"]).add(2.5);
    requests.with(&["200", "/a\"\\\n"]).add(-1.0);
    let (open, free) = (Gauge::new("open", "O."), Gauge::new("free", "F."));
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
}

#[test]
fn the_rust_client_writes_the_vector() {
    static SIZES: HistogramVec<1> = HistogramVec::new("size", "S.", &["kind"], &[0.5, 1.5]);
    for value in [0.5, 0.75, 9.0, -1.0] {
        SIZES.with(&["b"]).observe(value);
    }
    assert_rust_writes_the_vector(&SIZES);
}

#[test]
fn a_native_histogram_writes_its_classic_buckets() {
    const OPTIONS: NativeOptions = NativeOptions::new().bounds(&[0.5, 1.5]);
    static SIZES: NativeHistogramVec<1> = NativeHistogramVec::new("size", "S.", &["kind"], OPTIONS);
    for value in [0.5, 0.75, 9.0, -1.0] {
        SIZES.with(&["b"]).observe(value);
    }
    assert_rust_writes_the_vector(&SIZES);
}

#[test]
fn the_c_header_writes_the_vector() {
    let dir = TempDir::new("vector");
    let program = dir.join("example");
    let source = workspace_root().join("clients/c/example.c");
    let flags = [
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-o",
    ];
    let mut compiler = Command::new("cc");
    let compiler = compiler.args(flags).arg(&program).arg(source);
    assert!(
        compiler
            .status()
            .expect("a C compiler is installed")
            .success()
    );
    let segments = dir.join("segments");
    fs::create_dir(&segments).unwrap();
    let mut command = Command::new(program);
    assert_writes_the_vector(command.arg(&segments).arg("vector"), &segments);
}

/// Fails unless a program writes the vector, waits, and ends.
fn assert_writes_the_vector(command: &mut Command, segments: &Path) {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child: Child = piped.spawn().expect("the program starts");
    let mut ready = String::new();
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    lines.read_line(&mut ready).expect("a line");
    assert_vector(segments);
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    let mut pool = pool(segments);
    let left = shown(pool.collect(2).expect("the directory is read"));
    assert_eq!(left.len(), 6, "its gauges are gone");
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
