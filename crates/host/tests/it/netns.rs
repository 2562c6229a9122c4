//! Real network devices, in the test's own network namespace.

use std::net::UdpSocket;
use std::process::Command;
use std::thread;

use narthex_host::CollectorKind::Netdev;
use narthex_host::{CollectorSet, HostConfig, HostSource};
use narthex_testkit::{corpora, tool};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::support::{Samples, of_family, samples, stale};

pub(crate) fn ip(arguments: &str) {
    let output = Command::new(tool("ip", "iproute2"))
        .args(arguments.split(' '))
        .output()
        .expect("ip runs");
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs `test` on a thread with no network device but `lo`; prints a message if that needs more privileges than we
/// have.
pub(crate) fn isolated(name: &'static str, test: impl FnOnce() + Send + 'static) {
    let ran = thread::spawn(move || {
        // SAFETY: only this thread's network namespace changes; no file descriptor table is unshared.
        let entered = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
        if entered.is_ok() {
            test();
        }
        entered.is_ok()
    });
    let ran = ran.join().expect("the test passes");
    let cases = usize::from(ran);
    corpora::report(name, cases, 1);
}

fn source(change: impl FnOnce(&mut HostConfig)) -> HostSource {
    let mut config = HostConfig {
        collectors: CollectorSet::none().with(Netdev),
        ..HostConfig::default()
    };
    change(&mut config);
    HostSource::new(config).expect("valid")
}

const BYTES: &str = "node_network_receive_bytes_total";

#[test]
fn devices_appear_are_renamed_replaced_and_removed() {
    isolated("network devices that change", || {
        let mut host = source(|_| {});
        assert_eq!(of_family(&samples(host.collect(0)), BYTES).len(), 1);

        ip("link add nx0 type veth peer name nx1");
        let round = samples(host.collect(1));
        let names: Vec<_> = of_family(&round, BYTES)
            .iter()
            .map(|(labels, _)| *labels)
            .collect();
        assert_eq!(
            names,
            [r#"{device="lo"}"#, r#"{device="nx0"}"#, r#"{device="nx1"}"#]
        );
        assert_eq!(round.len(), 3 * 17 + 3);

        // The same name and another index, between two rounds: the same series, the same slots.
        let schema = host.schema().clone();
        ip("link del nx0");
        ip("link add nx0 type veth peer name nx1");
        let frame = host.collect(2);
        assert_eq!(
            (samples(frame).len(), frame.stale().len()),
            (round.len(), 0)
        );
        assert!(host.schema().same(&schema));

        ip("link set nx0 name nx2");
        let frame = host.collect(3);
        assert!(samples(frame).contains_key(&format!(r#"{BYTES}{{device="nx2"}}"#)));
        assert_eq!(stale(frame).len(), 17);

        ip("link del nx2");
        let frame = host.collect(4);
        assert_eq!(
            (of_family(&samples(frame), BYTES).len(), stale(frame).len()),
            (1, 34)
        );
        assert_eq!(host.schema().live(), 17 + 3);
    });
}

#[test]
fn many_devices_come_in_several_parts() {
    isolated("a dump of many network devices", || {
        for at in 0..60 {
            ip(&format!("link add nx{at} type veth peer name ny{at}"));
        }
        let mut host = source(|config| config.netdev.device.exclude = Some("^ny".into()));
        for now_ms in 0..3 {
            let round = samples(host.collect(now_ms));
            assert_eq!(of_family(&round, BYTES).len(), 61);
            assert_eq!(of_family(&round, "node_scrape_collector_success")[0].1, 1.0);
        }
    });
}

#[test]
fn few_of_many_devices_are_asked_for_alone() {
    isolated("few network devices of many", || {
        ip("link set lo up");
        for at in 0..20 {
            ip(&format!("link add nx{at} type veth peer name ny{at}"));
        }
        let socket = UdpSocket::bind("127.0.0.1:0").expect("lo is up");
        let address = socket.local_addr().expect("bound");
        socket.send_to(&[0; 1000], address).expect("lo is up");
        let mut few = source(|config| config.netdev.device.include = Some("^(lo|nx7)$".into()));
        let mut all = source(|_| {});
        let round = samples(few.collect(0));
        let every = samples(all.collect(0));
        let counters = |round: &Samples, device: &str| {
            let label = format!(r#"{{device="{device}"}}"#);
            let mut of = round.clone();
            of.retain(|series, _| series.ends_with(&label));
            of
        };
        for device in ["lo", "nx7"] {
            assert_eq!(counters(&round, device).len(), 17);
            assert_eq!(counters(&round, device), counters(&every, device));
        }
        assert!(round[&format!(r#"{BYTES}{{device="lo"}}"#)] > 1000.0);
        assert_eq!(round.len(), 2 * 17 + 3);
        let read = |host: &mut HostSource| {
            let cost = host.collect_measured(1)[0].cost;
            cost.expect("measured").read_bytes
        };
        let (few_bytes, all_bytes) = (read(&mut few), read(&mut all));
        assert!(few_bytes * 10 < all_bytes, "{few_bytes}, {all_bytes} bytes");

        ip("link del nx7");
        let frame = few.collect(2);
        assert_eq!((samples(frame).len(), stale(frame).len()), (17 + 3, 17));
        // The only one that is left is most of what is left.
        for at in (0..20).filter(|at| *at != 7) {
            ip(&format!("link del nx{at}"));
        }
        let round = samples(few.collect(3));
        assert_eq!(counters(&round, "lo").len(), 17);
    });
}

#[test]
fn aliases_and_addresses() {
    isolated("network aliases and addresses", || {
        ip("link set lo up");
        ip("link add nx0 type veth peer name nx1");
        ip("link set nx0 alias uplink");
        ip("addr add 10.1.2.3/24 dev nx0");
        let mut host = source(|config| {
            config.netdev.label_ifalias = true;
            // The kernel does not announce an alias of a device that is down.
            config.refresh_ms = 0;
            config.netdev.address_info = true;
            config.netdev.device.exclude = Some("^nx1$".into());
        });
        let round = samples(host.collect(0));
        let names: Vec<_> = of_family(&round, BYTES)
            .iter()
            .map(|(labels, _)| *labels)
            .collect();
        assert_eq!(
            names,
            [r#"{device="lo"}"#, r#"{device="nx0",ifalias="uplink"}"#]
        );
        let addresses: Vec<_> = of_family(&round, "node_network_address_info")
            .iter()
            .map(|(labels, _)| *labels)
            .collect();
        let expected = [
            r#"{address="10.1.2.3",device="nx0",netmask="24",scope="global"}"#,
            r#"{address="127.0.0.1",device="lo",netmask="8",scope="link-local"}"#,
        ];
        assert_eq!(addresses[..2], expected);

        ip("addr del 10.1.2.3/24 dev nx0");
        ip("link set nx0 alias other");
        let frame = host.collect(1);
        assert_eq!(stale(frame).len(), 18);
        assert!(
            samples(frame).contains_key(&format!(r#"{BYTES}{{device="nx0",ifalias="other"}}"#))
        );
    });
}
