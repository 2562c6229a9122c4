//! Drives the crate's fuzz targets with seeded mutations.

use narthex_discovery::fuzz;
use narthex_testkit::mutate::Mutator;

#[test]
fn groups() {
    let corpus: &[&[u8]] = &[
        br#"[{"targets":["a:1","b:2"],"labels":{"x":"y"}},{"targets":[]}]"#,
        br#"[null]"#,
        b"- targets: ['a:1', b:2]\n  labels:\n    x: y\n    n: 1\n- targets: []\n",
        b"# nothing\n---\n",
    ];
    Mutator::new(21)
        .max_len(2048)
        .run(corpus, 5_000, fuzz::fuzz_groups);
}

#[test]
fn dns_answer() {
    let corpus: &[&[u8]] = &[
        b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x01a\x07example\0\0\x21\0\x01\xc0\x0c\0\x21\0\x01\0\0\0\x3c\0\x0b\0\x01\0\x02\x1f\x90\x02h1\xc0\x0e",
        b"\x12\x34\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x07example\0\0\x21\0\x01\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x0c\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\0\0\x01",
        b"\0\0\x83\x80\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x21\0\x01",
    ];
    Mutator::new(22)
        .max_len(600)
        .run(corpus, 20_000, fuzz::fuzz_dns_answer);
}

#[test]
fn resolv_conf() {
    let corpus: &[&[u8]] = &[
        b"nameserver 10.0.0.1\nsearch a.example b.example\noptions ndots:5 timeout:2\n",
        b"# c\n; d\ndomain x\nnameserver ::1\nnameserver [::1]:53\n",
    ];
    Mutator::new(23)
        .max_len(512)
        .run(corpus, 10_000, fuzz::fuzz_resolv_conf);
}

#[test]
fn kubernetes() {
    let corpus: &[&[u8]] = &[
        br#"{"metadata":{"resourceVersion":"7","continue":""},"items":[{"metadata":{"name":"a"},"spec":{"containers":null},"status":{"podIP":"1.2.3.4"}}]}"#,
        b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}\n{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n",
        br#"{"type":"MODIFIED","object":{"endpoints":[{"addresses":["x"],"conditions":{"ready":null}}],"ports":[{"port":1}]}}"#,
    ];
    Mutator::new(25)
        .max_len(2048)
        .run(corpus, 10_000, fuzz::fuzz_kubernetes);
}

#[test]
fn watch() {
    let corpus: &[&[u8]] = &[
        b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}\n\n{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"2\"}}}\n{\"type\":",
        b"\n\n\nx\n",
    ];
    Mutator::new(28)
        .max_len(2048)
        .run(corpus, 5_000, fuzz::fuzz_watch);
}

#[test]
fn selector() {
    let corpus: &[&[u8]] = &[b"a,!b,c=d,e!=f,g in (h,i),j notin (k),l>1", b"x.io/y == z"];
    Mutator::new(26)
        .max_len(256)
        .run(corpus, 20_000, fuzz::fuzz_selector);
}

#[test]
fn kubeconfig() {
    let corpus: &[&[u8]] = &[
        b"current-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\nclusters: [{name: b, cluster: {server: 'http://k', certificate-authority-data: YQ==}}]\nusers: [{name: c, user: {token: t}}]\n",
        b"{}",
    ];
    Mutator::new(27)
        .max_len(1024)
        .run(corpus, 3_000, fuzz::fuzz_kubeconfig);
}
