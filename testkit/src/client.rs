//! A kept-alive connection for requests one after another.
//!
//! **Invariant:** a response is complete or an error. A request is sent once: it is repeated on a fresh connection only
//! if the kept one turns out to have ended before any byte of a response.

use crate::http::{Response, read_response};
use std::{
    io::{self, BufReader, ErrorKind, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    /// Timeout of a read or a write.
    limit: Duration,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Returns a client that connects when first used.
    #[must_use]
    pub fn new(address: SocketAddr, limit: Duration) -> Self {
        Self {
            address,
            limit,
            stream: None,
        }
    }

    /// Returns the server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a GET for a path and query.
    ///
    /// # Errors
    ///
    /// When there is no complete response within the limit.
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> io::Result<Response> {
        self.send("GET", path, headers, &[])
    }

    /// Sends a POST.
    ///
    /// # Errors
    ///
    /// When there is no complete response within the limit.
    pub fn post(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        self.send("POST", path, headers, body)
    }

    /// Sends a request, with a body unless it is a GET.
    ///
    /// # Errors
    ///
    /// When there is no complete response within the limit.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if method != "GET" {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        let was_open = self.stream.is_some();
        match self.try_send(&request) {
            Err(e) if was_open && is_end(&e) => self.try_send(&request),
            other => other,
        }
    }

    fn try_send(&mut self, request: &[u8]) -> io::Result<Response> {
        // Kept only after a complete response that leaves the connection usable.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => BufReader::with_capacity(64 << 10, self.connect()?),
        };
        // A server may reject a body without reading all of it: its response counts, not the broken pipe.
        let sent = stream.get_mut().write_all(request);
        if sent.as_ref().is_err_and(is_timeout) || io::BufRead::fill_buf(&mut stream)?.is_empty() {
            return Err(sent
                .err()
                .unwrap_or_else(|| ErrorKind::ConnectionAborted.into()));
        }
        let answer = read_response(&mut stream, true)?;
        let closes = answer
            .header("Connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let has_length = answer.header("Content-Length").is_some()
            || answer.header("Transfer-Encoding").is_some()
            || answer.status == 204;
        if has_length && !closes && sent.is_ok() {
            self.stream = Some(stream);
        }
        Ok(answer)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, CONNECT_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.limit))?;
        stream.set_write_timeout(Some(self.limit))?;
        Ok(stream)
    }
}

/// Returns whether the error means that the server closed the connection before it answered.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

/// Returns whether the error is a timeout.
#[must_use]
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
