//! node_exporter's fixtures of one device, and names.

use narthex_model::{ColumnId, LabelSet};
use narthex_testkit::{corpora, exposition::series};

use super::*;

/// Reads what `ethtool eth0` prints into modes.
fn link(text: &str) -> Link {
    let mut link = Link::default();
    let mut part = "";
    for line in text.lines() {
        let (name, value) = line.split_once(':').unwrap_or((part, line));
        part = name;
        let modes = match name.trim() {
            "Supported link modes" | "Supported ports" => &mut link.supported,
            "Advertised link modes" => &mut link.advertised,
            "Supported pause frame use" | "Supports auto-negotiation" => &mut link.supported,
            "Advertised pause frame use" | "Advertised auto-negotiation" => &mut link.advertised,
            "Auto-negotiation" => {
                link.negotiates = value.trim() == "on";
                continue;
            }
            _ => continue,
        };
        for word in value.split_whitespace() {
            let speed = SPEEDS.iter().find(|(_, speed, is_full, medium)| {
                let duplex = if *is_full { "Full" } else { "Half" };
                word == format!("{speed}base{medium}/{duplex}")
            });
            let port = PORTS.iter().find(|(_, port)| *port == word);
            let bit = speed.map(|speed| speed.0).or(port.map(|port| port.0));
            let bit = bit.or(match word {
                "Symmetric" => Some(PAUSE_BIT),
                "Yes" => Some(AUTONEGOTIATION_BIT),
                _ => None,
            });
            *modes |= bit.map_or(0, |bit| 1 << bit);
        }
    }
    link
}

fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(field, _)| *field == name);
    found.map_or("", |(_, value)| value.trim())
}

#[test]
fn the_fixtures_device_has_node_exporters_series() {
    let Some(dir) = corpora::dir("node-exporter") else {
        return corpora::report("ethtool", 0, 0);
    };
    let read = |name: &str| {
        let path = dir.join("ethtool/eth0").join(name);
        std::fs::read_to_string(path).expect("a fixture")
    };
    let driver = read("driver");
    let statistics = read("statistics");
    let statistics: Vec<(String, u64)> = statistics
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect();
    let names: Vec<String> = statistics.iter().map(|(name, _)| name.clone()).collect();
    let values: Vec<u64> = statistics.iter().map(|(_, value)| *value).collect();
    let everything = filter::compile("x", ".*").expect("valid");
    let answers = Answers {
        link: Some(link(&read("settings"))),
        driver: Some(Driver {
            name: field(&driver, "driver").to_owned(),
            version: field(&driver, "version").to_owned(),
            firmware: field(&driver, "firmware-version").to_owned(),
            bus: field(&driver, "bus-info").to_owned(),
            expansion_rom: String::new(),
            statistics: values.len(),
        }),
        values: &values,
    };
    let (mut sink, mut rows) = (Sink::new(LabelSet::empty()), Rows::new());
    sink.begin();
    rows.begin();
    answers.set("eth0", &families(&names, &everything), &mut rows, &mut sink);
    let frame = sink.finish(0);
    let lines = frame.present().iter().map(|at| {
        let labels = frame
            .schema()
            .labels(ColumnId(u32::try_from(at).expect("small")));
        let pairs = labels.iter().map(|label| (label.name(), label.value()));
        let pairs: Vec<_> = pairs.filter(|(name, _)| *name != "__name__").collect();
        format!(
            "{} {}",
            series(labels.metric_name(), &pairs),
            frame.values()[at]
        )
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    let expected: Vec<&str> = include_str!("eth0.txt").lines().collect();
    assert_eq!(lines, expected);
    corpora::report("ethtool", expected.len(), expected.len());
}

#[test]
fn statistics_become_families() {
    for (name, expected) in [
        ("port.rx_errors", "node_ethtool_port_received_errors"),
        ("rx_errors", "node_ethtool_received_errors"),
        ("Queue[0] AllocFails", "node_ethtool_queue_0_allocfails"),
        (
            "Tx LPI entry count",
            "node_ethtool_transmitted_lpi_entry_count",
        ),
        ("[3]: tx_bytes", "node_ethtool_3_transmitted_bytes"),
        ("     err", "node_ethtool_err"),
    ] {
        assert_eq!(made_family(&sanitized(name)), expected);
    }
    let names = ["rx_bytes", "a b", "a_b", "", "tx_other"].map(str::to_owned);
    let only = filter::compile("x", "^(rx|a)").expect("valid");
    let some = |name: &str| Some(name.to_owned());
    let bytes = some("node_ethtool_received_bytes_total");
    assert_eq!(families(&names, &only), [bytes, None, None, None, None]);
}

/// Every machine has the loopback device, whose driver says little.
#[test]
fn the_kernel_answers() {
    let socket = ethtool_ioctl::open().expect("a socket");
    assert!(ethtool_ioctl::driver(&socket, "no-such-device").is_err());
    assert!(ethtool_ioctl::driver(&socket, "a-name-that-is-too-long").is_err());
    let mut names = std::fs::read_dir("/sys/class/net").expect("sysfs");
    let name = names
        .next()
        .expect("a device")
        .expect("readable")
        .file_name();
    let name = name.to_str().expect("text");
    if let Ok(driver) = ethtool_ioctl::driver(&socket, name) {
        let count = driver.statistics;
        let names = ethtool_ioctl::statistic_names(&socket, name, count).unwrap_or_default();
        let values = ethtool_ioctl::statistics(&socket, name, count).unwrap_or_default();
        assert_eq!(names.len(), values.len());
        assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
    }
}
