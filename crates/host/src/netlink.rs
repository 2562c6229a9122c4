//! The kernel's netlink sockets: dumps of links, routes, queueing disciplines and sockets, and notifications of changed
//! links.
//!
//! Invariant: kernel messages are parsed as bytes with every length checked; a short message is an error.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send,
    socket_with,
};

use crate::cost;
use crate::error::HostError;

/// `RTM_*` numbers of linux/rtnetlink.h.
pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_GETLINK: u16 = 18;
pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_GETADDR: u16 = 22;
pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_GETROUTE: u16 = 26;
pub(crate) const RTM_NEWNEIGH: u16 = 28;
pub(crate) const RTM_GETNEIGH: u16 = 30;
pub(crate) const RTM_NEWQDISC: u16 = 36;
pub(crate) const RTM_GETQDISC: u16 = 38;
pub(crate) const RTM_NEWSTATS: u16 = 92;
pub(crate) const RTM_GETSTATS: u16 = 94;
/// Request and answer of linux/sock_diag.h.
pub(crate) const SOCK_DIAG_BY_FAMILY: u16 = 20;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
/// The dump changed while in progress: it may be inconsistent.
const NLM_F_DUMP_INTR: u16 = 0x10;
const HEADER_BYTES: usize = 16;
/// `RTMGRP_LINK`.
const LINK_GROUP: u32 = 1;

/// What failed if the kernel refuses a request.
pub(crate) const ANSWER: &str = "dump";

/// A socket for requests. Only one dump may be in progress.
pub(crate) struct Dumper {
    fd: OwnedFd,
    sequence: u32,
    buf: Vec<u8>,
}

impl Dumper {
    pub(crate) fn open() -> Result<Self, HostError> {
        Ok(Self::new(open_route("open a routing socket", 0)?))
    }

    /// Opens a socket for questions about sockets.
    pub(crate) fn open_sock_diag() -> Result<Self, HostError> {
        let action = "open a socket for questions about sockets";
        let fd = open_socket(action, Some(netlink::SOCK_DIAG), 0)?;
        Ok(Self::new(fd))
    }

    /// Opens a socket for families that have numbers only since boot.
    pub(crate) fn open_generic() -> Result<Self, HostError> {
        let action = "open a generic socket";
        let fd = open_socket(action, Some(netlink::GENERIC), 0)?;
        Ok(Self::new(fd))
    }

    fn new(fd: OwnedFd) -> Self {
        /// The kernel never sends a larger part of a dump.
        const PART_BYTES: usize = 64 << 10;
        Self {
            fd,
            sequence: 0,
            buf: vec![0; PART_BYTES],
        }
    }

    /// Requests all objects of a kind and calls `each` with the payload of each message of type `wanted`.
    ///
    /// # Errors
    ///
    /// `Netlink` with the kernel's error, or `NetlinkMessage`. After an error the socket must not be used again: the
    /// rest of the response may still arrive.
    pub(crate) fn dump(
        &mut self,
        request: u16,
        body: &[u8],
        wanted: u16,
        mut each: impl FnMut(&[u8]) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        /// A list that changes during every attempt is still better than no list.
        const ATTEMPTS: u32 = 3;
        for _ in 0..ATTEMPTS {
            self.ask(request, NLM_F_REQUEST | NLM_F_DUMP, body)?;
            let mut torn = false;
            loop {
                let len = self.receive()?;
                let part = parse_part(&self.buf[..len], self.sequence, wanted, &mut each)?;
                torn |= part.torn;
                if part.done {
                    break;
                }
            }
            if !torn {
                break;
            }
        }
        Ok(())
    }

    /// Requests one object and calls `each` with the payload of the message of type `wanted` that answers.
    ///
    /// # Errors
    ///
    /// As [`dump`](Self::dump); after the kernel's refusal, an error with the action [`ANSWER`], the socket may be used
    /// again.
    pub(crate) fn one(
        &mut self,
        request: u16,
        body: &[u8],
        wanted: u16,
        mut each: impl FnMut(&[u8]) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        self.ask(request, NLM_F_REQUEST, body)?;
        let mut answered = false;
        while !answered {
            let len = self.receive()?;
            let part = parse_part(&self.buf[..len], self.sequence, wanted, &mut |message| {
                answered = true;
                each(message)
            })?;
            answered |= part.done;
        }
        Ok(())
    }

    fn ask(&mut self, request: u16, flags: u16, body: &[u8]) -> Result<(), HostError> {
        const MAX_BODY: usize = 64;
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let mut message = [0_u8; HEADER_BYTES + MAX_BODY];
        let len = HEADER_BYTES + body.len();
        let announced = u32::try_from(len).expect("bodies are a few bytes");
        message[..4].copy_from_slice(&announced.to_ne_bytes());
        message[4..6].copy_from_slice(&request.to_ne_bytes());
        message[6..8].copy_from_slice(&flags.to_ne_bytes());
        message[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        message[HEADER_BYTES..len].copy_from_slice(body);
        cost::count(0);
        retry(|| send(&self.fd, &message[..len], SendFlags::empty())).map_err(|source| {
            HostError::Netlink {
                action: "ask for a dump",
                source,
            }
        })?;
        Ok(())
    }

    fn receive(&mut self) -> Result<usize, HostError> {
        let received =
            retry(|| recv(&self.fd, &mut self.buf[..], RecvFlags::TRUNC)).map_err(|source| {
                HostError::Netlink {
                    action: "receive a dump",
                    source,
                }
            })?;
        cost::count(received.0);
        if received.1 > self.buf.len() {
            return Err(malformed("a part larger than the kernel makes"));
        }
        Ok(received.0)
    }
}

/// A socket that is notified of every change of a link.
pub(crate) struct LinkNews {
    fd: OwnedFd,
}

impl LinkNews {
    pub(crate) fn open() -> Result<Self, HostError> {
        let fd = open_route("listen to link changes", LINK_GROUP)?;
        // One message is as good as a thousand: the smaller the buffer, the less there is to drain. An overflow is
        // reported as an error, which means "changed" as well.
        let _ = set_socket_recv_buffer_size(&fd, 4096);
        Ok(Self { fd })
    }

    /// Reports whether any link changed since the last call.
    pub(crate) fn drain(&mut self) -> bool {
        let mut byte = [0_u8; 1];
        let mut changed = false;
        loop {
            cost::count(0);
            match recv(&self.fd, &mut byte, RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::NOBUFS) => changed = true,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return changed,
                Err(_) => return true,
            }
        }
    }
}

/// Result of parsing one part of a response.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) done: bool,
    pub(crate) torn: bool,
}

/// Walks the messages of one datagram; messages of other requests and types are skipped.
pub(crate) fn parse_part(
    mut bytes: &[u8],
    sequence: u32,
    wanted: u16,
    each: &mut impl FnMut(&[u8]) -> Result<(), HostError>,
) -> Result<Part, HostError> {
    let mut part = Part::default();
    while bytes.len() >= HEADER_BYTES {
        let len = u32_at(bytes, 0).unwrap_or(0) as usize;
        if len < HEADER_BYTES || len > bytes.len() {
            return Err(malformed("a length beyond its datagram"));
        }
        let (kind, flags) = (u16_at(bytes, 4).unwrap_or(0), u16_at(bytes, 6).unwrap_or(0));
        let body = &bytes[HEADER_BYTES..len];
        if u32_at(bytes, 8) == Some(sequence) {
            part.torn |= flags & NLM_F_DUMP_INTR != 0;
            match kind {
                NLMSG_DONE | NLMSG_ERROR => {
                    let code = u32_at(body, 0).unwrap_or(0).cast_signed();
                    if code < 0 {
                        let source = Errno::from_raw_os_error(code.saturating_neg().clamp(1, 4095));
                        return Err(HostError::Netlink {
                            action: ANSWER,
                            source,
                        });
                    }
                    part.done = true;
                    return Ok(part);
                }
                _ if kind == wanted => each(body)?,
                _ => {}
            }
        }
        bytes = &bytes[align(len).min(bytes.len())..];
    }
    Ok(part)
}

/// Calls `each` with the type and payload of every attribute.
pub(crate) fn attributes<'a>(
    mut bytes: &'a [u8],
    mut each: impl FnMut(u16, &'a [u8]),
) -> Result<(), HostError> {
    const ATTRIBUTE_HEADER: usize = 4;
    /// The top two bits mean "nested" and "network byte order".
    const TYPE_MASK: u16 = 0x3fff;
    while bytes.len() >= ATTRIBUTE_HEADER {
        let len = usize::from(u16_at(bytes, 0).unwrap_or(0));
        if len < ATTRIBUTE_HEADER || len > bytes.len() {
            return Err(malformed("an attribute beyond its message"));
        }
        each(
            u16_at(bytes, 2).unwrap_or(0) & TYPE_MASK,
            &bytes[ATTRIBUTE_HEADER..len],
        );
        bytes = &bytes[align(len).min(bytes.len())..];
    }
    Ok(())
}

/// Returns the error of a message that is shorter than it says.
pub(crate) fn malformed(what: &'static str) -> HostError {
    HostError::NetlinkMessage { what }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_ne_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_ne_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn align(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn open_route(action: &'static str, groups: u32) -> Result<OwnedFd, HostError> {
    // NETLINK_ROUTE is protocol 0, which is the default.
    open_socket(action, None, groups)
}

fn open_socket(
    action: &'static str,
    protocol: Option<Protocol>,
    groups: u32,
) -> Result<OwnedFd, HostError> {
    let error = |source| HostError::Netlink { action, source };
    let fd = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        protocol,
    )
    .map_err(error)?;
    bind(&fd, &SocketAddrNetlink::new(0, groups)).map_err(error)?;
    Ok(fd)
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
