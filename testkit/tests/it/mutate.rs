//! The mutator repeats itself, reaches what it should, and reports small inputs.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use narthex_testkit::mutate::Mutator;
use narthex_testkit::rng::SplitMix64;
use narthex_testkit::scaled;

#[test]
fn same_seed_same_inputs() {
    let corpus: [&[u8]; 2] = [b"http_requests_total 1\n", b"up{job=\"a\"} 0\n"];
    let collect = || {
        let mut rng = SplitMix64::new(7);
        let mut out = Vec::new();
        let mut next = || {
            Mutator::new(7).mutate(&mut rng, &corpus, &mut out);
            out.clone()
        };
        (0..500).map(|_| next()).collect::<Vec<_>>()
    };
    assert_eq!(collect(), collect());
    let distinct: HashSet<_> = collect().into_iter().collect();
    assert!(distinct.len() > 400, "{} distinct inputs", distinct.len());
}

#[test]
fn a_run_feeds_the_corpus_and_its_mutations() {
    let mut seen = Vec::new();
    Mutator::new(7).run(&[b"a", b"b"], 1000, |bytes| seen.push(bytes.to_vec()));
    assert_eq!(&seen[..2], [b"a", b"b"]);
    assert_eq!(seen.len() as u64, 2 + scaled(1000));
}

#[test]
fn inputs_stay_within_the_limit() {
    let long = vec![b'x'; 200];
    let mutator = Mutator::new(3).max_len(100);
    let mut rng = SplitMix64::new(3);
    let mut out = Vec::new();
    for _ in 0..1000 {
        mutator.mutate(&mut rng, &[&long], &mut out);
        assert!(out.len() <= 100);
    }
}

#[test]
fn a_panic_is_reported_with_a_minimal_input() {
    let corpus: [&[u8]; 1] = [b"aaaaaaaaaaaaaaaaaa#aaaaaaaaaaaaaaaaaa"];
    let failure = catch_unwind(AssertUnwindSafe(|| {
        Mutator::new(1).run(&corpus, 100_000, |bytes| {
            assert!(!bytes.contains(&b'#'), "found a hash");
        });
    }))
    .unwrap_err();
    let text = failure.downcast_ref::<String>().unwrap();
    assert!(
        text.contains("found a hash") && text.contains("minimised to 1 bytes:\nb\"#\""),
        "{text}"
    );
}

#[test]
fn a_slow_input_fails() {
    let failure = catch_unwind(|| {
        Mutator::new(1)
            .slow(Duration::from_millis(1))
            .run(&[b"a"], 1, |_| std::thread::sleep(Duration::from_millis(5)));
    })
    .unwrap_err();
    assert!(
        failure
            .downcast_ref::<String>()
            .unwrap()
            .contains("limit 1ms")
    );
}

/// The client reads whatever a server under test sends.
#[test]
fn http_answers_never_panic_the_client() {
    let corpus: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    ];
    Mutator::new(11).run(&corpus, 20_000, |mut bytes| {
        let _ = narthex_testkit::http::read_response(&mut bytes, true);
    });
}
