//! Bytes queued in UDP sockets: `net/udp` and `net/udp6`.
//!
//! Invariant: a protocol the kernel lacks is omitted; without both there is no data.

use std::path::Path;

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::kind::CollectorKind;
use crate::open_file::{End, OpenFile};
use crate::scan::{hex, next_field, next_line};
use crate::sink::{Desc, Sink, Slot};

const QUEUES: Desc<'static> = Desc::gauge(
    "node_udp_queues",
    "Number of allocated memory in the kernel for UDP datagrams in bytes.",
);

pub(crate) struct UdpQueues {
    protocols: [(OpenFile, &'static str, Option<[Slot; 2]>); 2],
}

impl UdpQueues {
    pub(crate) fn new(procfs: &Path) -> Self {
        let protocols = [("net/udp", "v4"), ("net/udp6", "v6")];
        Self {
            protocols: protocols.map(|(name, ip)| (OpenFile::new(procfs.join(name)), ip, None)),
        }
    }
}

impl Collector for UdpQueues {
    fn kind(&self) -> CollectorKind {
        CollectorKind::UdpQueues
    }

    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let mut found = false;
        for (file, ip, slots) in &mut self.protocols {
            // Lines of UDP are padded to 127 bytes: a page is never half empty while lines are left.
            let text = file.read_if_there(ctx.refresh, ctx.buf, End::Below(2048))?;
            let Some(text) = text else { continue };
            found = true;
            let bytes = parse(text).map_err(|source| file.malformed(source))?;
            let slots = slots.get_or_insert_with(|| {
                ["tx", "rx"].map(|queue| out.add(&QUEUES, &[("queue", queue), ("ip", ip)]))
            });
            for (slot, bytes) in slots.iter().zip(bytes) {
                out.set(*slot, bytes as f64);
            }
        }
        match found {
            true => Ok(()),
            false => Err(self.protocols[0].0.no_data()),
        }
    }
}

/// Sums the sockets' queues: send, receive.
pub(crate) fn parse(mut text: &[u8]) -> Result<[u64; 2], ParseError> {
    let mut sums = [0_u64; 2];
    let mut line_number = 1;
    next_line(&mut text);
    while let Some(mut line) = next_line(&mut text) {
        line_number += 1;
        let error = ParseError {
            line: line_number,
            expected: "a socket's queues",
        };
        // Number, local address, remote address, state.
        for _ in 0..4 {
            next_field(&mut line).ok_or(error)?;
        }
        let queues = next_field(&mut line).ok_or(error)?;
        let at = memchr::memchr(b':', queues).ok_or(error)?;
        let sides = [&queues[..at], &queues[at + 1..]];
        for (sum, side) in sums.iter_mut().zip(sides) {
            *sum = sum.wrapping_add(hex(side).ok_or(error)?);
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_summed() {
        let line = "  0: 00000000:0016 00000000:0000 0A 00000015:00000001 00:00000000 0 0 0 2740";
        let text = format!("head\n{line}\n{line}\n");
        assert_eq!(parse(text.as_bytes()), Ok([42, 2]));
        for bad in ["0: 1 2", "0: 1 2 3 4", "0: 1 2 3 x:1"] {
            let text = format!("head\n{bad}\n");
            assert_eq!(parse(text.as_bytes()).map_err(|e| e.line), Err(2), "{bad}");
        }
    }
}
