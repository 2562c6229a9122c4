//! TCP sockets by state, and the bytes in their queues.
//!
//! Invariant: a state without sockets has no value.

use std::path::{Path, PathBuf};

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::netlink::{Dumper, SOCK_DIAG_BY_FAMILY, malformed, u32_at};
use crate::sink::{Desc, Sink, Slot};

const STATES: Desc<'static> = Desc::gauge(
    "node_tcp_connection_states",
    "TCP sockets by state; rx_queued_bytes and tx_queued_bytes are bytes in their queues.",
);
/// In the order of the kernel's numbers, which begin with 1.
const NAMES: &str = "\
    established syn_sent syn_recv fin_wait1 fin_wait2 time_wait close close_wait last_ack listen closing";
const STATE_COUNT: usize = 11;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

pub(crate) struct Tcpstat {
    /// There if the kernel has IPv6.
    tcp6: PathBuf,
    dumper: Option<Dumper>,
    slots: [Option<Slot>; STATE_COUNT],
    queues: Option<[Slot; 2]>,
}

/// Sockets by state, and the bytes of both queues.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) states: [u64; STATE_COUNT],
    pub(crate) received: u64,
    pub(crate) to_send: u64,
}

impl Tcpstat {
    pub(crate) fn new(procfs: &Path) -> Self {
        Self {
            tcp6: procfs.join("net/tcp6"),
            dumper: None,
            slots: [None; STATE_COUNT],
            queues: None,
        }
    }
}

impl Collector for Tcpstat {
    fn collect(&mut self, _: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let mut dumper = self.dumper.take().map_or_else(Dumper::open_sock_diag, Ok)?;
        let mut counts = Counts::default();
        let families = [AF_INET, AF_INET6];
        let families = if self.tcp6.exists() {
            &families[..]
        } else {
            &families[..1]
        };
        for family in families {
            let body = request(*family);
            dumper.dump(SOCK_DIAG_BY_FAMILY, &body, SOCK_DIAG_BY_FAMILY, |message| {
                counts.add(message)
            })?;
        }
        self.dumper = Some(dumper);
        for ((count, slot), name) in counts
            .states
            .iter()
            .zip(&mut self.slots)
            .zip(NAMES.split(' '))
        {
            if *count > 0 {
                let slot = slot.get_or_insert_with(|| out.add(&STATES, &[("state", name)]));
                out.set(*slot, *count as f64);
            }
        }
        if counts.states.iter().any(|count| *count > 0) {
            let names = ["rx_queued_bytes", "tx_queued_bytes"];
            let add = |out: &mut Sink| names.map(|name| out.add(&STATES, &[("state", name)]));
            let [received, to_send] = *self.queues.get_or_insert_with(|| add(out));
            out.set(received, counts.received as f64);
            out.set(to_send, counts.to_send as f64);
        }
        Ok(())
    }
}

impl Counts {
    /// Counts the socket of a `struct inet_diag_msg`.
    pub(crate) fn add(&mut self, message: &[u8]) -> Result<(), HostError> {
        /// Behind family, state, timer, retransmissions, and the socket's identity and expiry.
        const QUEUES: usize = 56;
        let (state, received) = (message.get(1), u32_at(message, QUEUES));
        let (Some(state), Some(received), Some(to_send)) =
            (state, received, u32_at(message, QUEUES + 4))
        else {
            return Err(malformed("a socket without its queues"));
        };
        let place = usize::from(*state).checked_sub(1);
        if let Some(count) = place.and_then(|at| self.states.get_mut(at)) {
            *count += 1;
        }
        self.received += u64::from(received);
        self.to_send += u64::from(to_send);
        Ok(())
    }
}

/// Encodes a `struct inet_diag_req_v2` for all TCP sockets of a family.
fn request(family: u8) -> [u8; 56] {
    const IPPROTO_TCP: u8 = 6;
    const ALL_STATES: u32 = 0xfff;
    let mut body = [0; 56];
    body[0] = family;
    body[1] = IPPROTO_TCP;
    body[4..8].copy_from_slice(&ALL_STATES.to_ne_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_counted_by_state_and_their_queues_summed() {
        let mut counts = Counts::default();
        for (state, received) in [(1, 5_u32), (10, 1), (10, 0), (200, 0)] {
            let mut message = [0; 72];
            message[1] = state;
            message[56..60].copy_from_slice(&received.to_ne_bytes());
            message[60..64].copy_from_slice(&2_u32.to_ne_bytes());
            counts.add(&message).expect("whole");
        }
        let mut states = [0; STATE_COUNT];
        (states[0], states[9]) = (1, 2);
        let expected = Counts {
            states,
            received: 6,
            to_send: 8,
        };
        assert_eq!(counts, expected);
        assert!(counts.add(&[0; 60]).is_err());
    }
}
