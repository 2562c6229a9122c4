//! Tests of negotiation by RFC 9110 §12.5.3.

use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};

use super::{Weights, accepts_gzip, choose_encoding};
use crate::encoding::Encoding;

#[test]
fn weights_decide() {
    for (value, want) in [
        ("", false),
        ("gzip", true),
        ("GZIP", true),
        ("x-gzip", true),
        ("deflate, gzip, br", true),
        ("deflate,gzip;q=0.001", true),
        ("gzip;q=0", false),
        ("gzip;q=0.000", false),
        ("gzip; Q=0.5 , identity;q=0.5", true),
        ("gzip;q=0.4, identity;q=0.5", false),
        ("identity;q=0, gzip;q=0.1", true),
        ("*", true),
        ("*;q=0", false),
        ("gzip;q=0, *", false),
        ("*;q=0.2, identity", false),
        ("br, deflate", false),
        ("gzipped", false),
        ("not gzip", false),
        // Invalid weights: more than three decimals, above one, no digit, empty.
        ("gzip;q=0.1234", false),
        ("gzip;q=1.001", false),
        ("gzip;q=2", false),
        ("gzip;q=.5", false),
        ("gzip;q=", false),
        ("gzip;q=-1", false),
        ("gzip;level=9;q=1", true),
        (",, ,gzip,", true),
    ] {
        assert_eq!(
            Weights::read(std::iter::once(value.as_bytes())).accept(Encoding::Gzip),
            want,
            "{value:?}"
        );
    }
}

#[test]
fn several_header_lines_are_one_list() {
    let mut headers = HeaderMap::new();
    assert!(!accepts_gzip(&headers), "no header, no gzip");
    headers.append(ACCEPT_ENCODING, HeaderValue::from_static("br"));
    assert!(!accepts_gzip(&headers));
    headers.append(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    assert!(accepts_gzip(&headers));
    headers.append(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    assert!(accepts_gzip(&headers));
}

#[test]
fn content_encodings_are_named() {
    for (value, want) in [
        ("", Encoding::Identity),
        (" Identity ", Encoding::Identity),
        ("gzip", Encoding::Gzip),
        ("X-GZIP", Encoding::Gzip),
        ("deflate", Encoding::Deflate),
        ("ZSTD", Encoding::Zstd),
    ] {
        assert_eq!(Encoding::parse(value.as_bytes()).expect(value), want);
    }
    for value in ["br", "gzip, gzip", "snappy"] {
        let error = Encoding::parse(value.as_bytes()).expect_err(value);
        assert_eq!(
            error.to_string(),
            format!("unsupported content encoding {value:?}")
        );
    }
    let long = Encoding::parse(&[b'a'; 10_000]).expect_err("unknown");
    assert!(long.to_string().len() < 200);
}

#[test]
fn zstd_goes_before_gzip_unless_the_client_prefers_it() {
    for (value, want) in [
        ("gzip, deflate, br, zstd", Encoding::Zstd),
        ("zstd;q=0.5, gzip;q=0.4", Encoding::Zstd),
        ("zstd;q=0.4, gzip;q=0.5", Encoding::Gzip),
        ("zstd;q=0, gzip", Encoding::Gzip),
        ("zstd;q=0.1, identity;q=0.2", Encoding::Identity),
        ("*", Encoding::Gzip),
        ("br", Encoding::Identity),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
        assert_eq!(choose_encoding(&headers), want, "{value}");
    }
}
