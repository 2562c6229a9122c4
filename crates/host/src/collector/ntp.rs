//! What an NTP server on this host says about its clock, by one question of a simple client (RFC 5905).
//!
//! Invariant: only a server of this host is asked, unless the flags certify another one: thousands of hosts must not
//! query a public server at every scrape.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::collector::{Collector, Ctx};
use crate::config::{HostConfig, NtpConfig};
use crate::error::HostError;
use crate::sink::Sink;
use crate::table::Series;

pub(crate) struct Ntp {
    flags: NtpConfig,
    series: Series,
    /// The midnight of the last announced leap second, in seconds since 1970: the announcement ends with it.
    leap_midnight: Option<i64>,
}

/// A time as 32 bits of seconds since 1900 and 32 bits of their fraction.
type Fixed = u64;

/// 1970 in seconds since 1900.
const EPOCH_SECONDS: u64 = 2_208_988_800;
const PACKET_BYTES: usize = 48;

/// An answer, with when it was asked for and came.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Response {
    leap: u8,
    stratum: u8,
    root_delay: f64,
    root_dispersion: f64,
    reference: Fixed,
    asked: Fixed,
    received: Fixed,
    sent: Fixed,
    came: Fixed,
}

impl Ntp {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        let flags = config.ntp.clone();
        let refused = |flag: &str, problem: &str| {
            Err(HostError::Flag {
                flag: format!("collector.ntp.{flag}"),
                problem: problem.to_owned(),
            })
        };
        let address: Option<IpAddr> = flags.server.parse().ok();
        if !flags.is_local && !address.is_some_and(|address| address.is_loopback()) {
            return refused(
                "server",
                "only an address of this host is allowed without --collector.ntp.server-is-local",
            );
        }
        if !(2..=4).contains(&flags.version) {
            return refused("protocol-version", "not 2, 3 or 4");
        }
        if u16::try_from(flags.port).map_or(true, |port| port == 0) {
            return refused("server-port", "not between 1 and 65535");
        }
        Ok(Self {
            flags,
            series: Series::new(include_str!("ntp.txt")),
            leap_midnight: None,
        })
    }

    fn ask(&self) -> Result<Response, HostError> {
        const TIMEOUT: Duration = Duration::from_secs(1);
        let io = |error: std::io::Error| problem(error.to_string());
        let port = u16::try_from(self.flags.port).unwrap_or_default();
        let any = match self.flags.server.parse() {
            Ok(IpAddr::V6(_)) => "[::]:0",
            _ => "0.0.0.0:0",
        };
        let socket = UdpSocket::bind(any).map_err(io)?;
        socket
            .connect((self.flags.server.as_str(), port))
            .map_err(io)?;
        socket.set_read_timeout(Some(TIMEOUT)).map_err(io)?;
        if self.flags.ttl > 0 {
            let ttl = u32::try_from(self.flags.ttl).unwrap_or(u32::MAX);
            socket.set_ttl(ttl).map_err(io)?;
        }
        // The server returns it: an answer to somebody else's question is not taken for ours.
        let cookie = RandomState::new().hash_one(0_u8).to_be_bytes();
        const CLIENT: u8 = 3;
        let mut question = [0; PACKET_BYTES];
        question[0] = u8::try_from(self.flags.version).unwrap_or_default() << 3 | CLIENT;
        question[40..].copy_from_slice(&cookie);
        let (asked, clock) = (now(), Instant::now());
        socket.send(&question).map_err(io)?;
        let mut answer = [0; PACKET_BYTES];
        let len = socket.recv(&mut answer).map_err(io)?;
        let came = asked.wrapping_add(fixed(clock.elapsed()));
        if len < PACKET_BYTES {
            return Err(problem("a short answer".to_owned()));
        }
        parse(&answer, cookie, asked, came).map_err(|cause| problem(cause.to_owned()))
    }

    fn is_sane(&mut self, response: &Response) -> bool {
        const DAY: i64 = 86_400;
        let time = unix_seconds(response.sent);
        if matches!(response.leap, 1 | 2) {
            self.leap_midnight = Some((time as i64).div_euclid(DAY) * DAY + DAY);
        }
        let is_leap_day = self.leap_midnight.is_some_and(|midnight| {
            ((midnight - DAY) as f64) < time && time < (midnight + DAY) as f64
        });
        // Servers spread a leap second over a day.
        let smear = f64::from(u8::from(is_leap_day));
        let tolerance = self.flags.offset_tolerance.as_secs_f64() + smear;
        response.is_valid()
            && response.root_distance() <= self.flags.max_distance.as_secs_f64()
            && response.causality_error() <= tolerance
    }
}

impl Collector for Ntp {
    fn collect(&mut self, _ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let response = self.ask()?;
        let is_sane = self.is_sane(&response);
        let values = [
            f64::from(response.stratum),
            f64::from(response.leap),
            response.round_trip(),
            response.offset(),
            unix_seconds(response.reference).max(0.0),
            response.root_delay,
            response.root_dispersion,
            f64::from(u8::from(is_sane)),
        ];
        self.series.set(values, out);
        Ok(())
    }
}

impl Response {
    fn round_trip(&self) -> f64 {
        let there = self.came.wrapping_sub(self.asked).cast_signed();
        let inside = self.sent.wrapping_sub(self.received).cast_signed();
        seconds(there.wrapping_sub(inside).max(0))
    }

    fn offset(&self) -> f64 {
        let there = self.received.wrapping_sub(self.asked).cast_signed();
        let back = self.sent.wrapping_sub(self.came).cast_signed();
        seconds(there.wrapping_add(back.wrapping_sub(there) / 2))
    }

    /// Returns the largest time by which an effect precedes its cause.
    fn causality_error(&self) -> f64 {
        let there = self.asked.saturating_sub(self.received);
        let back = self.sent.saturating_sub(self.came);
        seconds(there.max(back).cast_signed())
    }

    fn root_distance(&self) -> f64 {
        (self.round_trip() + self.root_delay) / 2.0 + self.root_dispersion
    }

    /// Reports whether the server is synchronised, by the limits of RFC 5905.
    fn is_valid(&self) -> bool {
        const UNSYNCHRONISED: u8 = 3;
        const MAX_STRATUM: u8 = 16;
        const MAX_POLL_SECONDS: f64 = 131_072.0;
        const MAX_DISPERSION_SECONDS: f64 = 16.0;
        let age = unix_seconds(self.sent) - unix_seconds(self.reference);
        (1..MAX_STRATUM).contains(&self.stratum)
            && (0.0..=MAX_POLL_SECONDS).contains(&age)
            && self.root_delay / 2.0 + self.root_dispersion <= MAX_DISPERSION_SECONDS
            && self.leap != UNSYNCHRONISED
    }
}

/// Reads an answer to the question with this cookie.
fn parse(
    packet: &[u8; PACKET_BYTES],
    cookie: [u8; 8],
    asked: Fixed,
    came: Fixed,
) -> Result<Response, &'static str> {
    const SERVER: u8 = 4;
    let rest = |at: usize| packet.get(at..).unwrap_or_default();
    let long = |at| {
        rest(at)
            .first_chunk()
            .copied()
            .map_or(0, u64::from_be_bytes)
    };
    let short = |at| {
        let bytes = rest(at).first_chunk().copied();
        nanoseconds(f64::from(bytes.map_or(0, u32::from_be_bytes)) / 65_536.0)
    };
    let response = Response {
        leap: packet[0] >> 6,
        stratum: packet[1],
        root_delay: short(4),
        root_dispersion: short(8),
        reference: long(16),
        asked,
        received: long(32),
        sent: long(40),
        came,
    };
    match response {
        _ if packet[0] & 7 != SERVER => Err("not a server's answer"),
        _ if long(24) != u64::from_be_bytes(cookie) => Err("an answer to another question"),
        Response { sent: 0, .. } => Err("an answer without a time"),
        Response { received, sent, .. } if received > sent => {
            Err("the server's clock runs backwards")
        }
        response => Ok(response),
    }
}

fn now() -> Fixed {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    fixed(since.unwrap_or_default() + Duration::from_secs(EPOCH_SECONDS))
}

fn fixed(duration: Duration) -> Fixed {
    let fraction = (u64::from(duration.subsec_nanos()) << 32) / 1_000_000_000;
    (duration.as_secs() << 32) + fraction
}

fn seconds(difference: i64) -> f64 {
    nanoseconds(difference as f64 / 4_294_967_296.0)
}

/// Rounds to nanoseconds, as node_exporter does.
fn nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

/// Returns seconds since 1970. Times before that are of the era that begins in 2036.
fn unix_seconds(time: Fixed) -> f64 {
    let seconds = time >> 32;
    let era = if seconds < EPOCH_SECONDS {
        1_u64 << 32
    } else {
        0
    };
    let whole = (seconds + era).cast_signed() - EPOCH_SECONDS.cast_signed();
    let fraction = (time & 0xffff_ffff) as f64 / 4_294_967_296.0;
    whole as f64 + nanoseconds(fraction)
}

fn problem(problem: String) -> HostError {
    HostError::Service {
        name: "the NTP server",
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::tests::Rounds;
    use std::thread;

    /// Starts a server that answers one question; `change` edits its answer.
    fn server(change: impl FnOnce(&mut [u8; PACKET_BYTES]) + Send + 'static) -> HostConfig {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let port = socket.local_addr().expect("bound").port();
        thread::spawn(move || {
            let mut packet = [0; PACKET_BYTES];
            let (_, client) = socket.recv_from(&mut packet).expect("a question");
            assert_eq!(packet[0], 4 << 3 | 3);
            let cookie: [u8; 8] = packet[40..].try_into().expect("eight");
            packet[0] = 4 << 3 | 4;
            packet[1] = 2;
            packet[4..8].copy_from_slice(&0x8000_u32.to_be_bytes());
            packet[8..12].copy_from_slice(&0x4000_u32.to_be_bytes());
            packet[24..32].copy_from_slice(&cookie);
            let time = now();
            packet[16..24].copy_from_slice(&(time - (10 << 32)).to_be_bytes());
            packet[32..40].copy_from_slice(&time.to_be_bytes());
            packet[40..].copy_from_slice(&time.to_be_bytes());
            change(&mut packet);
            socket.send_to(&packet, client).expect("sent");
        });
        let mut config = HostConfig::default();
        config.ntp.port = port.into();
        config
    }

    fn value(found: &[String], family: &str) -> f64 {
        let line = found.iter().find_map(|line| line.strip_prefix(family));
        line.expect(family).trim().parse().expect("a number")
    }

    fn ask(config: &HostConfig) -> Result<Vec<String>, String> {
        Rounds::new(Ntp::new(config).expect("valid")).next()
    }

    #[test]
    fn an_answer_becomes_series() {
        let found = ask(&server(|_| {})).expect("an answer");
        assert_eq!(found.len(), include_str!("ntp.txt").lines().count());
        for (family, expected) in [
            ("node_ntp_stratum", 2.0),
            ("node_ntp_leap", 0.0),
            ("node_ntp_root_delay_seconds", 0.5),
            ("node_ntp_root_dispersion_seconds", 0.25),
            ("node_ntp_sanity", 1.0),
        ] {
            assert_eq!(value(&found, family), expected, "{family}");
        }
        let offset = value(&found, "node_ntp_offset_seconds");
        let round_trip = value(&found, "node_ntp_rtt_seconds");
        assert!(offset.abs() <= round_trip, "{offset} {round_trip}");
        let reference = value(&found, "node_ntp_reference_timestamp_seconds");
        let expected = unix_seconds(now()) - 10.0;
        assert!((reference - expected).abs() < 5.0, "{reference} {expected}");
    }

    #[test]
    fn implausible_answers_are_not_sane() {
        let changes: [fn(&mut [u8; PACKET_BYTES]); 4] = [
            |packet| packet[0] |= 0xc0,
            |packet| packet[1] = 16,
            |packet| packet[8] = 0xff,
            |packet| packet[16..24].copy_from_slice(&(1_u64 << 63).to_be_bytes()),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let found = ask(&server(change)).expect("an answer");
            assert_eq!(value(&found, "node_ntp_sanity"), 0.0, "{at}");
        }
    }

    #[test]
    fn answers_to_others_are_refused() {
        let error = ask(&server(|packet| packet[24] ^= 1)).expect_err("refused");
        assert_eq!(error, "the NTP server: an answer to another question");
        let error = ask(&server(|packet| packet[0] = 4 << 3 | 3)).expect_err("refused");
        assert_eq!(error, "the NTP server: not a server's answer");
    }

    #[test]
    fn public_servers_need_a_certificate_of_being_private() {
        let mut config = HostConfig::default();
        config.ntp.server = "192.0.2.1".into();
        assert!(Ntp::new(&config).is_err());
        config.ntp.is_local = true;
        assert!(Ntp::new(&config).is_ok());
        config.ntp.version = 5;
        assert!(Ntp::new(&config).is_err());
    }

    #[test]
    fn differences_span_eras_and_signs() {
        let response = Response {
            asked: 10 << 32,
            received: (12 << 32) | 1 << 31,
            sent: (12 << 32) | 1 << 31,
            came: 11 << 32,
            ..Response::default()
        };
        assert_eq!((response.offset(), response.round_trip()), (2.0, 1.0));
        assert_eq!(response.causality_error(), 1.5);
        assert_eq!(unix_seconds(0x83aa_7e80 << 32), 0.0);
        assert_eq!(unix_seconds(0), 2_085_978_496.0);
    }
}
