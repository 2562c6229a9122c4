//! The client against canned answers: complete ones are read whole, cut ones are errors.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use narthex_testkit::http::{self, read_response};

#[test]
fn reads_length_chunks_and_until_close() {
    let read = |bytes: &[u8]| read_response(&mut &*bytes, true).unwrap();
    assert_eq!(
        read(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef").text(),
        "abc"
    );
    let chunked = read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: t\r\n\r\n");
    assert_eq!(chunked.text(), "abc0123456789");
    assert_eq!(
        read(b"HTTP/1.0 503 No\r\nX-A: 1\r\n\r\nrest").text(),
        "rest"
    );
    let after_continue =
        read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nA: b\r\n\r\n");
    assert_eq!(
        (after_continue.status, after_continue.header("a")),
        (204, Some("b"))
    );
}

#[test]
fn cut_answers_are_errors() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"SSH-2.0\r\n\r\n",
        b"",
    ] {
        assert!(
            read_response(&mut &*bytes, true).is_err(),
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn sends_what_it_is_asked_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/api?x=1", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let mut buffer = [0; 1024];
        while !got.ends_with(b"query=up%7Ba%3D%22b%22%7D&q=%C3%A4") {
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0, "closed early: {}", got.escape_ascii());
            got.extend_from_slice(&buffer[..n]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .unwrap();
        String::from_utf8(got).unwrap()
    });
    let response = http::post_form(&url, &[("query", "up{a=\"b\"}"), ("q", "ä")]).unwrap();
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    let request = server.join().unwrap();
    assert!(
        request.starts_with("POST /api?x=1 HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("Content-Length: 34\r\n"), "{request}");
}

#[test]
fn refuses_other_schemes() {
    assert!(
        http::get("https://127.0.0.1/")
            .unwrap_err()
            .to_string()
            .contains("http://")
    );
}
