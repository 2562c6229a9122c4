//! Tests of `feed`.

use super::{super::corpus::tests::recording, *};
use narthex_testkit::http;

fn corpus(bodies: &[&str]) -> Arc<Corpus> {
    let bodies: Vec<String> = bodies.iter().map(|body| (*body).to_owned()).collect();
    Arc::new(Corpus::parse(recording(1_000, &bodies)).unwrap())
}

#[test]
fn each_scrape_gets_the_next_round_once() {
    let corpus = corpus(&["# TYPE a gauge\na 1\n", "a 2\nb{x=\"y z\"} 3\n", "a 4\n"]);
    let feed = Feed::start(&corpus, "a", 2, Times::Scraped).unwrap();
    let url = format!("http://{}/metrics", feed.address());
    let get = || http::get(&url).unwrap();
    assert!(!feed.is_done());
    assert_eq!(get().text(), "# TYPE a gauge\na 1\n");
    assert_eq!(
        http::get(&url.replace("/metrics", "/")).unwrap().status,
        404
    );
    assert_eq!(get().text(), "a 2\nb{x=\"y z\"} 3\n");
    assert!(feed.is_done());
    assert_eq!(get().status, 503);
    let served = feed.served().unwrap();
    let samples: Vec<u64> = served.iter().map(|served| served.samples).collect();
    assert_eq!(samples, [1, 2]);
    assert_eq!(served[0].time_ms, served[0].at_ms);
}

#[test]
fn written_times_are_those_of_the_recording_shifted() {
    let corpus = corpus(&["# HELP a b\na 1\n\nb{x=\"}\"} 2 7\n", "a 2"]);
    let times = Times::Written { shift_ms: 5_000 };
    let feed = Feed::start(&corpus, "a", 9, times).unwrap();
    let url = format!("http://{}/metrics", feed.address());
    let gzip = [("Accept-Encoding", "gzip")];
    let answer = http::request("GET", &url, &gzip, &[]).unwrap();
    let text = crate::load::gzip::gunzip(&answer.body).unwrap();
    assert_eq!(text, b"# HELP a b\na 1 5000\n\nb{x=\"}\"} 2 5000\n");
    assert_eq!(http::get(&url).unwrap().text(), "a 2 6000");
    assert_eq!(feed.served().unwrap()[1].time_ms, 6_000);
}
