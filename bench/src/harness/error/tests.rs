//! Tests of `error`.

use super::*;

#[test]
fn every_variant_reads_as_a_sentence() {
    let io = BenchError::io("read /x")(io::Error::other("gone"));
    assert!(io.source().is_some());
    let text = |name: &str| name.to_owned();
    let cases = [
        (BenchError::Usage(text("no such flag")), "no such flag", 2),
        (io, "read /x: gone", 1),
        (
            BenchError::Server {
                name: text("narthex"),
                what: text("ended"),
                log: String::new(),
            },
            "narthex ended",
            1,
        ),
        (
            BenchError::Server {
                name: text("narthex"),
                what: text("ended"),
                log: text("oh"),
            },
            "narthex ended; the end of its output:\noh",
            1,
        ),
        (
            BenchError::Answer {
                name: text("narthex"),
                query: text("up"),
                what: text("with 1 instead of 2"),
            },
            "narthex answers \"up\" with 1 instead of 2",
            1,
        ),
        (
            BenchError::Record {
                name: text("x.json"),
                what: text("cut off"),
            },
            "x.json: cut off",
            1,
        ),
        (
            BenchError::Refused(text("late")),
            "the result is refused: late",
            3,
        ),
    ];
    for (error, expected, code) in cases {
        assert_eq!(
            (error.to_string().as_str(), error.exit_code()),
            (expected, code)
        );
    }
}
