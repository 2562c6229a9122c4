//! Queries the system's DNS servers, by the rules of Prometheus' DNS discovery.
//!
//! Hand-written because a resolver library's caches, search rules and retries differ from Prometheus', whose rules are
//! few: no cache, each server once, TCP after truncation.
//!
//! Invariant: an answer is accepted only from the queried server and for the question sent; each server has a deadline.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::message::{self, Answer, NAME_ERROR, NO_ERROR, Record};
use super::record_type::RecordType;
use crate::error::DiscoveryError;

/// Timeout of one exchange with one server.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Datagrams read before giving up: all come from the server, but may answer older questions.
const MAX_STRAYS: usize = 16;

/// The parts of `resolv.conf` that discovery uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvConf {
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) search: Vec<String>,
    pub(crate) ndots: usize,
}

impl ResolvConf {
    /// Parses the file's text; skips what it cannot use, as every resolver does.
    ///
    /// A server is an address, or for tests and unusual setups an address with a port.
    pub(crate) fn parse(text: &str) -> Self {
        let mut conf = Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
        };
        for line in text.lines() {
            if line.starts_with(['#', ';']) {
                continue;
            }
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let server = words.next().unwrap_or_default();
                    let plain = server.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
                    conf.servers.extend(plain.or_else(|_| server.parse()).ok());
                }
                Some("domain") => conf.search = words.take(1).map(str::to_owned).collect(),
                Some("search") => conf.search = words.map(str::to_owned).collect(),
                Some("options") => {
                    for option in words {
                        let ndots = option.strip_prefix("ndots:");
                        if let Some(Ok(ndots)) = ndots.map(str::parse::<usize>) {
                            conf.ndots = ndots.min(15);
                        }
                    }
                }
                _ => {}
            }
        }
        conf
    }

    /// Returns the names to try, in order, each with a trailing dot.
    pub(crate) fn candidates(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let rooted = |name: String| {
            if name.ends_with('.') {
                name
            } else {
                name + "."
            }
        };
        let itself = rooted(name.to_owned());
        let searched = self.search.iter().map(|s| rooted(format!("{name}.{s}")));
        if name.split('.').count() > self.ndots {
            std::iter::once(itself).chain(searched).collect()
        } else {
            searched.chain([itself]).collect()
        }
    }
}

/// Returns the records of the first candidate that exists, or no records if none does.
pub(crate) async fn lookup(
    name: &str,
    kind: RecordType,
    resolv_conf: &Path,
) -> Result<Vec<Record>, DiscoveryError> {
    let text = std::fs::read_to_string(resolv_conf).map_err(|source| DiscoveryError::Read {
        path: resolv_conf.to_owned(),
        source,
    })?;
    let conf = ResolvConf::parse(&text);
    let mut unanswered = None;
    for candidate in conf.candidates(name) {
        match ask_any(&candidate, kind, &conf).await {
            Ok(answer) if answer.code == NO_ERROR => return Ok(answer.records),
            Ok(_no_such_name) => {}
            // A later candidate may exist, but it is unknown whether this one does.
            Err(reason) => unanswered = Some(reason),
        }
    }
    match unanswered {
        None => Ok(Vec::new()),
        Some(reason) => Err(DiscoveryError::Dns {
            name: name.to_owned(),
            reason,
        }),
    }
}

/// Returns the first answer that decides whether the name exists.
async fn ask_any(name: &str, kind: RecordType, conf: &ResolvConf) -> Result<Answer, String> {
    let mut last = "no servers in resolv.conf".to_owned();
    for server in &conf.servers {
        match ask(*server, name, kind).await {
            Ok(answer) if matches!(answer.code, NO_ERROR | NAME_ERROR) => return Ok(answer),
            Ok(answer) => last = format!("{server} answered with code {}", answer.code),
            Err(error) => {
                tracing::warn!(%server, name, %error, "DNS resolution failed.");
                last = format!("{server}: {error}");
            }
        }
    }
    Err(last)
}

async fn ask(server: SocketAddr, name: &str, kind: RecordType) -> io::Result<Answer> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "not a domain name");
    let question = message::question(random_id(), name, kind, true).ok_or_else(invalid)?;
    let answer = within(ask_datagram(server, &question)).await?;
    if !answer.truncated {
        return Ok(answer);
    }
    let question = message::question(random_id(), name, kind, false).ok_or_else(invalid)?;
    let answer = within(ask_stream(server, &question)).await?;
    if answer.truncated {
        return Err(io::Error::other("truncated answer over TCP"));
    }
    Ok(answer)
}

async fn ask_datagram(server: SocketAddr, question: &[u8]) -> io::Result<Answer> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; 64 << 10];
    for _stray in 0..MAX_STRAYS {
        let length = socket.recv(&mut buffer).await?;
        let bytes = buffer.get(..length).unwrap_or_default();
        if let Some(answer) = message::answer(bytes, question) {
            return Ok(answer);
        }
    }
    Err(io::Error::other("only answers to other questions"))
}

async fn ask_stream(server: SocketAddr, question: &[u8]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes()[..], question].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    message::answer(&answer, question)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "malformed answer"))
}

async fn within<T>(exchange: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_elapsed| Err(io::Error::new(io::ErrorKind::TimedOut, "i/o timeout"));
    tokio::time::timeout(TIMEOUT, exchange)
        .await
        .unwrap_or_else(late)
}

/// Returns a random query id; with the socket's random port it is unpredictable enough: the hasher's keys come from the
/// kernel.
fn random_id() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u8) as u16
}
