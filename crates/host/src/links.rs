//! Links, their counters and addresses, from the routing socket.
//!
//! Invariant: `changed` is called before `list` or `counters`, so that a change between two calls is seen at the next
//! round at the latest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use crate::error::HostError;
use crate::linkprops::{self, Properties};
use crate::netlink::{
    ANSWER, Dumper, LinkNews, RTM_GETADDR, RTM_GETLINK, RTM_GETNEIGH, RTM_GETSTATS, RTM_NEWADDR,
    RTM_NEWLINK, RTM_NEWNEIGH, RTM_NEWSTATS, attributes, malformed, u16_at, u32_at,
};
use crate::scan::until_nul;

/// `AF_INET`.
const AF_INET: u8 = 2;

/// Counters in `struct rtnl_link_stats64` up to the last that is exported.
const COUNTERS: usize = 24;

pub(crate) struct Links {
    dumper: Dumper,
    news: LinkNews,
    listed: bool,
    /// Whether the kernel (since Linux 4.7) sends statistics alone; earlier ones send the counters with the links.
    has_stats: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    pub(crate) index: u32,
    pub(crate) name: &'a [u8],
    pub(crate) alias: &'a [u8],
}

/// An address of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) index: u32,
    pub(crate) ip: IpAddr,
    pub(crate) prefix_bits: u8,
}

impl Address {
    /// Returns Go's name of the address's scope.
    pub(crate) fn scope(&self) -> &'static str {
        let (link_local, interface_local) = match self.ip {
            IpAddr::V4(ip) => {
                let local_multicast = ip.octets()[..3] == [224, 0, 0];
                (
                    ip.is_loopback() || ip.is_link_local() || local_multicast,
                    false,
                )
            }
            IpAddr::V6(ip) => {
                let first = ip.segments()[0];
                let local_multicast = first & 0xff0f == 0xff02;
                (
                    ip.is_loopback() || ip.is_unicast_link_local() || local_multicast,
                    first & 0xff0f == 0xff01,
                )
            }
        };
        let global = match self.ip {
            IpAddr::V4(ip) => !ip.is_broadcast() && !ip.is_unspecified() && !ip.is_multicast(),
            IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast(),
        };
        match () {
            () if link_local => "link-local",
            () if interface_local => "interface-local",
            () if global => "global",
            () => "",
        }
    }
}

impl Links {
    pub(crate) fn open() -> Result<Self, HostError> {
        Ok(Self {
            dumper: Dumper::open()?,
            news: LinkNews::open()?,
            listed: false,
            has_stats: true,
        })
    }

    /// Reports whether the list of links may differ from the last one of `list`.
    pub(crate) fn changed(&mut self) -> bool {
        self.news.drain() || !self.listed
    }

    /// Calls `each` with every link.
    pub(crate) fn list(&mut self, mut each: impl FnMut(Link<'_>)) -> Result<(), HostError> {
        self.list_messages(|message| {
            parse_link(message)?.0.into_iter().for_each(&mut each);
            Ok(())
        })
    }

    /// Calls `each` with every link's name and properties.
    pub(crate) fn properties(
        &mut self,
        mut each: impl FnMut(&[u8], Properties),
    ) -> Result<(), HostError> {
        self.list_messages(|message| {
            if let Some((name, found)) = linkprops::parse(message)? {
                each(name, found);
            }
            Ok(())
        })
    }

    fn list_messages(
        &mut self,
        each: impl FnMut(&[u8]) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        self.listed = false;
        self.dumper
            .dump(RTM_GETLINK, &link_request(true), RTM_NEWLINK, each)?;
        self.listed = true;
        Ok(())
    }

    /// Calls `each` with the index and counters of every link; it may include links that `list` has not seen.
    pub(crate) fn counters(&mut self, mut each: impl FnMut(u32, &[u64])) -> Result<(), HostError> {
        if self.has_stats {
            let dumped =
                self.dumper
                    .dump(RTM_GETSTATS, &stats_request(0), RTM_NEWSTATS, |message| {
                        if let Some((index, counters)) = parse_stats(message)? {
                            each(index, &counters);
                        }
                        Ok(())
                    });
            match dumped {
                Err(HostError::Netlink { action: ANSWER, .. }) => self.has_stats = false,
                other => return other,
            }
        }
        self.dumper
            .dump(RTM_GETLINK, &link_request(false), RTM_NEWLINK, |message| {
                if let (Some(link), Some(counters)) = parse_link(message)? {
                    each(link.index, &counters);
                }
                Ok(())
            })
    }

    /// As `counters`, of these links at least, if they still exist. Asking for each is cheaper than a dump if they are
    /// few among many: the kernel sums the counters of all processors for every link that it sends.
    pub(crate) fn counters_of(
        &mut self,
        wanted: &[u32],
        mut each: impl FnMut(u32, &[u64]),
    ) -> Result<(), HostError> {
        if !self.has_stats {
            return self.counters(each);
        }
        for index in wanted {
            let request = stats_request(*index);
            let answer = self
                .dumper
                .one(RTM_GETSTATS, &request, RTM_NEWSTATS, |message| {
                    if let Some((index, counters)) = parse_stats(message)? {
                        each(index, &counters);
                    }
                    Ok(())
                });
            match answer {
                // It was removed since the list was made, which the next round hears of.
                Err(HostError::Netlink {
                    action: ANSWER,
                    source: Errno::NODEV,
                }) => {}
                Err(HostError::Netlink { action: ANSWER, .. }) => return self.counters(each),
                other => other?,
            }
        }
        Ok(())
    }

    /// Calls `each` with the device's index of every IPv4 neighbour, except those that need no resolution.
    pub(crate) fn neighbours(&mut self, mut each: impl FnMut(u32)) -> Result<(), HostError> {
        self.dumper.dump(
            RTM_GETNEIGH,
            &neighbour_request(),
            RTM_NEWNEIGH,
            |message| {
                parse_neighbour(message)?.into_iter().for_each(&mut each);
                Ok(())
            },
        )
    }

    /// Calls `each` with every address.
    pub(crate) fn addresses(&mut self, mut each: impl FnMut(Address)) -> Result<(), HostError> {
        const ADDRESS_BODY: [u8; 8] = [0; 8];
        self.dumper
            .dump(RTM_GETADDR, &ADDRESS_BODY, RTM_NEWADDR, |message| {
                parse_address(message)?.into_iter().for_each(&mut each);
                Ok(())
            })
    }
}

/// Encodes `struct ifinfomsg`, then `IFLA_EXT_MASK`, which omits the counters if only names are needed.
fn link_request(names_only: bool) -> [u8; 24] {
    const IFLA_EXT_MASK: u16 = 29;
    const SKIP_STATS: u32 = 1 << 3;
    let mut body = [0; 24];
    body[16..18].copy_from_slice(&8_u16.to_ne_bytes());
    body[18..20].copy_from_slice(&IFLA_EXT_MASK.to_ne_bytes());
    let mask = if names_only { SKIP_STATS } else { 0 };
    body[20..24].copy_from_slice(&mask.to_ne_bytes());
    body
}

/// Encodes a `struct if_stats_msg` that requests `IFLA_STATS_LINK_64` of a link, or of all for a dump.
fn stats_request(index: u32) -> [u8; 12] {
    let mut body = [0; 12];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..12].copy_from_slice(&1_u32.to_ne_bytes());
    body
}

/// Encodes `struct ndmsg` of the address family.
fn neighbour_request() -> [u8; 12] {
    let mut body = [0; 12];
    body[0] = AF_INET;
    body
}

/// Parses `struct ndmsg`.
pub(crate) fn parse_neighbour(message: &[u8]) -> Result<Option<u32>, HostError> {
    /// Addresses of the device itself, of broadcasts and of multicasts.
    const NUD_NOARP: u16 = 0x40;
    let (Some(index), Some(state)) = (u32_at(message, 4), u16_at(message, 8)) else {
        return Err(malformed("a neighbour without its header"));
    };
    let counts = message[0] == AF_INET && state & NUD_NOARP == 0;
    Ok(counts.then_some(index))
}

pub(crate) fn parse_link(
    message: &[u8],
) -> Result<(Option<Link<'_>>, Option<[u64; COUNTERS]>), HostError> {
    const LINK_HEADER: usize = 16;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_IFALIAS: u16 = 20;
    const IFLA_STATS64: u16 = 23;
    let (Some(index), Some(rest)) = (u32_at(message, 4), message.get(LINK_HEADER..)) else {
        return Err(malformed("a link without its header"));
    };
    // A bridge's ports are listed again as members of the bridge, without statistics of their own.
    if message[0] != 0 {
        return Ok((None, None));
    }
    let (mut name, mut alias, mut counters) = (None, &[][..], None);
    attributes(rest, |kind, value| match kind {
        IFLA_IFNAME => name = Some(until_nul(value)),
        IFLA_IFALIAS => alias = until_nul(value),
        IFLA_STATS64 => counters = Some(counters_of(value)),
        _ => {}
    })?;
    let link = name.map(|name| Link { index, name, alias });
    Ok((link, counters))
}

pub(crate) fn parse_stats(message: &[u8]) -> Result<Option<(u32, [u64; COUNTERS])>, HostError> {
    const STATS_HEADER: usize = 12;
    const IFLA_STATS_LINK_64: u16 = 1;
    let (Some(index), Some(rest)) = (u32_at(message, 4), message.get(STATS_HEADER..)) else {
        return Err(malformed("statistics without their header"));
    };
    let mut counters = None;
    attributes(rest, |kind, value| {
        if kind == IFLA_STATS_LINK_64 {
            counters = Some(counters_of(value));
        }
    })?;
    Ok(counters.map(|counters| (index, counters)))
}

pub(crate) fn parse_address(message: &[u8]) -> Result<Option<Address>, HostError> {
    const ADDRESS_HEADER: usize = 8;
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    let (Some(index), Some(rest)) = (u32_at(message, 4), message.get(ADDRESS_HEADER..)) else {
        return Err(malformed("an address without its header"));
    };
    let (mut local, mut peer) = (None, None);
    attributes(rest, |kind, value| match kind {
        IFA_LOCAL => local = ip_of(value),
        IFA_ADDRESS => peer = ip_of(value),
        _ => {}
    })?;
    // On a point-to-point link IFA_ADDRESS is the other end.
    Ok(local.or(peer).map(|ip| Address {
        index,
        ip,
        prefix_bits: message[1],
    }))
}

pub(crate) fn ip_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    <[u8; 16]>::try_from(bytes)
        .ok()
        .map(|sixteen| Ipv6Addr::from(sixteen).into())
}

/// Parses the counters present; older kernels have fewer, newer ones more.
fn counters_of(bytes: &[u8]) -> [u64; COUNTERS] {
    let mut counters = [0; COUNTERS];
    let (words, _) = bytes.as_chunks::<8>();
    for (counter, word) in counters.iter_mut().zip(words) {
        *counter = u64::from_ne_bytes(*word);
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_link_that_is_gone_are_left_out() {
        let mut links = Links::open().expect("routing sockets");
        let mut seen = Vec::new();
        let set = |index: u32, _: &[u64]| seen.push(index);
        // The kernel's first link is `lo`; it counts up from there.
        let answer = links.counters_of(&[i32::MAX.cast_unsigned(), 1], set);
        assert!(answer.is_ok(), "{answer:?}");
        assert_eq!((seen, links.has_stats), (vec![1], true));
    }
}
