//! Tests of growth, limits and damage; every stream is checked against a second implementation's bytes or our own
//! compressor.

use super::{decompress, decompress_within};
use crate::allowance::tests::Limit;
use crate::encoding::Encoding;
use crate::error::NetError;
use crate::respond::{gzip, zstd};

const MIB: usize = 1 << 20;

/// `printf 'hello' | gzip -n`, by GNU gzip 1.12.
const HELLO_GZ: &[u8] =
    b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0";
/// `zlib.compress(b"hello")`, by Python 3.11.
const HELLO_ZLIB: &[u8] = b"\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\0\x06\x2c\x02\x15";

fn unpack(encoding: Encoding, input: &[u8], limit_bytes: usize) -> Result<Vec<u8>, String> {
    let mut out = vec![1, 2, 3];
    let result = decompress(encoding, input, limit_bytes, &mut out);
    assert!(
        out.capacity() <= limit_bytes.max(64),
        "{} bytes held",
        out.capacity()
    );
    result.map_err(|error| error.to_string())?;
    Ok(out)
}

#[test]
fn streams_of_other_implementations_are_read() {
    assert_eq!(
        unpack(Encoding::Gzip, HELLO_GZ, MIB).expect("gzip"),
        b"hello"
    );
    assert_eq!(
        unpack(Encoding::Deflate, HELLO_ZLIB, MIB).expect("zlib"),
        b"hello"
    );
    let raw = &HELLO_ZLIB[2..HELLO_ZLIB.len() - 4];
    assert_eq!(
        unpack(Encoding::Deflate, raw, MIB).expect("raw deflate"),
        b"hello"
    );
    assert_eq!(
        unpack(Encoding::Identity, b"hello", MIB).expect("copy"),
        b"hello"
    );
}

#[test]
fn members_are_joined() {
    let three = [HELLO_GZ, HELLO_GZ, HELLO_GZ].concat();
    assert_eq!(
        unpack(Encoding::Gzip, &three, MIB).expect("three members"),
        b"hellohellohello"
    );
    assert_eq!(
        unpack(Encoding::Gzip, &three, 15).expect("exactly the limit"),
        b"hellohellohello"
    );
    let error = unpack(Encoding::Gzip, &three, 14).expect_err("one byte too many");
    assert_eq!(error, "body size limit exceeded (limit 14 bytes)");
}

#[test]
fn size_field_is_only_a_hint() {
    let data = vec![b'a'; 500_000];
    let packed = gzip(&data).expect("shorter");
    assert!(
        packed.len() * 100 < data.len(),
        "more than any first guess allows"
    );
    assert_eq!(
        unpack(Encoding::Gzip, &packed, MIB).expect("grown to fit"),
        data
    );
    // A wrong size field always counts as damage: never an allocation, never a short result.
    for declared in [0_u32, 1, 499_999, 500_001, u32::MAX] {
        let mut lying = packed.clone();
        let at = lying.len() - 4;
        lying[at..].copy_from_slice(&declared.to_le_bytes());
        let error = unpack(Encoding::Gzip, &lying, MIB).expect_err("a wrong size");
        assert_eq!(error, "gzip: corrupt or truncated data", "{declared}");
    }
}

#[test]
fn limit_is_exact() {
    let data = vec![b'a'; 100_000];
    let packed = gzip(&data).expect("shorter");
    assert!(unpack(Encoding::Gzip, &packed, 100_000).is_ok());
    for limit_bytes in [0, 1, 4096, 99_999] {
        let error = unpack(Encoding::Gzip, &packed, limit_bytes).expect_err("too large");
        assert_eq!(
            error,
            format!("body size limit exceeded (limit {limit_bytes} bytes)")
        );
    }
    assert!(unpack(Encoding::Identity, &data, 99_999).is_err());
}

#[test]
fn damage_is_found_at_every_byte() {
    for at in 0..HELLO_GZ.len() {
        assert!(
            unpack(Encoding::Gzip, &HELLO_GZ[..at], MIB).is_err(),
            "cut at {at}"
        );
    }
    // Method and flags, data, checksum and size. Time and system carry no information; nor does byte 16, which,
    // except for one bit, pads the last code.
    for at in (2..4).chain(10..16).chain(17..HELLO_GZ.len()) {
        let mut bad = HELLO_GZ.to_vec();
        bad[at] ^= 0x40;
        assert!(
            unpack(Encoding::Gzip, &bad, MIB).is_err(),
            "flipped at {at}"
        );
    }
    for tail in [&b"\0"[..], b"\0\0\0\0", b"\x1f\x8b", b"junk"] {
        let long = [HELLO_GZ, tail].concat();
        assert!(unpack(Encoding::Gzip, &long, MIB).is_err(), "tail {tail:?}");
    }
    let long = [HELLO_ZLIB, b"x"].concat();
    let error = unpack(Encoding::Deflate, &long, MIB).expect_err("a tail");
    assert_eq!(error, "deflate: data after the end of the stream");
}

#[test]
fn buffer_is_reused_and_given_back_after_damage() {
    let data = vec![b'a'; 4 * MIB];
    let packed = gzip(&data).expect("shorter");
    let mut out = Vec::new();
    decompress(Encoding::Gzip, &packed, 8 * MIB, &mut out).expect("fits");
    let (place, capacity) = (out.as_ptr(), out.capacity());
    decompress(Encoding::Gzip, HELLO_GZ, 8 * MIB, &mut out).expect("fits");
    assert_eq!(
        (out.as_ptr(), out.capacity(), &out[..]),
        (place, capacity, &b"hello"[..])
    );
    // A buffer larger than the limit does not raise the limit.
    let error = decompress(Encoding::Gzip, &packed, MIB, &mut out).expect_err("too large");
    assert!(matches!(error, NetError::BodyTooLarge { limit_bytes: MIB }));
    assert!(out.is_empty() && out.capacity() <= MIB);
}

/// A megabyte of gzip can contain a gigabyte: memory is requested before it is allocated, in steps, and never exceeds
/// the grants.
#[test]
fn a_bomb_ends_where_the_allowance_does() {
    let data = vec![b'a'; 64 * MIB];
    let gzipped = gzip(&data).expect("shorter");
    // A raw stream is between gzip's header and trailer.
    let raw = gzipped.get(10..gzipped.len() - 8).expect("long enough");
    let zstd = zstd(&data).expect("shorter");
    let bombs = [
        (Encoding::Gzip, &gzipped[..]),
        (Encoding::Deflate, raw),
        (Encoding::Zstd, &zstd[..]),
        (Encoding::Identity, &data[..]),
    ];
    for (encoding, bomb) in bombs {
        let mut limit = Limit::new(10 * MIB);
        let mut out = Vec::new();
        let error = decompress_within(encoding, bomb, usize::MAX, &mut limit, &mut out);
        let error = error.expect_err("more than is allowed");
        assert!(
            matches!(error, NetError::Memory { .. }),
            "{encoding}: {error}"
        );
        assert!(out.is_empty() && out.capacity() <= MIB, "{encoding}");

        let mut limit = Limit::new(usize::MAX);
        let mut out = Vec::new();
        decompress_within(encoding, bomb, 64 * MIB, &mut limit, &mut out).expect("fits");
        assert!(out == data, "{encoding}");
        let asked = limit.granted_bytes;
        assert!(
            (64 * MIB..=80 * MIB).contains(&asked),
            "{encoding}: {asked}"
        );
    }
}
