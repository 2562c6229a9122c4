//! Tests of every variant's text.

use std::error::Error;
use std::io;
use std::time::Duration;

use super::NetError;
use crate::encoding::Encoding;

#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn all() -> Vec<(NetError, &'static str, u16)> {
    let address = "127.0.0.1:9090".parse().expect("an address");
    let text = |text: &str| text.to_owned();
    let refused = NetError::Connect {
        address,
        source: io::Error::from_raw_os_error(111),
    };
    vec![
        (
            NetError::ListenAddress {
                address: text("9090"),
                reason: "missing port in address",
            },
            "cannot listen on \"9090\": missing port in address",
            500,
        ),
        (
            NetError::Bind {
                address: text(":80"),
                source: io::Error::from_raw_os_error(13),
            },
            "cannot listen on \":80\": permission denied",
            500,
        ),
        (
            NetError::PassedSocket {
                at: 0,
                reason: "it is not listening",
            },
            "cannot listen on the passed socket 0: it is not listening",
            500,
        ),
        (
            NetError::Url {
                url: text("x"),
                reason: "no scheme",
            },
            "invalid URL \"x\": no scheme",
            500,
        ),
        (
            NetError::Request {
                method: "Get",
                url: text("http://127.0.0.1:9090/metrics"),
                source: Box::new(refused),
            },
            "Get \"http://127.0.0.1:9090/metrics\": dial tcp 127.0.0.1:9090: connect: connection refused",
            500,
        ),
        (
            NetError::Lookup {
                host: text("x.invalid"),
                source: io::Error::other(
                    "failed to lookup address information: Temporary failure in name resolution",
                ),
            },
            "dial tcp: lookup x.invalid: temporary failure in name resolution",
            500,
        ),
        (
            NetError::Connect {
                address,
                source: io::Error::from_raw_os_error(113),
            },
            "dial tcp 127.0.0.1:9090: connect: no route to host",
            500,
        ),
        (
            NetError::ConnectTimeout { address },
            "dial tcp 127.0.0.1:9090: i/o timeout",
            504,
        ),
        (
            NetError::Deadline {
                timeout: Duration::from_millis(1500),
            },
            "context deadline exceeded (timeout 1.5s)",
            504,
        ),
        (
            NetError::read(io::Error::from_raw_os_error(104)),
            "read tcp: connection reset by peer",
            400,
        ),
        (
            NetError::write(io::Error::from_raw_os_error(5)),
            "write tcp: input/output error",
            400,
        ),
        (NetError::Closed { received_bytes: 0 }, "EOF", 400),
        (
            NetError::Closed { received_bytes: 9 },
            "unexpected EOF after 9 bytes",
            400,
        ),
        (
            NetError::Response {
                reason: "not HTTP/1",
            },
            "malformed HTTP response: not HTTP/1",
            500,
        ),
        (
            NetError::Status { code: 404 },
            "server returned HTTP status 404 Not Found",
            500,
        ),
        (
            NetError::Status { code: 599 },
            "server returned HTTP status 599",
            500,
        ),
        (
            NetError::Redirects { limit: 10 },
            "stopped after 10 redirects",
            500,
        ),
        (
            NetError::BodyTooLarge { limit_bytes: 5 },
            "body size limit exceeded (limit 5 bytes)",
            413,
        ),
        (
            NetError::RedirectedBody {
                to: text("http://evil.example"),
            },
            "redirected to http://evil.example, which the request's body is not for",
            500,
        ),
        (
            NetError::Memory {
                wanted_bytes: 7,
                source: "the budget of 512MB is used up".into(),
            },
            "no memory for 7 more bytes of the body: the budget of 512MB is used up",
            503,
        ),
        (
            NetError::CorruptBody {
                encoding: Encoding::Gzip,
                reason: "invalid header",
            },
            "gzip: invalid header",
            400,
        ),
        (
            NetError::UnknownEncoding {
                encoding: text("br"),
            },
            "unsupported content encoding \"br\"",
            415,
        ),
        (
            NetError::Config {
                message: text("oauth2 client_id must be configured"),
            },
            "oauth2 client_id must be configured",
            500,
        ),
        (
            NetError::ReadFile {
                what: "CA cert",
                path: "/etc/ca.crt".into(),
                source: io::Error::from_raw_os_error(2),
            },
            "unable to read CA cert: open /etc/ca.crt: no such file or directory",
            500,
        ),
        (
            NetError::Tls {
                message: text("handshake timeout"),
            },
            "tls: handshake timeout",
            500,
        ),
        (
            NetError::Proxy { code: 407 },
            "the proxy answered CONNECT with 407 Proxy Authentication Required",
            500,
        ),
        (
            NetError::Token {
                source: Box::new(NetError::TokenAnswer {
                    reason: text("401 Unauthorized: invalid_client"),
                }),
            },
            "oauth2: cannot fetch token: 401 Unauthorized: invalid_client",
            500,
        ),
        (
            NetError::AwsCredentials {
                source: Box::new(NetError::TokenAnswer {
                    reason: text("404 Not Found"),
                }),
            },
            "could not get SigV4 credentials: 404 Not Found",
            500,
        ),
    ]
}

#[test]
fn every_variant_reads_well_and_has_a_status() {
    for (error, text, status) in all() {
        assert_eq!(error.to_string(), text);
        assert_eq!(error.status().as_u16(), status, "{error}");
        assert!(!text.contains('\n') && !text.contains("os error"), "{text}");
    }
}

#[test]
fn sources_are_the_real_ones() {
    for (error, text, _status) in all() {
        let carries = matches!(
            error,
            NetError::Bind { .. }
                | NetError::Request { .. }
                | NetError::Token { .. }
                | NetError::AwsCredentials { .. }
                | NetError::Memory { .. }
                | NetError::ReadFile { .. }
                | NetError::Lookup { .. }
                | NetError::Connect { .. }
                | NetError::Io { .. }
        );
        assert_eq!(error.source().is_some(), carries, "{text}");
    }
}
