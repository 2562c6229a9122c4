//! A blocking HTTP/1.1 client for tests: one request per connection, whole bodies, `http://` only.
//!
//! Invariant: a response that ends early (fewer bytes than announced, a truncated chunk) is an error, never a short
//! body.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Timeout of connecting, and of each read or write.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A complete response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Header names as sent, in order.
    pub headers: Vec<(String, String)>,
    /// The body with its transfer encoding removed (its content encoding is not).
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the first header of that name, ignoring case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }

    /// Returns the body as text, with replacement characters where it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a GET.
///
/// # Errors
///
/// When the URL is not `http://host:port/…`, the connection fails, or the answer is not complete HTTP.
pub fn get(url: &str) -> io::Result<Response> {
    request("GET", url, &[], &[])
}

/// Sends a POST with a body of `content_type`.
///
/// # Errors
///
/// As [`get`].
pub fn post(url: &str, content_type: &str, body: &[u8]) -> io::Result<Response> {
    request("POST", url, &[("Content-Type", content_type)], body)
}

/// Sends a POST of form fields.
///
/// # Errors
///
/// As [`get`].
pub fn post_form(url: &str, fields: &[(&str, &str)]) -> io::Result<Response> {
    post(
        url,
        "application/x-www-form-urlencoded",
        query(fields).as_bytes(),
    )
}

/// Sends a request. `Host`, `Connection` and `Content-Length` are added.
///
/// # Errors
///
/// As [`get`].
pub fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    let (authority, path) = split(url)?;
    let mut stream = connect(authority)?;
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" || method == "PUT" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    // A server may answer and close before it has read a body it rejects: the response counts, not the broken pipe.
    let sent = stream.write_all(body);
    let answer = read_response(&mut BufReader::new(stream), method != "HEAD");
    if answer.is_err() {
        sent?;
    }
    answer
}

/// Reads one response from a stream; `has_body` is false for an answer to HEAD.
///
/// # Errors
///
/// When it is not complete HTTP/1.x.
pub fn read_response(from: &mut impl BufRead, has_body: bool) -> io::Result<Response> {
    loop {
        let (status, headers) = read_head(from)?;
        if (100..200).contains(&status) && status != 101 {
            continue;
        }
        let mut response = Response {
            status,
            headers,
            body: Vec::new(),
        };
        if has_body && !matches!(status, 101 | 204 | 304) {
            response.body = read_body(from, &response)?;
        }
        return Ok(response);
    }
}

/// Encodes fields as `a=b&c=d` for a query string or a form body.
#[must_use]
pub fn query(fields: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = fields
        .iter()
        .map(|(k, v)| format!("{}={}", encode(k), encode(v)))
        .collect();
    pairs.join("&")
}

/// Percent-encodes everything but unreserved characters.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn split(url: &str) -> io::Result<(&str, &str)> {
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| bad(format!("not an http:// URL: {url}")))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if path.starts_with('?') {
        return Err(bad(format!("a path is missing before the query: {url}")));
    }
    Ok((authority, if path.is_empty() { "/" } else { path }))
}

fn connect(authority: &str) -> io::Result<TcpStream> {
    let mut last = bad(format!("{authority} has no address"));
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn read_head(from: &mut impl BufRead) -> io::Result<(u16, Vec<(String, String)>)> {
    let first = read_line(from)?;
    let status = first
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| bad(format!("not an HTTP status line: {first:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(from)?;
        if line.is_empty() {
            return Ok((status, headers));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| bad(format!("not a header: {line:?}")))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn read_body(from: &mut impl BufRead, head: &Response) -> io::Result<Vec<u8>> {
    if head
        .header("Transfer-Encoding")
        .is_some_and(|v| v.eq_ignore_ascii_case("chunked"))
    {
        return read_chunks(from);
    }
    let mut body = Vec::new();
    if let Some(length) = head.header("Content-Length") {
        let length = length
            .parse()
            .map_err(|_| bad(format!("Content-Length: {length:?}")))?;
        take_exactly(from, length, &mut body)?;
    } else {
        from.read_to_end(&mut body)?;
    }
    Ok(body)
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let length =
            u64::from_str_radix(digits, 16).map_err(|_| bad(format!("chunk size {line:?}")))?;
        if length == 0 {
            // Trailers, then the empty line.
            while !read_line(from)?.is_empty() {}
            return Ok(body);
        }
        take_exactly(from, length, &mut body)?;
        if !read_line(from)?.is_empty() {
            return Err(bad("a chunk does not end in CRLF".to_owned()));
        }
    }
}

fn take_exactly(from: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    // Grows with the received bytes, so an absurd length costs nothing.
    let got = from.by_ref().take(length).read_to_end(body)? as u64;
    if got == length {
        Ok(())
    } else {
        Err(Error::new(
            ErrorKind::UnexpectedEof,
            format!("body ended after {got} of {length} bytes"),
        ))
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.by_ref().take(1 << 16).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(Error::new(
            ErrorKind::UnexpectedEof,
            "the answer ended inside its head",
        ));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(|_| bad("a header is not UTF-8".to_owned()))
}

fn bad(text: String) -> Error {
    Error::new(ErrorKind::InvalidData, text)
}
