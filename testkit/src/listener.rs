//! A server within this program: an accepting thread, and one for each connection.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// A running one; on drop it stops accepting, and connections end when they see its flag or their client disconnects.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens on a free loopback port; `serve` gets each connection on a thread of its own, and the stop flag.
    ///
    /// # Errors
    ///
    /// When there is no free port, or no thread.
    pub fn start(
        name: &str,
        serve: impl Fn(TcpStream, &AtomicBool) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (stop, serve) = (Arc::clone(&is_stopping), Arc::new(serve));
        let accept = move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let (stop, serve) = (Arc::clone(&stop), Arc::clone(&serve));
                thread::spawn(move || serve(stream, &stop));
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(accept);
        Ok(Self {
            address,
            is_stopping,
            thread: Some(thread?),
        })
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
        // A connection wakes the accepting thread; if that ended by itself, there is nothing to wake.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
