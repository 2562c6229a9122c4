//! Tests of `command`.

use super::*;
use scenario::SCENARIOS;

fn printed(line: &[&str]) -> String {
    let line: Vec<OsString> = line.iter().map(OsString::from).collect();
    match PROGRAM.call(&line, Surroundings::process()) {
        Ok(Call::Print(text)) => text,
        _ => panic!("{line:?} prints nothing"),
    }
}

#[test]
fn help_names_every_flag_and_no_name_is_twice() {
    let help = printed(&["narthex-bench", "--help-long"]);
    for scenario in SCENARIOS {
        let flags = || scenario.flags.iter().copied().flatten();
        for flag in flags() {
            assert!(help.contains(flag.help), "{}", flag.name);
            let same = flags().filter(|other| other.name == flag.name);
            assert_eq!(same.count(), 1, "{} of {}", flag.name, scenario.name);
        }
    }
    assert!(help.contains("--duration=120s\n") && help.contains("--[no-]gzip\n"));
}

#[test]
fn every_command_completes_and_has_a_manual_page() {
    let words = printed(&[
        "narthex-bench",
        "completion",
        "words",
        "storage",
        "--shape=",
    ]);
    assert!(words.contains("--shape=native\t\n"), "{words}");
    for scenario in SCENARIOS {
        let page = printed(&["narthex-bench", "man", scenario.name]);
        assert!(page.contains("\n.SH \"FLAGS\"\n"), "{page}");
    }
    assert!(printed(&["narthex-bench", "completion", "bash"]).contains("narthex-bench"));
}
