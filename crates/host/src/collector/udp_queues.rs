//! Bytes queued in UDP sockets: `net/udp` and `net/udp6`.
//!
//! To print these, the kernel goes through a hash table for all sockets of the machine, tens of thousands of places. If
//! `net/sockstat` has counted none in this round, there is nothing to print.
//!
//! Invariant: a protocol the kernel lacks is omitted; without both there is no data.

use std::path::Path;

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::scan::{each_line_below, hex, next_field};
use crate::sink::{Desc, Sink, Slot};

const QUEUES: Desc<'static> = Desc::gauge(
    "node_udp_queues",
    "Number of allocated memory in the kernel for UDP datagrams in bytes.",
);

pub(crate) struct UdpQueues {
    protocols: [Protocol; 2],
}

struct Protocol {
    file: OpenFile,
    ip: &'static str,
    slots: Option<[Slot; 2]>,
    /// Whether the file was empty when it was last read and no sockets were counted: recorded files may disagree.
    agrees: bool,
}

impl UdpQueues {
    pub(crate) fn new(procfs: &Path) -> Self {
        let protocols = [("net/udp", "v4"), ("net/udp6", "v6")];
        Self {
            protocols: protocols.map(|(name, ip)| Protocol {
                file: OpenFile::new(procfs.join(name)),
                ip,
                slots: None,
                agrees: false,
            }),
        }
    }
}

impl Collector for UdpQueues {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let mut found = false;
        for (protocol, counted) in self.protocols.iter_mut().zip(ctx.udp_sockets) {
            let Protocol {
                file,
                ip,
                slots,
                agrees,
            } = protocol;
            let is_empty = counted == Some(0.0);
            if let Some(slots) = slots.filter(|_| is_empty && *agrees && !ctx.refresh) {
                found = true;
                slots.iter().for_each(|slot| out.set(*slot, 0.0));
                continue;
            }
            // Lines of UDP are padded to 127 bytes: a page is never half empty while lines are left.
            let text = file.read_if_there(ctx.refresh, ctx.buf, End::Below(2048))?;
            let Some(text) = text else { continue };
            found = true;
            let (sockets, bytes) = parse(text).map_err(|source| file.malformed(source))?;
            *agrees = is_empty && sockets == 0;
            let slots = slots.get_or_insert_with(|| {
                ["tx", "rx"].map(|queue| out.add(&QUEUES, &[("queue", queue), ("ip", ip)]))
            });
            for (slot, bytes) in slots.iter().zip(bytes) {
                out.set(*slot, bytes as f64);
            }
        }
        match found {
            true => Ok(()),
            false => Err(self.protocols[0].file.no_data()),
        }
    }
}

/// Counts the sockets and sums their queues: send, receive.
pub(crate) fn parse(text: &[u8]) -> Result<(u32, [u64; 2]), ParseError> {
    let mut sums = [0_u64; 2];
    let mut sockets = 0;
    each_line_below(1, text, |mut line| {
        let error = "a socket's queues";
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
        sockets += 1;
        Ok(())
    })?;
    Ok((sockets, sums))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_file::ReadBuf;
    use narthex_testkit::TempDir;

    #[test]
    fn queues_are_summed() {
        let line = "  0: 00000000:0016 00000000:0000 0A 00000015:00000001 00:00000000 0 0 0 2740";
        let text = format!("head\n{line}\n{line}\n");
        assert_eq!(parse(text.as_bytes()), Ok((2, [42, 2])));
        for bad in ["0: 1 2", "0: 1 2 3 4", "0: 1 2 3 x:1"] {
            let text = format!("head\n{bad}\n");
            assert_eq!(parse(text.as_bytes()).map_err(|e| e.line), Err(2), "{bad}");
        }
    }

    fn read(udp: &mut UdpQueues, out: &mut Sink, counted: Option<f64>, refresh: bool) -> Vec<f64> {
        out.begin();
        let mut ctx = Ctx {
            buf: &mut ReadBuf::new(),
            round: 1,
            refresh,
            udp_sockets: [counted, None],
        };
        udp.collect(&mut ctx, out).expect("there is a file");
        out.finish(0).values().to_vec()
    }

    #[test]
    fn without_sockets_the_table_is_only_read_at_a_refresh() {
        let dir = TempDir::new("udp-queues");
        let socket = "  0: 0:0 0:0 07 00000015:00000001 00:00000000 0 0 0 2740\n";
        let (empty, full) = ("head\n".to_owned(), format!("head\n{socket}"));
        dir.write("net/udp", &empty);
        let mut udp = UdpQueues::new(dir.path());
        let mut out = Sink::new(narthex_model::LabelSet::empty());
        assert_eq!(read(&mut udp, &mut out, Some(0.0), true), [0.0, 0.0]);
        dir.write("net/udp", &full);
        assert_eq!(read(&mut udp, &mut out, Some(0.0), false), [0.0, 0.0]);
        assert_eq!(read(&mut udp, &mut out, Some(1.0), false), [21.0, 1.0]);
        // A count that is wrong is not believed again.
        assert_eq!(read(&mut udp, &mut out, Some(0.0), true), [21.0, 1.0]);
        assert_eq!(read(&mut udp, &mut out, Some(0.0), false), [21.0, 1.0]);
        dir.write("net/udp", &empty);
        assert_eq!(read(&mut udp, &mut out, None, false), [0.0, 0.0]);
        dir.write("net/udp", &full);
        assert_eq!(read(&mut udp, &mut out, Some(0.0), false), [21.0, 1.0]);
    }
}
