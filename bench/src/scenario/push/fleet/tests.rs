//! Tests of `fleet`.

use super::*;
use std::io::Read;

pub(crate) fn fleet(hosts: u32, processes: u32, series: usize, mode: PushMode) -> Fleet {
    every(Duration::from_secs(5), hosts, processes, series, mode)
}

pub(crate) fn every(
    interval: Duration,
    hosts: u32,
    processes: u32,
    series: usize,
    mode: PushMode,
) -> Fleet {
    let settings = Settings {
        hosts,
        processes,
        series,
        interval,
        format: Format::Text,
        method: "PUT",
        seed: 1,
    };
    Fleet::new(&settings, mode)
}

pub(crate) const PLAIN: PushMode = PushMode {
    merges_hosts: false,
    encoding: Encoding::Plain,
    gateway_a_host: false,
};

#[test]
fn every_group_pushes_once_an_interval_at_its_time() {
    let fleet = fleet(5, 8, 10, PLAIN);
    assert_eq!((fleet.groups(), fleet.push_samples()), (40, 10));
    assert!((fleet.rate() - 8.0).abs() < 1e-9);
    let mut before = Duration::ZERO;
    let mut seen = [0_u32; 40];
    for number in 0..120 {
        let (due, group, round) = fleet.due(number);
        assert!(due >= before);
        assert_eq!(round, number / 40);
        let first = fleet.due(number % 40);
        assert_eq!(due, first.0 + Duration::from_secs(5 * round));
        seen[group as usize] += 1;
        before = due;
    }
    assert_eq!(seen, [3; 40]);
    assert_eq!(fleet.pushes_within(Duration::from_secs(10)), 80);
    let within = fleet.pushes_within(Duration::from_secs(12));
    assert!(fleet.due(within - 1).0 < Duration::from_secs(12));
    assert!(fleet.due(within).0 >= Duration::from_secs(12));
}

#[test]
fn groups_have_their_path_host_and_gateway() {
    let mode = |merges_hosts, gateway_a_host| PushMode {
        merges_hosts,
        encoding: Encoding::Gzip,
        gateway_a_host,
    };
    let one = fleet(3, 4, 10, mode(false, true));
    assert_eq!(one.path(6), "/metrics/job/game/host/h001/process/p002");
    assert_eq!(
        (one.gateways(), one.gateway_of(6), one.first_process(6)),
        (3, 1, 6)
    );
    let merged = fleet(3, 4, 10, mode(true, false));
    assert_eq!(merged.path(2), "/metrics/job/game/host/h002");
    assert_eq!(
        (
            merged.groups(),
            merged.gateway_of(2),
            merged.first_process(2)
        ),
        (3, 0, 8)
    );
    assert_eq!(merged.push_samples(), 40);
    assert_eq!(merged.mode.name(), "a push a host, gzip");
}

#[test]
fn packed_bodies_are_what_their_encoding_says() {
    let (fleet, mut body) = (fleet(1, 1, 200, PLAIN), Body::default());
    let body = fleet.body(0, 0, &mut body);
    for (encoding, name) in [
        (Encoding::Plain, "identity"),
        (Encoding::Gzip, "gzip"),
        (Encoding::Snappy, "snappy"),
    ] {
        let mut packer = Packer::new(encoding);
        assert_eq!(packer.content_encoding(), name);
        for _ in 0..2 {
            let packed = packer.pack(body);
            let mut plain = Vec::new();
            match encoding {
                Encoding::Plain => plain = packed.to_vec(),
                Encoding::Gzip => plain = crate::load::gzip::gunzip(packed).unwrap(),
                Encoding::Snappy => {
                    let mut decoder = snap::read::FrameDecoder::new(packed);
                    decoder.read_to_end(&mut plain).unwrap();
                }
            }
            assert!(plain == body, "{encoding:?}");
        }
    }
}
