//! Receives pushes: reads bodies, waits for turns, and hands them to the store.
//!
//! **Invariant:** a waiting push does not block a thread, and every wait has a limit.

use crate::{
    asked::{Asked, Words},
    body::{self, Room},
    error::PushError,
    grouping::Grouping,
    metrics,
    store::{Push, Store},
};
use bytes::Bytes;
use http::{Method, StatusCode, request::Parts};
use narthex_expfmt::Format;
use narthex_net::{Gate, Pass, axum::extract::Request, catch_panic, run_long};
use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

/// Limits of pushes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest body of a push, compressed or not.
    pub body_bytes: usize,
    /// Most bytes of all bodies being read or decompressed.
    pub reading_bytes: usize,
    /// Longest time for a body to arrive.
    pub body_timeout: Duration,
    /// Most pushes worked on at once.
    pub concurrency: usize,
    /// Longest time a push waits for its turn before it is refused.
    pub wait: Duration,
}

/// What pushes have in common on their way to a store.
pub(crate) struct Receiver {
    store: Arc<Store>,
    limits: Limits,
    gate: Gate,
    reading_left: Arc<AtomicUsize>,
}

/// A push whose body has arrived and whose turn has come.
pub(crate) struct Received {
    pub(crate) head: Parts,
    pub(crate) asked: Asked,
    wire: Bytes,
    pub(crate) room: Room,
    limit_bytes: usize,
    _pass: Pass,
}

impl Received {
    /// Returns the length of the body as it was sent.
    pub(crate) fn wire_bytes(&self) -> usize {
        self.wire.len()
    }

    /// Returns the body, decompressed.
    ///
    /// # Errors
    /// As [`body::decompress`].
    pub(crate) fn body(&mut self) -> Result<Bytes, PushError> {
        let wire = self.wire.clone();
        body::decompress(&self.head.headers, wire, self.limit_bytes, &mut self.room)
    }

    /// Returns whether families that are not in the body are removed.
    pub(crate) fn replaces(&self) -> bool {
        self.head.method == Method::PUT
    }

    pub(crate) fn format(&self) -> Format {
        body::format_of(&self.head.headers)
    }
}

impl Receiver {
    pub(crate) fn new(store: Arc<Store>, limits: Limits) -> Self {
        Self {
            store,
            limits,
            gate: Gate::new("push", limits.concurrency),
            reading_left: Arc::new(AtomicUsize::new(limits.reading_bytes)),
        }
    }

    /// Stores the push of one group.
    ///
    /// # Errors
    /// Returns why it is refused.
    pub(crate) async fn push(
        &self,
        grouping: &Grouping,
        request: Request,
    ) -> Result<StatusCode, PushError> {
        let mut received = self.receive(request).await?;
        let bytes = received.wire_bytes();
        self.in_turn(grouping, bytes, || {
            let body = received.body()?;
            let push = Push {
                replace: received.replaces(),
                format: received.format(),
                body: &body,
                asked: &received.asked,
            };
            self.store.push(grouping, push)
        })
        .await?;
        Ok(self.success())
    }

    /// Returns the status of a stored push.
    pub(crate) fn success(&self) -> StatusCode {
        if self.store.config().is_unchecked {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        }
    }

    /// Reads a request, and waits for one of the turns of all.
    ///
    /// # Errors
    /// Returns why the push is refused.
    pub(crate) async fn receive(&self, request: Request) -> Result<Received, PushError> {
        let (head, wire) = request.into_parts();
        let asked = Asked::read(&Words {
            headers: &head.headers,
            query: head.uri.query(),
        })?;
        let mut room = Room::new(&self.reading_left);
        let limits = &self.limits;
        let reading = body::read(wire, limits.body_bytes, limits.body_timeout, &mut room);
        let wire = reading.await?;
        metrics::PUSH_BYTES
            .with(&[metrics::word(&head.method)])
            .observe(wire.len() as f64);
        let pass = self.gate.pass(limits.wait).await;
        Ok(Received {
            head,
            asked,
            wire,
            room,
            limit_bytes: limits.body_bytes,
            _pass: pass.map_err(|_| PushError::busy("too many pushes at once"))?,
        })
    }

    /// Stores the part of a batch that belongs to one group.
    ///
    /// # Errors
    /// Returns why it is refused.
    pub(crate) async fn store(&self, grouping: &Grouping, push: Push<'_>) -> Result<(), PushError> {
        let work = || self.store.push(grouping, push);
        self.in_turn(grouping, push.body.len(), work).await
    }

    /// Works on a push when no other push to its group is being worked on.
    async fn in_turn(
        &self,
        grouping: &Grouping,
        bytes: usize,
        work: impl FnOnce() -> Result<(), PushError>,
    ) -> Result<(), PushError> {
        let group = self.store.group(grouping);
        let turn = tokio::time::timeout(self.limits.wait, group.turn.lock()).await;
        let _turn = turn.map_err(|_| PushError::busy("too many pushes to this group at once"))?;
        let caught = run_long(bytes, || catch_panic("push", work));
        caught.map_err(|_logged| PushError::Journal {
            detail: "the push ended in a panic".to_owned(),
        })?
    }
}
