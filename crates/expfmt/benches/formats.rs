//! Speed of the formats: first parse, steady state, other orders, and rendering.
//!
//! `cargo bench -p narthex-expfmt --bench formats`; the corpus is the fleet (850 targets × 588 series) of the testkit.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

use narthex_expfmt::{Format, KeepLabels, Negotiated, ParseOptions, Parser, Round, Writer};
use narthex_model::LabelSet;
use narthex_testkit::{fleet::Target, rng::SplitMix64};
use std::{hint::black_box, time::Instant};

const TARGETS: usize = 850;
const SERIES: usize = 588;
const ROUNDS: usize = 5;

/// A parser and its last round, as a target has them.
struct Origin {
    parser: Parser,
    round: Round,
}

impl Origin {
    fn new(common: LabelSet) -> Self {
        Self {
            parser: Parser::new(common, ParseOptions::default()),
            round: Round::default(),
        }
    }

    fn parse(&mut self, format: Format, body: &[u8]) -> &Round {
        self.parser
            .parse_into(&mut self.round, format, body, 0, &mut KeepLabels)
            .expect("the fleet parses");
        &self.round
    }
}

fn main() {
    let mut targets: Vec<Target> = (0..TARGETS)
        .map(|index| Target::new(index, 0, SERIES))
        .collect();
    let common = |index: usize| {
        let instance = format!("10.0.{}.{}:8080", index / 250, index % 250);
        LabelSet::new([("job", "fleet"), ("instance", instance.as_str())])
    };
    let mut origins: Vec<Origin> = (0..TARGETS).map(|at| Origin::new(common(at))).collect();
    let mut bodies = render(&mut targets);
    report("first sight", &bodies, 1, || {
        for (origin, body) in origins.iter_mut().zip(&bodies) {
            let round = origin.parse(Format::Text, body.as_bytes());
            assert_eq!(round.stats.added, SERIES);
        }
    });
    // Different values in every round; the bodies of all targets together are far larger than any cache.
    for _ in 0..2 {
        bodies = render(&mut targets);
        report("steady", &bodies, ROUNDS, || {
            for (origin, body) in origins.iter_mut().zip(&bodies) {
                let round = origin.parse(Format::Text, body.as_bytes());
                assert_eq!(round.stats.expected, SERIES);
                black_box(round.frame.values());
            }
        });
    }
    let turned: Vec<String> = bodies.iter().map(|body| reversed(body)).collect();
    report(
        "steady, lines in reverse of the template",
        &turned,
        1,
        || {
            for (origin, body) in origins.iter_mut().zip(&turned) {
                let round = origin.parse(Format::Text, body.as_bytes());
                assert_eq!((round.stats.found, round.stats.added), (SERIES, 0));
            }
        },
    );
    other_orders(&bodies, &common);
    report("newlines only (memchr), for scale", &bodies, ROUNDS, || {
        for body in &bodies {
            black_box(memchr::memchr_iter(b'\n', body.as_bytes()).count());
        }
    });
    let held: usize = origins
        .iter()
        .map(|origin| origin.parser.heap_bytes())
        .sum();
    println!(
        "parser state {:.1} bytes/series",
        held as f64 / (TARGETS * SERIES) as f64
    );
    for (origin, body) in origins.iter_mut().zip(&bodies) {
        origin.parse(Format::Text, body.as_bytes());
    }
    let frames: Vec<_> = origins.iter().map(|origin| &origin.round.frame).collect();
    let mut writers: Vec<Writer> = frames
        .iter()
        .map(|frame| Writer::new(frame.schema(), Negotiated::default()))
        .collect();
    for (what, accept) in OTHERS {
        other_format(what, accept, &mut targets, &common);
    }
    // Overwrite the page of the last scrape: growing a buffer is not part of a steady scrape.
    let mut page = vec![0; bodies.iter().map(String::len).sum::<usize>() * 2];
    report("render", &bodies, ROUNDS, || {
        page.clear();
        for (writer, frame) in writers.iter_mut().zip(&frames) {
            writer.write(frame, &mut page);
        }
    });
}

/// The other formats, as this crate writes them.
const OTHERS: [(&str, &str); 2] = [
    ("OpenMetrics", "application/openmetrics-text;version=1.0.0"),
    (
        "protobuf",
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
    ),
];

/// Measures first parse, steady state and rendering of the fleet in another format.
fn other_format(
    what: &str,
    accept: &str,
    targets: &mut [Target],
    common: &dyn Fn(usize) -> LabelSet,
) {
    let style = Negotiated::from_accept(accept);
    let mut texts: Vec<Origin> = (0..TARGETS).map(|at| Origin::new(common(at))).collect();
    let mut writers: Vec<Option<Writer>> = (0..TARGETS).map(|_| None).collect();
    let mut bodies = |targets: &mut [Target]| -> Vec<Vec<u8>> {
        let mut page = String::new();
        let body = |((target, text), writer): ((&mut Target, &mut Origin), &mut Option<Writer>)| {
            target.step();
            page.clear();
            target.render(&mut page);
            let round = text.parse(Format::Text, page.as_bytes());
            let writer = writer.get_or_insert_with(|| Writer::new(round.frame.schema(), style));
            let mut body = Vec::new();
            writer.write(&round.frame, &mut body);
            Writer::end(style, &mut body);
            body
        };
        targets
            .iter_mut()
            .zip(&mut texts)
            .zip(&mut writers)
            .map(body)
            .collect()
    };
    // Rendered output carries the target's labels; a page does not.
    let mut origins: Vec<Origin> = (0..TARGETS)
        .map(|_| Origin::new(LabelSet::empty()))
        .collect();
    let first = bodies(targets);
    report(&format!("{what}: first sight"), &first, 1, || {
        for (origin, body) in origins.iter_mut().zip(&first) {
            let round = origin.parse(style.format, body);
            assert_eq!(round.stats.added, round.stats.lines);
        }
    });
    // Messages always have a histogram's count, sum and last bucket, which the fleet leaves out.
    let samples: usize = origins.iter().map(|origin| origin.round.stats.lines).sum();
    println!("{what}: {samples} samples, not {}", TARGETS * SERIES);
    for _ in 0..2 {
        let later = bodies(targets);
        report(&format!("{what}: steady"), &later, ROUNDS, || {
            for (origin, body) in origins.iter_mut().zip(&later) {
                let round = origin.parse(style.format, body);
                assert_eq!(round.stats.expected, round.stats.lines);
                black_box(round.frame.values());
            }
        });
    }
    let held: usize = origins
        .iter()
        .map(|origin| origin.parser.heap_bytes())
        .sum();
    println!(
        "{what}: parser state {:.1} bytes/series",
        held as f64 / (TARGETS * SERIES) as f64
    );
}

/// Measures bodies that lack a tenth of their lines every third round, and such with another order each time.
fn other_orders(bodies: &[String], common: &dyn Fn(usize) -> LabelSet) {
    let mut rng = SplitMix64::new(7);
    let mut orders = |orders: usize, change: Change<'_>| {
        let rounds = (0..orders).map(|round| {
            let of_round = bodies.iter().map(|body| {
                let mut lines: Vec<&str> = body.split_inclusive('\n').collect();
                lines.retain(|line| !line.starts_with('#'));
                change(round, &mut lines, &mut rng);
                lines.concat()
            });
            of_round.collect()
        });
        rounds.collect::<Vec<Vec<String>>>()
    };
    let absent = orders(3, &mut |round, lines, rng| {
        lines.retain(|_| round < 2 || !rng.one_in(10));
    });
    let shuffled = orders(4, &mut |_, lines, rng| {
        for at in (1..lines.len()).rev() {
            lines.swap(at, rng.index(at + 1));
        }
    });
    for (what, rounds) in [
        ("a tenth absent every third round", absent),
        ("shuffled", shuffled),
    ] {
        let mut origins: Vec<Origin> = (0..TARGETS).map(|at| Origin::new(common(at))).collect();
        let mut parse = |bodies: &[String]| {
            for (origin, body) in origins.iter_mut().zip(bodies) {
                let round = origin.parse(Format::Text, body.as_bytes());
                black_box(round.frame.values());
            }
        };
        rounds.iter().for_each(|bodies| parse(bodies));
        let all: Vec<&String> = rounds.iter().flatten().collect();
        report(what, &all, ROUNDS, || {
            rounds.iter().for_each(|bodies| parse(bodies));
        });
    }
}

type Change<'c> = &'c mut dyn FnMut(usize, &mut Vec<&str>, &mut SplitMix64);

fn render(targets: &mut [Target]) -> Vec<String> {
    let body = |target: &mut Target| {
        target.step();
        let mut body = String::new();
        target.render(&mut body);
        body
    };
    targets.iter_mut().map(body).collect()
}

fn reversed(body: &str) -> String {
    body.lines()
        .rev()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn report<B: AsRef<[u8]>>(what: &str, bodies: &[B], rounds: usize, mut run: impl FnMut()) {
    let bytes: usize = bodies.iter().map(|body| body.as_ref().len()).sum();
    let start = Instant::now();
    (0..rounds).for_each(|_| run());
    let seconds = start.elapsed().as_secs_f64() / rounds as f64;
    let samples = bodies.len() as f64 * SERIES as f64;
    println!(
        "{what:40} {:7.1} ns/sample {:7.0} MB/s  ({:.0} bytes/line)",
        seconds * 1e9 / samples,
        bytes as f64 / seconds / 1e6,
        bytes as f64 / samples
    );
}
