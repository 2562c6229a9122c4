//! Tests of the decoder on input that arrives in pieces of every size.

use super::Chunked;

/// Decodes `wire` arriving `piece` bytes at a time; returns the body and the bytes after its end.
fn decode(wire: &[u8], piece: usize, limit_bytes: usize) -> Result<(Vec<u8>, usize), String> {
    let mut chunks = Chunked::new(limit_bytes);
    let (mut buffer, mut done) = (Vec::new(), 0);
    for (turn, input) in wire.chunks(piece).enumerate() {
        buffer.extend_from_slice(input);
        let after = chunks
            .advance(&mut buffer, &mut done)
            .map_err(|e| e.to_string())?;
        buffer.truncate(done);
        if chunks.is_end() {
            return Ok((buffer, after + wire.len() - (turn * piece + input.len())));
        }
    }
    Err("unfinished".to_owned())
}

#[test]
fn pieces_of_any_size_decode_alike() {
    let wire = b"5\r\nhello\r\n1;ext=\"v\"\r\n,\r\n00000006 \r\n world\r\n0;x\r\nA: b\r\n\r\nafter";
    for piece in 1..=wire.len() {
        let decoded = decode(wire, piece, 100).expect("well-formed");
        assert_eq!(decoded, (b"hello, world".to_vec(), 5), "pieces of {piece}");
    }
    assert_eq!(
        decode(b"3\nabc\n0\n\n", 2, 3).expect("bare line feeds"),
        (b"abc".to_vec(), 0)
    );
    assert_eq!(decode(b"0\r\n\r\n", 9, 0).expect("empty"), (Vec::new(), 0));
}

#[test]
fn limit_counts_data_only_and_exactly() {
    let wire = b"2;long-extension-that-does-not-count\r\nab\r\n2\r\ncd\r\n0\r\n\r\n";
    assert!(decode(wire, 100, 4).is_ok());
    let error = decode(wire, 100, 3).expect_err("four bytes");
    assert_eq!(error, "body size limit exceeded (limit 3 bytes)");
    let error = decode(b"ffffffffffffffff\r\nx", 100, 1000).expect_err("a huge chunk");
    assert_eq!(error, "body size limit exceeded (limit 1000 bytes)");
}

#[test]
fn malformed_framing_is_refused() {
    let bad = "malformed HTTP response: malformed chunked encoding";
    for wire in [
        "\r\n",
        "g\r\n",
        ";x\r\n",
        "-1\r\n",
        "1\r\nab\r\n",
        "1\r\na\rb",
        "1\rx",
        "0\r\n\rx",
        "0x1\r\n",
    ] {
        assert_eq!(
            decode(wire.as_bytes(), 1, 100).expect_err(wire),
            bad,
            "{wire:?}"
        );
    }
    let error = decode(b"00000000000000001\r\na", 100, 100).expect_err("17 digits");
    assert_eq!(error, "malformed HTTP response: chunk size too long");
    for wire in [
        [b"1;".to_vec(), vec![b'x'; 9000]].concat(),
        b"1;xxxxxxxxxx\r\na\r\n".repeat(1000),
        [b"0\r\n".to_vec(), b"a: b\r\n".repeat(3000)].concat(),
    ] {
        let error = decode(&wire, 1000, 10_000).expect_err("endless");
        assert_eq!(
            error,
            "malformed HTTP response: chunk extensions or trailers too long"
        );
    }
}
