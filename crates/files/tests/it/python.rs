//! Directories of the Python client's multiprocess mode.

use crate::recorder::Rig;
use narthex_files::FileKind;
use std::{fs, path::Path};

/// Writes a file of values as the client does; `timed` is how versions from 0.20 do it.
fn write(directory: &Path, name: &str, timed: bool, entries: &[(&str, f64)]) {
    let mut data = vec![0; 8];
    for (key, value) in entries {
        data.extend_from_slice(&i32::try_from(key.len()).unwrap().to_ne_bytes());
        data.extend_from_slice(key.as_bytes());
        data.resize(data.len() + 8 - (key.len() + 4) % 8, b' ');
        data.extend_from_slice(&value.to_ne_bytes());
        if timed {
            data.extend_from_slice(&0f64.to_ne_bytes());
        }
    }
    let used = i32::try_from(data.len()).unwrap();
    data[..4].copy_from_slice(&used.to_ne_bytes());
    data.resize(64 << 10, 0);
    fs::write(directory.join(name), data).unwrap();
}

const COUNTER: &str = r#"["c", "c_total", {"k": "1"}, "Help."]"#;
const GAUGE: &str = r#"["g", "g", {}, "Help."]"#;
/// No process has this number.
const ENDED: &str = "99999999";

fn rig() -> Rig {
    let rig = Rig::new(|config, dir| {
        config.kind = FileKind::PythonMultiprocess;
        config.paths = vec![dir.join("*").display().to_string()];
    });
    fs::create_dir(rig.dir.join("app")).unwrap();
    rig
}

#[test]
fn processes_are_put_together_and_those_that_ended_stay_in_sums() {
    let mut rig = rig();
    let app = rig.dir.join("app");
    let own = std::process::id();
    write(&app, &format!("counter_{own}.db"), true, &[(COUNTER, 5.0)]);
    write(
        &app,
        &format!("counter_{ENDED}.db"),
        false,
        &[(COUNTER, 2.0)],
    );
    write(
        &app,
        &format!("gauge_livesum_{own}.db"),
        true,
        &[(GAUGE, 3.0)],
    );
    write(
        &app,
        &format!("gauge_livesum_{ENDED}.db"),
        true,
        &[(GAUGE, 4.0)],
    );
    let expected = |counter: u32| {
        [
            format!("c_total{{job=\"j\", k=\"1\"}} {counter}"),
            "g{job=\"j\"} 3".to_owned(),
        ]
    };
    assert_eq!(rig.round(), expected(7));
    // What has ended is not added again, and another one that has ended is.
    write(&app, &format!("counter_{own}.db"), true, &[(COUNTER, 6.0)]);
    assert_eq!(rig.round(), expected(8));
    write(
        &app,
        &format!("counter_{ENDED}1.db"),
        true,
        &[(COUNTER, 10.0)],
    );
    assert_eq!(rig.round(), expected(18));
    // An application that cleans up takes back what it added.
    fs::remove_file(app.join(format!("counter_{ENDED}.db"))).unwrap();
    assert_eq!(rig.round(), expected(16));
    fs::remove_dir_all(&app).unwrap();
    assert_eq!(
        rig.round(),
        ["c_total{job=\"j\", k=\"1\"} x", "g{job=\"j\"} x"]
    );
}

#[test]
fn torn_files_cost_what_is_torn() {
    let mut rig = rig();
    let app = rig.dir.join("app");
    let own = std::process::id();
    let second = r#"["c", "c_total", {"k": "2"}, "Help."]"#;
    write(
        &app,
        &format!("counter_{own}.db"),
        true,
        &[(COUNTER, 5.0), (second, 1.0)],
    );
    fs::write(app.join(format!("histogram_{own}.db")), b"").unwrap();
    fs::write(app.join("summary_1.db"), [0xff; 100]).unwrap();
    fs::write(app.join("notes.txt"), b"nothing").unwrap();
    let both = [
        r#"c_total{job="j", k="1"} 5"#,
        r#"c_total{job="j", k="2"} 1"#,
    ];
    assert_eq!(rig.round(), both);
    let path = app.join(format!("counter_{own}.db"));
    let mut data = fs::read(&path).unwrap();
    data[8 + 4 + COUNTER.len() + 30] = 0xff;
    let torn = data.iter().position(|byte| *byte == 0xff).unwrap();
    fs::write(&path, &data).unwrap();
    assert!(
        torn > 8 + COUNTER.len(),
        "the damage is behind the first value"
    );
    assert_eq!(
        rig.round(),
        [
            r#"c_total{job="j", k="1"} 5"#,
            r#"c_total{job="j", k="2"} x"#
        ]
    );
}

/// An agent in another container sees no process of the application.
#[test]
fn processes_need_not_be_looked_for() {
    let mut rig = Rig::new(|config, dir| {
        config.kind = FileKind::PythonMultiprocess;
        config.paths = vec![dir.join("app").display().to_string()];
        config.check_processes = false;
    });
    let app = rig.dir.join("app");
    fs::create_dir(&app).unwrap();
    write(
        &app,
        &format!("gauge_livesum_{ENDED}.db"),
        true,
        &[(GAUGE, 4.0)],
    );
    assert_eq!(rig.round(), ["g{job=\"j\"} 4"]);
}
