//! Tests of the test tools: each shows that the tool also fails.

mod alloc;
mod client;
mod exposition;
mod fleet;
mod http;
mod mutate;
mod proc;
mod process;
mod protobuf;

use narthex_testkit::alloc::Counting;
use narthex_testkit::{LineServer, TempDir, corpora, go_program, rng::SplitMix64, tool};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn temp_dir_is_fresh_and_goes_away() {
    let a = TempDir::new("it");
    let b = TempDir::new("it");
    assert_ne!(a.path(), b.path());
    let file = a.write("deep/er/file", "x");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
    let path = a.path().to_path_buf();
    drop(a);
    assert!(!path.exists());
    assert!(b.path().exists());
}

#[test]
fn splitmix_matches_its_published_sequence() {
    let mut rng = SplitMix64::new(1_234_567);
    let got: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
    assert_eq!(
        got,
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423
        ]
    );
    assert!((0..1000).all(|_| rng.below(10) < 10 && (0.0..1.0).contains(&rng.unit_f64())));
    let mut items: Vec<u32> = (0..100).collect();
    rng.shuffle(&mut items);
    assert_ne!(items, (0..100).collect::<Vec<_>>());
    items.sort_unstable();
    assert_eq!(items, (0..100).collect::<Vec<_>>());
}

#[test]
fn files_are_found_recursively_in_order() {
    let dir = TempDir::new("files");
    dir.write("b/x.test", "");
    dir.write("a.test", "");
    dir.write("b/y.txt", "");
    assert_eq!(
        corpora::files(dir.path(), ".test"),
        [dir.join("a.test"), dir.join("b/x.test")]
    );
    assert_eq!(corpora::files(dir.path(), "").len(), 3);
}

#[test]
#[should_panic(expected = "only 1")]
fn report_refuses_more_than_there_are() {
    corpora::report("self-test", 2, 1);
}

#[test]
#[should_panic(expected = "apt-get install -y no-such-package")]
fn a_missing_tool_names_its_package() {
    let _ = tool("no-such-program", "no-such-package");
}

#[test]
fn the_oracle_answers_line_by_line() {
    let mut oracle = LineServer::start(&go_program("oracle"));
    assert_eq!(
        oracle.ask(r#"{"expr": "1+1"}"#),
        r#"{"ok":true,"string":"1 + 1","type":"scalar"}"#
    );
    assert!(oracle.ask(r#"{"expr": "1+"}"#).contains(r#""ok":false"#));
}
