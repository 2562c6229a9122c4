//! Unicast routes, one series for each, and their number by device.
//!
//! Invariant: routes that differ in nothing that a label shows are one series, and are counted each.

use std::net::IpAddr;

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::link_names::LinkNames;
use crate::links::ip_of;
use crate::netlink::{Dumper, RTM_GETROUTE, RTM_NEWROUTE, attributes, malformed, u16_at, u32_at};
use crate::rows::Rows;
use crate::sink::{Desc, Sink};

const INFO: Desc<'static> = Desc::gauge(
    "node_network_route_info",
    "A route of the kernel's tables; the value is 1.",
);
const ROUTES: Desc<'static> = Desc::gauge("node_network_routes", "Routes over the device.");

#[derive(Default)]
pub(crate) struct NetworkRoute {
    names: LinkNames,
    dumper: Option<Dumper>,
    routes: Vec<Route>,
    rows: Rows,
}

/// A route, or one of several ways of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    device: u32,
    source: Option<IpAddr>,
    /// `None`: the default route.
    destination: Option<(IpAddr, u8)>,
    gateway: Option<IpAddr>,
    priority: u32,
    protocol: u8,
    weight: Option<u32>,
}

impl Collector for NetworkRoute {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        const ROUTE_BODY: [u8; 12] = [0; 12];
        self.names.update(ctx.refresh)?;
        let mut dumper = self.dumper.take().map_or_else(Dumper::open, Ok)?;
        self.routes.clear();
        dumper.dump(RTM_GETROUTE, &ROUTE_BODY, RTM_NEWROUTE, |message| {
            parse(message, &mut self.routes)
        })?;
        self.dumper = Some(dumper);
        self.rows.begin();
        for route in &self.routes {
            route.set(&self.names, &mut self.rows, out);
        }
        // By device, so that each one's routes are next to each other.
        self.routes.sort_unstable_by_key(|route| route.device);
        for routes in self.routes.chunk_by(|a, b| a.device == b.device) {
            let device = routes
                .first()
                .map_or("", |route| self.names.get(route.device));
            let labels = [("device", device)];
            let count = routes.len() as f64;
            self.rows.set_all(
                &[b"routes", device.as_bytes()],
                &[count],
                out,
                (&[ROUTES], &labels),
            );
        }
        self.rows.end(out);
        Ok(())
    }
}

impl Route {
    fn set(&self, names: &LinkNames, rows: &mut Rows, out: &mut Sink) {
        let shown = |ip: Option<IpAddr>| ip.map_or(String::new(), |ip| ip.to_string());
        let destination = self
            .destination
            .map_or_else(|| "default".to_owned(), |(ip, bits)| format!("{ip}/{bits}"));
        let (source, gateway) = (shown(self.source), shown(self.gateway));
        let priority = self.priority.to_string();
        let weight = self
            .weight
            .map_or(String::new(), |weight| weight.to_string());
        let labels = [
            ("device", names.get(self.device)),
            ("src", &source),
            ("dest", &destination),
            ("gw", &gateway),
            ("priority", &priority),
            ("proto", protocol(self.protocol)),
            ("weight", &weight),
        ];
        let key = labels.map(|(_, value)| value.as_bytes());
        rows.set_all(&key, &[1.0], out, (&[INFO], &labels));
    }
}

/// Adds what an `RTM_NEWROUTE` message describes; nothing for other routes than unicast ones.
pub(crate) fn parse(message: &[u8], routes: &mut Vec<Route>) -> Result<(), HostError> {
    const HEADER: usize = 12;
    const RTN_UNICAST: u8 = 1;
    const RTA_DST: u16 = 1;
    const RTA_OIF: u16 = 4;
    const RTA_GATEWAY: u16 = 5;
    const RTA_PRIORITY: u16 = 6;
    const RTA_PREFSRC: u16 = 7;
    const RTA_MULTIPATH: u16 = 9;
    let (Some(header), Some(rest)) = (message.get(..HEADER), message.get(HEADER..)) else {
        return Err(malformed("a route without its header"));
    };
    let [_, bits, _, _, _, protocol, _, kind, ..] = *header else {
        return Ok(());
    };
    if kind != RTN_UNICAST {
        return Ok(());
    }
    let mut route = Route {
        device: 0,
        source: None,
        destination: None,
        gateway: None,
        priority: 0,
        protocol,
        weight: None,
    };
    let mut ways = None;
    attributes(rest, |kind, value| match kind {
        RTA_DST => route.destination = ip_of(value).map(|ip| (ip, bits)),
        RTA_PREFSRC => route.source = ip_of(value),
        RTA_GATEWAY => route.gateway = ip_of(value),
        RTA_OIF => route.device = u32_at(value, 0).unwrap_or_default(),
        RTA_PRIORITY => route.priority = u32_at(value, 0).unwrap_or_default(),
        RTA_MULTIPATH => ways = Some(value),
        _ => {}
    })?;
    if bits == 0 {
        route.destination = None;
    }
    match ways {
        None => routes.push(route),
        Some(ways) => parse_ways(ways, &route, routes)?,
    }
    Ok(())
}

/// Adds a route for each `struct rtnexthop`: length, flags, hops, device, attributes.
fn parse_ways(mut bytes: &[u8], route: &Route, routes: &mut Vec<Route>) -> Result<(), HostError> {
    const HEADER: usize = 8;
    const HOPS: usize = 3;
    const RTA_GATEWAY: u16 = 5;
    while bytes.len() >= HEADER {
        let len = usize::from(u16_at(bytes, 0).unwrap_or_default());
        let Some(way) = bytes.get(..len).filter(|way| way.len() >= HEADER) else {
            return Err(malformed("a way of a route beyond its message"));
        };
        let mut gateway = None;
        attributes(&way[HEADER..], |kind, value| {
            if kind == RTA_GATEWAY {
                gateway = ip_of(value);
            }
        })?;
        routes.push(Route {
            device: u32_at(way, 4).unwrap_or_default(),
            gateway,
            weight: Some(u32::from(way[HOPS]) + 1),
            ..route.clone()
        });
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

/// Returns the name of an `RTPROT_*` number.
fn protocol(number: u8) -> &'static str {
    match number {
        0 => "unspec",
        1 => "redirect",
        2 => "kernel",
        3 => "boot",
        4 => "static",
        8 => "gated",
        9 => "ra",
        10 => "mrt",
        11 => "zebra",
        12 => "bird",
        13 => "dnrouted",
        14 => "xorp",
        15 => "ntk",
        16 => "dhcp",
        17 => "mrouted",
        42 => "babel",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        189 => "rip",
        192 => "eigrp",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = u16::try_from(4 + value.len()).expect("small");
        [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
    }

    fn way(hops: u8, device: u32, gateway: [u8; 4]) -> Vec<u8> {
        let head = [&16_u16.to_ne_bytes()[..], &[0, hops], &device.to_ne_bytes()];
        [head.concat(), attribute(5, &gateway)].concat()
    }

    #[test]
    fn each_way_of_a_route_is_one() {
        let ways = [way(0, 2, [10, 0, 0, 1]), way(4, 3, [10, 0, 0, 2])].concat();
        let header = [2, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        let destination = attribute(1, &[192, 0, 2, 0]);
        let message = [&header[..], &destination, &attribute(9, &ways)].concat();
        let mut routes = Vec::new();
        parse(&message, &mut routes).expect("well formed");
        let found: Vec<_> = routes
            .iter()
            .map(|route| (route.device, route.weight, route.gateway))
            .collect();
        let ip = |last| Some(IpAddr::from([10, 0, 0, last]));
        assert_eq!(found, [(2, Some(1), ip(1)), (3, Some(5), ip(2))]);
        assert_eq!(routes[0].destination, Some(([192, 0, 2, 0].into(), 24)));
        assert_eq!(protocol(routes[0].protocol), "static");
        // Of another type than unicast.
        let mut local = message.clone();
        local[7] = 2;
        parse(&local, &mut routes).expect("well formed");
        assert_eq!(routes.len(), 2);
        let torn = &message[..message.len() - 4];
        assert!(parse(torn, &mut routes).is_err());
    }
}
