//! Tests of `answer`.

use super::*;
use narthex_testkit::{mutate, rng::SplitMix64};

const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED: &[u8] =
    b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
    3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\n";
const EMPTY: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nServer: x\r\n\r\n";
const OLD: &[u8] = b"HTTP/1.0 200 OK\r\n\r\nuntil the end";

/// Parses a response in pieces of the lengths that `cut` returns.
fn read(bytes: &[u8], mut cut: impl FnMut() -> usize) -> Result<Option<Answer>, NotHttp> {
    let mut reader = AnswerReader::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let piece = cut().clamp(1, rest.len());
        if let Some(answer) = reader.feed(&rest[..piece])? {
            return match &rest[piece..] {
                [] => Ok(Some(answer)),
                _ => Err("bytes follow the answer"),
            };
        }
        rest = &rest[piece..];
    }
    Ok(reader.end())
}

#[test]
fn every_framing_has_its_length_and_fate() {
    let answer = |status, body_bytes, keeps_alive| {
        Ok(Some(Answer {
            status,
            body_bytes,
            keeps_alive,
        }))
    };
    assert_eq!(read(LENGTH, || 1 << 20), answer(200, 5, true));
    assert_eq!(read(CHUNKED, || 1 << 20), answer(503, 19, false));
    assert_eq!(read(EMPTY, || 1 << 20), answer(204, 0, true));
    assert_eq!(read(OLD, || 1 << 20), answer(200, 13, false));
    let (cut, long) = (&LENGTH[..LENGTH.len() - 1], [LENGTH, b"x"].concat());
    assert_eq!(read(cut, || 1 << 20), Ok(None));
    assert_eq!(read(&long, || 1 << 20), Err("bytes follow the answer"));
    assert_eq!(read(b"SSH-2.0-x\r\n\r\n", || 3), Err("no head of HTTP/1"));
}

#[test]
fn a_connection_gives_one_answer_after_another() {
    let mut reader = AnswerReader::default();
    for _ in 0..3 {
        assert_eq!(reader.feed(LENGTH).unwrap().unwrap().body_bytes, 5);
        assert_eq!(reader.feed(EMPTY).unwrap().unwrap().status, 204);
        assert_eq!(reader.feed(CHUNKED).unwrap().unwrap().body_bytes, 19);
    }
}

#[test]
fn pieces_change_nothing() {
    let mut rng = SplitMix64::new(3);
    for whole in [LENGTH, CHUNKED, EMPTY, OLD] {
        let expected = read(whole, || 1 << 20);
        for longest in [1, 2, 3, 7, 40] {
            for _ in 0..20 {
                let got = read(whole, || 1 + rng.index(longest));
                assert_eq!(got, expected, "in pieces of at most {longest}");
            }
        }
    }
}

#[test]
fn damaged_answers_are_read_or_refused_and_alike_in_pieces() {
    let mut rng = SplitMix64::new(12);
    let iterations = narthex_testkit::scaled(5_000);
    mutate::Mutator::new(11).run(&[LENGTH, CHUNKED, EMPTY, OLD], iterations, |bytes| {
        let whole = read(bytes, || usize::MAX);
        let pieces = read(bytes, || 1 + rng.index(9));
        // The two may see different amounts of bytes after a malformed place; the responses are the same.
        if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
            assert_eq!(whole, pieces);
        }
    });
}
