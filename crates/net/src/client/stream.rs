//! A connection to a server, plain or encrypted, direct or through a proxy.
//!
//! Invariant: a silent connection has no data to read, either on the socket or decrypted.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A request's connection. The variants are distinguished once per exchange, not at every read.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<Transport>>),
}

/// The transport of an encrypted connection.
#[derive(Debug)]
pub(super) enum Transport {
    Tcp(TcpStream),
    /// Inside the encrypted connection to a proxy.
    Proxy(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reports whether nothing has arrived. Between responses a server sends nothing: input means an end, or garbage.
    ///
    /// Usually needs no system call, because tokio knows that nothing has arrived.
    pub(super) fn is_silent(&mut self) -> bool {
        match self {
            Self::Plain(stream) => tcp_is_silent(stream),
            Self::Tls(stream) => {
                let (transport, session) = stream.get_mut();
                would_block(session.reader().read(&mut [0])) && transport.is_silent()
            }
        }
    }
}

impl Transport {
    fn is_silent(&mut self) -> bool {
        match self {
            Self::Tcp(stream) => tcp_is_silent(stream),
            Self::Proxy(stream) => {
                let (transport, session) = stream.get_mut();
                would_block(session.reader().read(&mut [0])) && tcp_is_silent(transport)
            }
        }
    }
}

fn tcp_is_silent(stream: &TcpStream) -> bool {
    would_block(stream.try_read(&mut [0]))
}

fn would_block(read: io::Result<usize>) -> bool {
    matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Forwards a call to the current variant.
macro_rules! forward {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self.get_mut() {
            Self::Tcp($inner) => $call,
            Self::Proxy($inner) => $call,
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        forward!(self, inner => Pin::new(inner).poll_read(context, buffer))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        forward!(self, inner => Pin::new(inner).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, inner => Pin::new(inner).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, inner => Pin::new(inner).poll_shutdown(context))
    }
}
