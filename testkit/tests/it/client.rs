//! Tests of `client`.

use narthex_testkit::client::Client;
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

/// Answers each connection `answers` times and then closes it.
fn server(answers: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let mut stream: TcpStream = stream;
            for answer in 0..answers {
                if !matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                    break;
                }
                let body = format!("{number}.{answer}");
                let length = body.len();
                let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).expect("it reads");
            }
        }
    });
    address
}

#[test]
fn a_connection_is_kept_and_replaced_when_it_has_ended() {
    let mut client = Client::new(server(2), Duration::from_secs(30));
    let mut get = || client.get("/x?y=z", &[("Accept", "*/*")]).unwrap().text();
    assert_eq!(
        [get(), get(), get(), get(), get()],
        ["0.0", "0.1", "1.0", "1.1", "2.0"]
    );
}

#[test]
fn an_answer_that_never_comes_is_an_error() {
    let mut client = Client::new(server(0), Duration::from_secs(30));
    let error = client.post("/", &[], b"body").unwrap_err();
    let is_end = matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    );
    assert!(is_end, "{error}");
}
