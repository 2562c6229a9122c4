//! Messages, names to try, and labels.

use super::message::{self, Answer, Record};
use super::record_type::RecordType;
use super::resolver::ResolvConf;
use super::*;

/// An answer to `_web._tcp.example. SRV` with two records, the second name compressed.
fn answer_bytes(question: &[u8]) -> Vec<u8> {
    let mut out = question[..2].to_vec();
    out.extend([0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0]);
    // The question's name, type and class follow its header; EDNS comes after them.
    let name_end = 12 + question[12..].iter().position(|b| *b == 0).expect("root") + 1;
    out.extend(&question[12..name_end + 4]);
    let record = |port: u16, name: &[u8]| {
        let mut record = vec![0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60];
        record.extend((6 + name.len() as u16).to_be_bytes());
        record.extend([0, 1, 0, 2]);
        record.extend(port.to_be_bytes());
        record.extend(name);
        record
    };
    out.extend(record(9100, b"\x02h1\x07example\0"));
    // `example` in the question: after `_web` and `_tcp`.
    out.extend(record(9101, b"\x02h2\xc0\x16"));
    out
}

#[test]
fn compressed_names_are_read() {
    let question =
        message::question(7, "_web._tcp.example.", RecordType::Srv, true).expect("a name");
    let bytes = answer_bytes(&question);
    let answer = message::answer(&bytes, &question).expect("well formed");
    let srv = |target: &str, port| Record::Srv {
        target: target.to_owned(),
        port,
    };
    assert_eq!(
        answer,
        Answer {
            code: 0,
            truncated: false,
            records: vec![srv("h1.example.", 9100), srv("h2.example.", 9101)],
        }
    );
    for end in 0..bytes.len() {
        assert_eq!(message::answer(&bytes[..end], &question), None, "{end}");
    }
    let other = message::question(8, "_web._tcp.example.", RecordType::Srv, true).expect("a name");
    assert_eq!(message::answer(&bytes, &other), None, "another id");
    let other = message::question(7, "_www._tcp.example.", RecordType::Srv, true).expect("a name");
    assert_eq!(message::answer(&bytes, &other), None, "another name");
    assert_eq!(message::question(1, "a..b.", RecordType::A, false), None);
    let long = format!("{}.", "a".repeat(64));
    assert_eq!(message::question(1, &long, RecordType::A, false), None);
}

#[test]
fn pointers_cannot_loop() {
    let question = message::question(7, "a.", RecordType::Ns, false).expect("a name");
    let mut bytes = question.clone();
    bytes[2] = 0x81;
    bytes[7] = 1;
    let at = bytes.len() as u8;
    // A record whose name is itself.
    bytes.extend([0xc0, at, 0, 2, 0, 1, 0, 0, 0, 0, 0, 2, 0xc0, at]);
    assert_eq!(message::answer(&bytes, &question), None);
}

#[test]
fn search_domains_are_tried_as_resolvers_do() {
    let text = "# c\n; c\nnameserver 10.0.0.1\nnameserver fe80::1\nnameserver x\n\
        search a.example b.example.\noptions rotate ndots:2 timeout:1\n";
    let conf = ResolvConf::parse(text);
    let servers: Vec<_> = conf.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["10.0.0.1:53", "[fe80::1]:53"]);
    assert_eq!(conf.candidates("web."), ["web."]);
    let below = ["web.a.example.", "web.b.example.", "web."];
    assert_eq!(conf.candidates("web"), below);
    let enough = ["a.b.c.", "a.b.c.a.example.", "a.b.c.b.example."];
    assert_eq!(conf.candidates("a.b.c"), enough);
    assert_eq!(
        ResolvConf::parse("domain d\n").candidates("w"),
        ["w.d.", "w."]
    );
    assert_eq!(ResolvConf::parse("").candidates("w"), ["w."]);
}

#[test]
fn every_target_has_every_label() {
    let target = |group: &TargetGroup, at: usize| {
        let labels = group.targets[at].iter();
        let set = labels.filter(|(_, value)| !value.is_empty());
        set.map(|(name, value)| format!("{}={value}", name.trim_start_matches("__meta_dns_")))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let records = [
        Record::Cname,
        Record::A([10, 0, 0, 1].into()),
        Record::Aaaa("fe80::1".parse().expect("an address")),
        Record::Srv {
            target: "h.example.".to_owned(),
            port: 81,
        },
        Record::Mx("mail.example.".to_owned()),
        Record::Ns("ns.example.".to_owned()),
        Record::Other(16),
    ];
    let group = group("web", &records, 80);
    assert_eq!(group.source, "web");
    assert_eq!(group.targets.len(), 5);
    assert!(group.targets.iter().all(|target| target.len() == 6));
    assert_eq!(target(&group, 0), "__address__=10.0.0.1:80 name=web");
    assert_eq!(target(&group, 1), "__address__=[fe80::1]:80 name=web");
    assert_eq!(
        target(&group, 2),
        "__address__=h.example:81 name=web srv_record_port=81 srv_record_target=h.example."
    );
    assert_eq!(
        target(&group, 3),
        "__address__=mail.example:80 mx_record_target=mail.example. name=web"
    );
    assert_eq!(
        target(&group, 4),
        "__address__=ns.example:80 name=web ns_record_target=ns.example."
    );
}
