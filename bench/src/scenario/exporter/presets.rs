//! The exporters that are built in.
//!
//! **Invariant:** each runs with its default collectors: what is compared is what people start.

use crate::frame::{Preset, error::BenchError, server::ServerSpec};
use std::process::{Command, Stdio};

/// The kind that a version of ours may not have.
const OURS: &str = "narthex";

/// All of them, ours first.
pub(super) static PRESETS: &[Preset] = &[
    Preset {
        name: OURS,
        program: "narthex",
        package: "",
        arguments: &["node-exporter", "--web.listen-address={listen}"],
        more: &[],
        version: &["--version"],
        config: "",
        ready: "/metrics",
    },
    Preset {
        name: "node_exporter",
        program: "prometheus-node-exporter",
        package: "prometheus-node-exporter",
        arguments: &["--web.listen-address={listen}"],
        more: &[],
        version: &["--version"],
        config: "",
        ready: "/metrics",
    },
];

/// Takes out ours where the program has no such command, and says so.
pub(super) fn without_absent(
    servers: &mut Vec<ServerSpec>,
    notes: &mut Vec<String>,
) -> Result<(), BenchError> {
    servers.retain(|server| {
        let is_there = server.kind.name != OURS || has_exporter(server);
        if !is_there {
            notes.push(format!(
                "{} has no node-exporter command in this version: it is not measured.",
                server.label
            ));
        }
        is_there
    });
    if servers.is_empty() {
        return Err(crate::frame::cli::usage(format!(
            "there is no exporter to measure: {}",
            notes.join(" ")
        )));
    }
    Ok(())
}

fn has_exporter(server: &ServerSpec) -> bool {
    let status = Command::new(&server.program)
        .args(["node-exporter", "--help"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
