//! systemd behind a bus of a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::collector::tests::Rounds;
use crate::dbus::tests::{FakeBus, Request, Response, property};
use crate::dbus::wire::Writer;

const UNITS: [(&str, &str, &str); 6] = [
    ("cron.service", "loaded", "active"),
    ("gone.service", "not-found", "inactive"),
    ("old.service", "loaded", "failed"),
    ("log.socket", "loaded", "active"),
    ("rotate.timer", "loaded", "active"),
    ("home.mount", "loaded", "active"),
];

fn units() -> Vec<u8> {
    let mut body = Writer::new();
    body.array(8, |list| {
        for (name, load, active) in UNITS {
            list.align(8);
            for text in [name, "A unit.", load, active, "sub", ""] {
                list.text(text);
            }
            list.text(&format!("/unit/{name}"));
            list.u32(0);
            list.text("");
            list.text("/");
        }
    });
    body.into_bytes()
}

fn answer(request: &Request) -> Response {
    let name = request.arguments.get(1).map_or("", String::as_str);
    let text = |value: &str| Ok(("v", property("s", |body| body.text(value))));
    let small = |value: u32| Ok(("v", property("u", |body| body.u32(value))));
    let large = |value: u64| {
        let body = property("t", |body| {
            body.align(8);
            body.bytes(&value.to_le_bytes());
        });
        Ok(("v", body))
    };
    match (request.member.as_str(), name) {
        ("ListUnits", _) => Ok(("a(ssssssouso)", units())),
        (_, "Version") => text("257.9-1~deb13u1"),
        (_, "Virtualization") => text(""),
        (_, "SystemState") => text("running"),
        (_, "Type") => text("notify"),
        (_, "NRestarts") => small(3),
        (_, "NAccepted") => small(5),
        (_, "NConnections") => small(2),
        (_, "TasksCurrent") => large(7),
        (_, "TasksMax") => large(u64::MAX),
        (_, "LastTriggerUSec") => large(1_500_000),
        (_, "ActiveEnterTimestamp") => large(2_250_000),
        _ => Err("org.freedesktop.DBus.Error.UnknownProperty"),
    }
}

fn config(bus: &FakeBus) -> HostConfig {
    let mut config = HostConfig {
        system_bus: bus.path(),
        ..HostConfig::default()
    };
    config.systemd.restarts = true;
    config.systemd.tasks = true;
    config.systemd.start_time = true;
    config
}

#[test]
fn units_and_their_properties() {
    let bus = FakeBus::start(answer);
    let systemd = Systemd::new(&config(&bus)).expect("valid");
    let found = Rounds::new(systemd).next().expect("an answer");
    let others: Vec<&str> = found
        .iter()
        .map(String::as_str)
        .filter(|line| !line.starts_with("node_systemd_unit_state"))
        .collect();
    assert_eq!(
        others,
        [
            r#"node_systemd_service_restart_total{name="cron.service"} 3"#,
            r#"node_systemd_service_restart_total{name="old.service"} 3"#,
            r#"node_systemd_socket_accepted_connections_total{name="log.socket"} 5"#,
            r#"node_systemd_socket_current_connections{name="log.socket"} 2"#,
            "node_systemd_system_running 1",
            r#"node_systemd_timer_last_trigger_seconds{name="rotate.timer"} 1.5"#,
            r#"node_systemd_unit_start_time_seconds{name="cron.service"} 2.25"#,
            r#"node_systemd_unit_start_time_seconds{name="log.socket"} 2.25"#,
            r#"node_systemd_unit_start_time_seconds{name="old.service"} 0"#,
            r#"node_systemd_unit_start_time_seconds{name="rotate.timer"} 2.25"#,
            r#"node_systemd_unit_tasks_current{name="cron.service"} 7"#,
            r#"node_systemd_unit_tasks_current{name="old.service"} 7"#,
            r#"node_systemd_units{state="activating"} 0"#,
            r#"node_systemd_units{state="active"} 4"#,
            r#"node_systemd_units{state="deactivating"} 0"#,
            r#"node_systemd_units{state="failed"} 1"#,
            r#"node_systemd_units{state="inactive"} 1"#,
            r#"node_systemd_version{version="257.9-1~deb13u1"} 257.9"#,
            r#"node_systemd_virtualization_info{virtualization_type="none"} 1"#,
        ]
    );
    let states: Vec<&str> = found
        .iter()
        .map(String::as_str)
        .filter(|line| line.starts_with("node_systemd_unit_state") && line.ends_with(" 1"))
        .collect();
    assert_eq!(
        states,
        [
            r#"node_systemd_unit_state{name="cron.service",state="active",type="notify"} 1"#,
            r#"node_systemd_unit_state{name="log.socket",state="active"} 1"#,
            r#"node_systemd_unit_state{name="old.service",state="failed",type="notify"} 1"#,
            r#"node_systemd_unit_state{name="rotate.timer",state="active"} 1"#,
        ]
    );
}

#[test]
fn types_are_asked_once_and_a_lost_connection_is_made_again() {
    let types = Arc::new(AtomicUsize::new(0));
    let asked = types.clone();
    let answer = move |request: &Request| {
        if request.arguments.get(1).is_some_and(|name| name == "Type") {
            asked.fetch_add(1, Ordering::Relaxed);
        }
        answer(request)
    };
    let bus = FakeBus::start(answer);
    let systemd = Systemd::new(&config(&bus)).expect("valid");
    let mut rounds = Rounds::new(systemd);
    let first = rounds.next().expect("an answer");
    assert_eq!(types.load(Ordering::Relaxed), 2);
    assert_eq!(rounds.next().expect("an answer"), first);
    assert_eq!(types.load(Ordering::Relaxed), 2);
    let bus = rounds.collector.bus.as_ref();
    bus.expect("kept").hang_up();
    assert_eq!(rounds.next().expect("an answer"), first);
    assert_eq!(types.load(Ordering::Relaxed), 4);
}

#[test]
fn without_a_bus_the_collector_fails() {
    let config = HostConfig {
        system_bus: "/nonexistent/bus".into(),
        ..HostConfig::default()
    };
    let systemd = Systemd::new(&config).expect("valid");
    let error = Rounds::new(systemd).next().expect_err("no bus");
    assert!(
        error.starts_with("the system bus: /nonexistent/bus: "),
        "{error}"
    );
}

#[test]
fn versions_are_numbers() {
    for (text, number) in [
        ("257.9-1~deb13u1", Some(257.9)),
        ("v255.4", Some(255.4)),
        ("252 (252.4-1)", Some(252.0)),
        ("246.", Some(246.0)),
        ("37", None),
        ("", None),
    ] {
        assert_eq!(version_number(text), number, "{text}");
    }
}
