//! What the kernel says about vulnerabilities of the CPU.
//!
//! Invariant: a text of unknown form is the mitigation of the state `unknown`.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::Plan;

const INFO: Desc<'static> = Desc::gauge(
    "node_cpu_vulnerabilities_info",
    "State of the CPU concerning each known vulnerability, and its mitigation; the value is 1.",
);

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for name in sysdir::list_if_there(directory)? {
        let Some(text) = plan.label(&directory.join(&name)) else {
            continue;
        };
        let (state, mitigation) = parse(&text);
        let labels = [
            ("codename", &*name),
            ("state", state),
            ("mitigation", &mitigation),
        ];
        plan.fixed(&INFO, &labels, 1.0);
    }
    Ok(())
}

/// Splits `Mitigation: PTI` into its state and the rest.
fn parse(text: &str) -> (&'static str, String) {
    let lower = text.to_ascii_lowercase();
    let state = ["not affected", "vulnerable", "mitigation", "unknown"]
        .into_iter()
        .find(|state| lower.starts_with(state));
    match state {
        None => ("unknown", text.to_owned()),
        Some("not affected") => ("not affected", String::new()),
        Some(state) => {
            let words: Vec<&str> = text.split_ascii_whitespace().skip(1).collect();
            (state, words.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_mitigations() {
        for (text, state, mitigation) in [
            ("Not affected", "not affected", ""),
            ("Vulnerable", "vulnerable", ""),
            ("Vulnerable: no microcode", "vulnerable", "no microcode"),
            ("Mitigation: PTI;  STIBP", "mitigation", "PTI; STIBP"),
            ("Unknown (XEN PV detected)", "unknown", "(XEN PV detected)"),
            ("Something else", "unknown", "Something else"),
        ] {
            assert_eq!(parse(text), (state, mitigation.to_owned()));
        }
    }
}
