//! Servers under test, misbehaving peers, and memory readings.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header::CONTENT_ENCODING};
use narthex_net::axum::body::Body;
use narthex_net::{
    Encoding, NetError, Router, ServeReport, Server, ServerConfig, StopToken, Stopper, Url,
    decompress, read_wire_body,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Longer than anything under test takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a request's body as a handler reads it, decompressed.
pub(crate) async fn read_body(
    request: Request<Body>,
    limit_bytes: usize,
) -> Result<Bytes, NetError> {
    let encoding = request.headers().get(CONTENT_ENCODING);
    let encoding = Encoding::parse(encoding.map_or(b"", |value| value.as_bytes()))?;
    let wire = read_wire_body(request.into_body(), limit_bytes).await?;
    let mut body = Vec::new();
    decompress(encoding, &wire, limit_bytes, &mut body)?;
    Ok(body.into())
}

/// A server on an ephemeral loopback port.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stopper: Stopper,
    serving: JoinHandle<ServeReport>,
}

impl Running {
    pub(crate) async fn start(router: Router, config: ServerConfig) -> Self {
        let server = Server::bind(&["127.0.0.1:0"], config).await.unwrap();
        Self::serve(server, router)
    }

    /// Starts a server with a web configuration.
    pub(crate) async fn start_web(router: Router, file: &std::path::Path) -> Self {
        let server = Server::bind(&["127.0.0.1:0"], ServerConfig::default()).await;
        let server = server.unwrap().with_web_config(file).unwrap();
        Self::serve(server, router)
    }

    fn serve(server: Server, router: Router) -> Self {
        let (stopper, stop): (Stopper, StopToken) = Stopper::new();
        let address = server.local_addrs()[0];
        let serving = tokio::spawn(server.serve(router, stop));
        Self {
            address,
            stopper,
            serving,
        }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    pub(crate) fn https_url(&self, path: &str) -> Url {
        Url::parse(&format!("https://{}{path}", self.address)).unwrap()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Waits for the end of a stopped server.
    pub(crate) async fn ended(self) -> ServeReport {
        patient(self.serving).await.unwrap()
    }
}

/// Fails the test when `work` hangs.
pub(crate) async fn patient<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work)
        .await
        .expect("took longer than 20 s")
}

/// Reads until the peer closes; a reset counts as a close.
pub(crate) async fn read_to_close(stream: &mut TcpStream) -> String {
    let mut out = Vec::new();
    let _reset = patient(stream.read_to_end(&mut out)).await;
    String::from_utf8_lossy(&out).into_owned()
}

/// Reads until `ending` has arrived.
pub(crate) async fn read_until(stream: &mut TcpStream, ending: &str) -> String {
    let mut out = Vec::new();
    while !out.ends_with(ending.as_bytes()) {
        let read = patient(stream.read_buf(&mut out)).await.unwrap();
        assert!(
            read > 0,
            "closed after {} bytes without {ending:?}",
            out.len()
        );
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Starts a peer that sends the n-th of `answers` for the n-th request of each connection, then closes.
pub(crate) async fn scripted(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _peer)) = listener.accept().await {
            let answers = answers.clone();
            tokio::spawn(async move {
                for answer in answers {
                    let mut request = Vec::new();
                    while !request.ends_with(b"\r\n\r\n") {
                        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Returns the process' peak resident memory in bytes.
pub(crate) fn peak_bytes() -> usize {
    let status = narthex_testkit::proc::ProcFile::read("self", "status").unwrap();
    status.bytes("VmHWM:").unwrap() as usize
}

/// Returns a gzip member of `length` zeros, built without holding them: a stored header and a repeated block would be
/// larger, so libdeflate compresses pieces that are joined as members.
pub(crate) fn zeros_gzip(length: usize) -> Vec<u8> {
    let piece = narthex_net::gzip(&vec![0; 1 << 20]).unwrap();
    piece.repeat(length >> 20)
}
