//! `narthex doctor` and the page of a running exporter.

use crate::support::{PATIENCE, Running, narthex};
use narthex_testkit::{TempDir, http};

#[test]
fn a_running_exporter_is_examined_and_the_code_is_the_severity() {
    let dir = TempDir::new("doctor");
    let exporter = |page: &str| {
        dir.write("a.prom", page);
        let spawn = narthex()
            .arg("node-exporter")
            .arg("--web.listen-address=127.0.0.1:0")
            .arg("--collector.disable-defaults")
            .arg("--collector.textfile")
            .arg(format!(
                "--collector.textfile.directory={}",
                dir.path().display()
            ));
        Running::exporter(spawn)
    };
    let warning = "warning clock_unsynchronised: the clock is not synchronised\n";
    let critical = "critical clock_offset: the clock is 0.50 s away from its reference\n";
    for (page, code, texts) in [
        (
            "node_timex_sync_status 1\n",
            0,
            &["Nothing to advise.\n"][..],
        ),
        ("node_timex_sync_status 0\n", 1, &[warning]),
        (
            "node_timex_sync_status 0\nnode_timex_offset_seconds 0.5\n",
            2,
            &[critical, warning],
        ),
    ] {
        let running = exporter(page);
        let address = running.url.trim_start_matches("http://").to_owned();
        let landing = http::get(&running.url).unwrap().text();
        let doctor = narthex().arg("doctor").arg(&address).run(PATIENCE);
        assert_eq!(doctor.exit.code, Some(code), "{doctor:?}");
        for text in texts {
            assert!(doctor.stdout.contains(text), "{doctor:?}");
            assert_eq!(landing.contains(text.trim_end()), code > 0, "{landing}");
        }
        running.stop();
        let gone = narthex().arg("doctor").arg(&address).run(PATIENCE);
        assert_eq!(
            (gone.exit.code, gone.stdout.as_str()),
            (Some(3), ""),
            "{gone:?}"
        );
        assert!(!gone.stderr.is_empty());
    }
}
