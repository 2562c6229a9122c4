//! Drives the fuzz entry points with seeded mutations.

use narthex_client::fuzz::{fuzz_accept, fuzz_escape, fuzz_proc};

use narthex_testkit::mutate::Mutator;

#[test]
fn mutated_files_of_proc_are_survived() {
    let read = |name| std::fs::read(format!("/proc/self/{name}")).unwrap();
    let (stat, limits, auxv) = (read("stat"), read("limits"), read("auxv"));
    let corpus: &[&[u8]] = &[&stat, &limits, &auxv, b"btime 5\n1 (a) b\n"];
    Mutator::new(42).run(corpus, 12_000, fuzz_proc);
}

#[test]
fn mutated_texts_stay_in_their_lines() {
    let corpus: &[&[u8]] = &[b"a\nb\\c\"d{e}\xc3\xa9", b"\n\\\") (-9{}\0"];
    Mutator::new(43).run(corpus, 3_000, fuzz_escape);
}

#[test]
fn mutated_accept_headers_are_survived() {
    let corpus: &[&[u8]] = &[
        b"application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        b"application/vnd.google.protobuf; proto=\"io.prometheus.client.MetricFamily\"; encoding=delimited",
    ];
    Mutator::new(44).run(corpus, 3_000, fuzz_accept);
}
