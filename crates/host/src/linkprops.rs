//! Properties of a network device, from a link message of the routing socket.
//!
//! Invariant: values that sysfs shows in another form are converted to it here, so that both sources agree.

use crate::error::HostError;
use crate::netlink::{attributes, malformed, u16_at, u32_at};
use crate::scan::until_nul;

/// Properties whose changes the kernel announces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) index: u32,
    pub(crate) protocol_type: u16,
    pub(crate) flags: u32,
    pub(crate) address: Box<[u8]>,
    pub(crate) broadcast: Box<[u8]>,
    pub(crate) alias: Box<[u8]>,
    pub(crate) mtu_bytes: Option<u32>,
    pub(crate) link: Option<u32>,
    pub(crate) queue_length: Option<u32>,
    pub(crate) oper_state: u8,
    pub(crate) link_mode: Option<u8>,
    pub(crate) group: Option<u32>,
    pub(crate) carrier: Option<u8>,
    pub(crate) carrier_changes: Option<u32>,
    pub(crate) carrier_up: Option<u32>,
    pub(crate) carrier_down: Option<u32>,
    promiscuity: u32,
    all_multicast: u32,
}

/// The device is switched on.
const IFF_UP: u32 = 1;
const IFF_PROMISC: u32 = 0x100;
const IFF_ALLMULTI: u32 = 0x200;
/// The device waits for another one to be ready.
const IFF_DORMANT: u32 = 1 << 17;

impl Properties {
    pub(crate) fn is_up(&self) -> bool {
        self.flags & IFF_UP != 0
    }

    /// Returns whether the device is dormant; `None`, as in sysfs, for a device that is switched off.
    pub(crate) fn dormant(&self) -> Option<bool> {
        self.is_up().then_some(self.flags & IFF_DORMANT != 0)
    }

    /// As `dormant`.
    pub(crate) fn carrier(&self) -> Option<u8> {
        self.carrier.filter(|_| self.is_up())
    }

    /// Returns the flags without those that the kernel computes for the message, and with those that it takes out: what
    /// a bridge or another device asks of this one, not what somebody set.
    pub(crate) fn sysfs_flags(&self) -> u32 {
        /// Running, lower layer up, dormant.
        const WORKED_OUT: u32 = 0x40 | 1 << 16 | IFF_DORMANT;
        let asked = |count: u32, flag: u32| if count > 0 { flag } else { 0 };
        self.flags & !WORKED_OUT
            | asked(self.promiscuity, IFF_PROMISC)
            | asked(self.all_multicast, IFF_ALLMULTI)
    }

    pub(crate) fn oper_state(&self) -> &'static str {
        const STATES: &str = "unknown notpresent down lowerlayerdown testing dormant up";
        let state = STATES.split(' ').nth(usize::from(self.oper_state));
        state.unwrap_or("unknown")
    }
}

/// Parses a link message into the device's name and properties; `None` if it is not about a device itself.
pub(crate) fn parse(message: &[u8]) -> Result<Option<(&[u8], Properties)>, HostError> {
    const LINK_HEADER: usize = 16;
    let header = (u16_at(message, 2), u32_at(message, 4), u32_at(message, 8));
    let (Some(rest), (Some(protocol_type), Some(index), Some(flags))) =
        (message.get(LINK_HEADER..), header)
    else {
        return Err(malformed("a link without its header"));
    };
    if message.first() != Some(&0) {
        return Ok(None);
    }
    let mut name = None;
    let mut found = Properties {
        index,
        protocol_type,
        flags,
        ..Properties::default()
    };
    attributes(rest, |kind, value| {
        if kind == IFLA_IFNAME {
            name = Some(until_nul(value));
        } else {
            found.set(kind, value);
        }
    })?;
    Ok(name.map(|name| (name, found)))
}

const IFLA_IFNAME: u16 = 3;

impl Properties {
    /// Stores an attribute by its number in linux/if_link.h.
    fn set(&mut self, kind: u16, value: &[u8]) {
        let byte = value.first().copied();
        let word = u32_at(value, 0);
        match kind {
            1 => self.address = value.into(),
            2 => self.broadcast = value.into(),
            4 => self.mtu_bytes = word,
            5 => self.link = word,
            13 => self.queue_length = word,
            16 => self.oper_state = byte.unwrap_or(0),
            17 => self.link_mode = byte,
            20 => self.alias = until_nul(value).into(),
            27 => self.group = word,
            30 => self.promiscuity = word.unwrap_or(0),
            33 => self.carrier = byte,
            35 => self.carrier_changes = word,
            47 => self.carrier_up = word,
            48 => self.carrier_down = word,
            61 => self.all_multicast = word.unwrap_or(0),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysfs_hides_is_hidden() {
        let mut found = Properties {
            flags: 0x1_1043,
            carrier: Some(1),
            promiscuity: 1,
            ..Properties::default()
        };
        assert_eq!(found.sysfs_flags(), 0x1103);
        found.all_multicast = 2;
        assert_eq!(found.sysfs_flags(), 0x1303);
        assert_eq!((found.carrier(), found.dormant()), (Some(1), Some(false)));
        found.flags = 0x1002;
        assert_eq!((found.carrier(), found.dormant()), (None, None));
        found.oper_state = 9;
        assert_eq!(found.oper_state(), "unknown");
    }
}
