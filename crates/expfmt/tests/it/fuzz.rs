//! Mutated bodies: no panic, both rounds agree, and rendered output reads back.

use crate::messages::{Message, family, metric};
use narthex_expfmt::fuzz;
use narthex_testkit::mutate::Mutator;

pub(crate) const TEXT: &[&[u8]] = &[
    b"# HELP a Help.\n# TYPE a counter\na{x=\"1\",y=\"2\"} 1\na{x=\"1\",y=\"3\"} 2.5 1700000000000\nb NaN\n",
    b"{\"a.b\",\"c d\"=\"\xc3\xbc\"} +Inf\n# TYPE h histogram\nh_bucket{le=\"0.1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 1e-3\n",
    b"a{q=\"} \",r=\"\\\"\\\\\\n\"} -0\na{q=\"} \",r=\"x\"} 5\n\n#\n# EOF\nlast 4",
];

pub(crate) const OPENMETRICS: &[&[u8]] = &[
    b"# TYPE a_s counter\n# UNIT a_s s\n# HELP a_s Help.\na_s_total{x=\"1\"} 1 1.5 # {t=\"1\"} 0.5 1.25\na_s_created{x=\"1\"} 123.456\n# EOF\n",
    b"# TYPE h histogram\nh_bucket{le=\"1.0\"} 1 # {} 0.5\nh_bucket{le=\"+Inf\"} 2\nh_count 2\nh_sum 1e-3\n# TYPE i info\ni_info{a=\"b\"} 1\n# EOF",
    b"# TYPE g gaugehistogram\ng_bucket{le=\"+Inf\"} 3\ng_gcount 3\ng_gsum -5\n# TYPE s stateset\ns{s=\"x\"} 1\n{\"u.n\",\"l.n\"=\"v\"} 4\n# EOF\n",
];

#[test]
fn mutated_text_keeps_every_promise() {
    Mutator::new(0x7e87).run(TEXT, 4_000, fuzz::fuzz_text);
}

#[test]
fn mutated_openmetrics_keeps_every_promise() {
    Mutator::new(0x0e).run(OPENMETRICS, 4_000, fuzz::fuzz_openmetrics);
}

#[test]
fn mutated_bodies_have_in_common_what_their_lines_have() {
    let mut corpus: Vec<&[u8]> = TEXT.iter().chain(OPENMETRICS).copied().collect();
    corpus.push(b"# TYPE a counter\na{pod=\"p\",v=\"1\",x=\"1\"} 1\nb{x=\"2\",pod=\"p\",v=\"1\"} 2 5\nb{pod=\"p\",v=\"1\"} 2\n# EOF\n");
    corpus.push(
        b"h_bucket{le=\"1\",pod=\"p\"} 1\nh_bucket{pod=\"p\",le=\"1\"} 2\n{\"h.x\",pod=\"p\"} 1\n",
    );
    Mutator::new(0xc033).run(&corpus, 4_000, fuzz::fuzz_common);
}

#[test]
fn mutated_bodies_are_judged() {
    let corpus: Vec<&[u8]> = TEXT.iter().chain(OPENMETRICS).copied().collect();
    Mutator::new(0xc4ec).run(&corpus, 2_000, fuzz::fuzz_check);
}

#[test]
fn mutated_messages_keep_every_promise() {
    let bodies = crate::messages::corpus();
    let corpus: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    Mutator::new(0xb0f).run(&corpus, 4_000, fuzz::fuzz_protobuf);
}

/// Bodies of one origin, which come in another order, come back, and lack what others had.
#[test]
fn mutated_rounds_are_what_each_body_says() {
    let family = |name: &str, labels: &[&str]| {
        let metric = |label: &&str| {
            let value = Message::new().double(1, 2.0);
            metric(&[("i", *label)]).part(2, value)
        };
        family(name, 1)
            .parts(4, labels.iter().map(metric))
            .delimited()
    };
    let (a, b) = (family("a", &["1", "2", "3"]), family("b", &["1", "2"]));
    let (a_less, c) = (family("a", &["2"]), family("c", &["1", "4", "5"]));
    let messages = [&[&a, &b][..], &[&a, &b, &c], &[&c, &a_less], &[&b, &a]];
    let messages = messages.map(|families| families.iter().flat_map(|one| one.to_vec()).collect());
    let rounds = |format: u8, bodies: &[Vec<u8>]| {
        let mut all = vec![format];
        all.extend(bodies.join(&b"\xfe\xff"[..]));
        all
    };
    let mut corpus = vec![rounds(2, &messages)];
    corpus.push(rounds(2, &crate::messages::corpus()));
    for (format, bodies) in [(0, TEXT), (1, OPENMETRICS)] {
        let bodies: Vec<Vec<u8>> = bodies.iter().map(|body| body.to_vec()).collect();
        let turned = [bodies[1].clone(), bodies[0].clone(), bodies[1].clone()];
        corpus.push(rounds(format, &[&bodies[..], &turned].concat()));
    }
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    Mutator::new(0x40d5).run(&corpus, 6_000, fuzz::fuzz_rounds);
}

#[test]
fn mutated_headers_keep_every_promise() {
    let corpus: &[&[u8]] = &[
        b"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        b"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.5",
        b"Text/Plain; charset=\"utf-8\"",
    ];
    Mutator::new(0xacc).run(corpus, 4_000, fuzz::fuzz_headers);
}
