//! Tests of `scrub`.

use super::*;

fn scrub(body: &str) -> String {
    Scrubber::new(["box7".to_owned(), "box7.example.net".to_owned()]).scrub(body)
}

fn value(label: &str, value: &str) -> String {
    let line = scrub(&format!("m{{{label}=\"{value}\"}} 1\n"));
    let line = Line::parse(line.trim_end()).unwrap();
    line.labels[0].value.to_owned()
}

#[test]
fn what_names_a_machine_is_replaced() {
    for (label, before, after) in [
        ("nodename", "box7", "host-1"),
        (
            "target",
            "http://box7.example.net:9100/metrics",
            "http://host-1:9100/metrics",
        ),
        ("instance", "10.1.2.3:9100", "192.0.2.1:9100"),
        ("address", "10.1.2.3", "192.0.2.1"),
        ("address", "fe80::1", "2001:db8::1"),
        ("address", "52:54:00:AB:cd:01", "00:00:5e:00:53:01"),
        ("serial", "S3Z8NB0K", "id-1"),
        ("product_uuid", "2f4c0a60-9d1c", "id-1"),
        ("mountpoint", "/srv/customers/acme", "/path-1"),
        ("device", "/dev/mapper/vg-acme", "/path-1"),
        ("path", "/home/anna/data", "/path-1"),
        ("value", "/home/anna/data", "/path-1"),
    ] {
        assert_eq!(value(label, before), after, "{label}={before}");
    }
}

#[test]
fn what_every_machine_has_stays() {
    for (label, before) in [
        ("instance", "127.0.0.1:9090"),
        ("address", "00:00:00:00:00:00"),
        ("broadcast", "ff:ff:ff:ff:ff:ff"),
        ("address", "::1"),
        ("version", "10.1.2.3"),
        ("handler", "/api/v1/query"),
        ("device", "/dev/vda1"),
        ("device", "eth0"),
        ("mountpoint", "/boot/efi"),
        ("domainname", "(none)"),
        ("le", "0.005"),
        ("name", "box70 box7-a mybox7"),
        ("time", "12:30:45"),
        ("quantile", ""),
    ] {
        assert_eq!(value(label, before), before, "{label}");
    }
    let http = "vm_http_requests_total{path=\"/api/v1/query\"} 1\n";
    assert_eq!(scrub(http), http);
    let help = "# HELP m From box7 at 10.1.2.3.\n";
    assert_eq!(scrub(help), help);
}

#[test]
fn one_thing_has_one_name_and_two_have_two() {
    let body = "# TYPE m gauge\nm{a=\"10.0.0.1\", path=\"/data/1\"} 1\nm{a=\"10.0.0.2\", path=\"/data/2\"} 2\n\
        m{a=\"10.0.0.1\", path=\"/data/2\"} 3\n";
    let mut scrubber = Scrubber::default();
    let expected = "# TYPE m gauge\nm{a=\"192.0.2.1\", path=\"/path-1\"} 1\n\
        m{a=\"192.0.2.2\", path=\"/path-2\"} 2\nm{a=\"192.0.2.1\", path=\"/path-2\"} 3\n";
    assert_eq!(scrubber.scrub(body), expected);
    // The next round, and scrubbing a scrubbed body.
    assert_eq!(scrubber.scrub(body), expected);
    assert_eq!(Scrubber::default().scrub(expected), expected);
    assert_eq!(scrubber.counts().values().sum::<u32>(), 4);
}

#[test]
fn a_name_is_known_before_the_line_that_tells_it() {
    let body = "a{peer=\"db9:80\"} 1\nnode_uname_info{nodename=\"db9\"} 1\n";
    let expected = "a{peer=\"host-1:80\"} 1\nnode_uname_info{nodename=\"host-1\"} 1\n";
    assert_eq!(Scrubber::default().scrub(body), expected);
    assert!(own_names().iter().any(|name| !name.is_empty()));
}

#[test]
fn many_addresses_stay_within_documentation() {
    let mut scrubber = Scrubber::default();
    for number in 0..800_u32 {
        let address = Ipv4Addr::from(0x0a00_0000 + number).to_string();
        let text = scrubber.scrub(&format!("m{{a=\"{address}\"}} 1\n"));
        let line = Line::parse(text.trim_end()).unwrap();
        let replaced: Ipv4Addr = line.labels[0].value.parse().unwrap();
        assert!(replaced.is_documentation(), "{replaced}");
    }
}
