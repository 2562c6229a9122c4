//! Mutated paths, bodies, journals and persistence files: no panic, and the properties the fuzz functions check.

use narthex_push::fuzz;
use narthex_testkit::{mutate::Mutator, workspace_root};

fn example(name: &str) -> Vec<u8> {
    std::fs::read(workspace_root().join("testdata").join(name)).unwrap()
}

#[test]
fn mutated_paths() {
    let corpus: [&[u8]; 5] = [
        b"job/a/b/c",
        b"job@base64/L3Zhci90bXA/path@base64/=",
        b"job/%2F/U__a_2e_b/x%C3%BC",
        b"//job/./a/../b",
        b"job/a/__b/1",
    ];
    Mutator::new(0xb001).run(&corpus, 20_000, fuzz::fuzz_path);
}

#[test]
fn mutated_bodies() {
    let messages = b"\x1e\x0a\x01m\x12\x01h\x18\x01\"\x14\x0a\x06\x0a\x01a\x12\x01b\x12\x09\x09\0\0\0\0\0\0\xf0?";
    let corpus: [&[u8]; 5] = [
        b"# TYPE c counter\nc_total 1 1.5\nc_created 1\n# TYPE g gaugehistogram\ng_bucket{le=\"1\"} 1\ng_gcount 1\ng_gsum 1\n# EOF\n",
        b"# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_count 2\nh_sum 3\n",
        b"# HELP s Help.\n# TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_sum 3\nm{a=\"b\",instance=\"x\"} 1e3\n",
        b"m{\"k\":1} 1\nm 1 2\n",
        messages,
    ];
    Mutator::new(0xb002).run(&corpus, 8_000, fuzz::fuzz_body);
}

#[test]
fn mutated_batches() {
    let messages = b"\x2a\x0a\x01m\x18\x01\"\x11\x0a\x08\x0a\x03job\x12\x01a\x1a\x05\x09\0\0\0\0\"\x10\x0a\x08\x0a\x03job\x12\x01b\x12\x04\x09\0\0\0";
    let corpus: [&[u8]; 5] = [
        b"c_total{job=\"a\"} 1\n# TYPE c counter",
        b"# TYPE c counter\nc_total{job=\"a\",instance=\"1\"} 1\nc_total{job=\"b\"} 2\n# TYPE h histogram\nh_bucket{job=\"a\",le=\"1\"} 1\n",
        b"{\"m\",job=\"a\\\"\"} 1\n m { job = \"b\" , \"x\"=\"y\" } 2 3\nm 1\nm{job\n",
        b"# TYPE c counter\nc_total{job=\"a\"} 1\n# EOF\n",
        messages,
    ];
    Mutator::new(0xb005).run(&corpus, 8_000, fuzz::fuzz_batch);
}

#[test]
fn mutated_journals() {
    let small = example("formats/v1/push_small.journal");
    // A bare record reaches code that checksums keep mutated files from.
    let body = &small[24..];
    let second = example("formats/v2/push_small.journal");
    let corpus = [&small, body, &second, &second[24..]];
    Mutator::new(0xb003).run(&corpus, 8_000, fuzz::fuzz_journal);
}

#[test]
fn mutated_persistence_files() {
    let file = example("push/persisted.gob");
    Mutator::new(0xb004).run(&[&file], 8_000, fuzz::fuzz_gob);
}
