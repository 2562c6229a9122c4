//! Descriptions that change while files are added, removed and broken.

use narthex_model::LabelSet;
use narthex_testkit::TempDir;

use super::*;

const A: Desc<'static> = Desc::gauge("a", "A.");
const B: Desc<'static> = Desc::counter("b", "B.");

struct Rig {
    dir: TempDir,
    files: SysfsFiles,
    buf: ReadBuf,
    out: Sink,
    described: u32,
}

impl Rig {
    fn new() -> Self {
        Self {
            dir: TempDir::new("files"),
            files: SysfsFiles::new(),
            buf: ReadBuf::new(),
            out: Sink::new(LabelSet::empty()),
            described: 0,
        }
    }

    /// Runs a round in which every device has its file described twice; returns the values by series.
    fn round(&mut self, devices: &[&str], refresh: bool) -> Vec<(String, f64)> {
        let Self {
            dir,
            files,
            buf,
            out,
            described,
        } = self;
        out.begin();
        let mut ctx = Ctx {
            buf,
            round: 1,
            refresh,
            udp_sockets: [None; 2],
        };
        let ran = files.run(&mut ctx, out, |plan| {
            *described += 1;
            let state = plan.label(&dir.join("state"));
            for device in devices {
                let labels = [
                    ("device", *device),
                    ("state", state.as_deref().unwrap_or("")),
                ];
                let path = dir.join(device);
                plan.file(&A, &labels, &path, Decode::PLAIN);
                plan.file(&B, &labels, &path, Decode::Over(10.0));
            }
            Ok(())
        });
        ran.expect("it is described");
        let frame = out.finish(0);
        let at = frame.present().iter();
        at.map(|at| {
            let id = narthex_model::ColumnId(u32::try_from(at).expect("small"));
            (frame.schema().labels(id).to_string(), frame.values()[at])
        })
        .collect()
    }
}

#[test]
fn broken_files_leave_out_their_own_values() {
    let mut rig = Rig::new();
    rig.dir.write("x", "5\n");
    rig.dir.write("y", "-7\n");
    let whole = rig.round(&["x", "y"], false);
    let values: Vec<f64> = whole.iter().map(|(_, value)| *value).collect();
    assert_eq!(values, [5.0, 0.5, -7.0, -0.7]);
    rig.round(&["x", "y"], false);
    assert_eq!(rig.described, 1, "nothing has changed");

    rig.dir.write("y", "broken\n");
    for _ in 0..3 {
        assert_eq!(rig.round(&["x", "y"], false).len(), 2);
    }
    assert_eq!(
        rig.described, 2,
        "what can't be read is described once without it"
    );

    rig.dir.write("y", "9");
    assert_eq!(rig.round(&["x", "y"], true).len(), 4);
    assert_eq!(rig.round(&["y"], true).len(), 2);
    assert_eq!(rig.round(&[], true).len(), 0);
}

#[test]
fn labels_that_change_are_seen_in_the_same_round() {
    let mut rig = Rig::new();
    rig.dir.write("state", "up\n");
    rig.dir.write("x", "1");
    assert!(rig.round(&["x"], false)[0].0.contains(r#"state="up""#));
    rig.dir.write("state", "down\n");
    let changed = rig.round(&["x"], false);
    assert_eq!(changed.len(), 2);
    assert!(changed[0].0.contains(r#"state="down""#), "{changed:?}");
    rig.round(&["x"], false);
    assert_eq!(rig.described, 2);
}

#[test]
fn numbers_of_sysfs() {
    let cases = [
        (Decode::PLAIN, " 42\n", Some(42.0)),
        (Decode::PLAIN, "-1\n", Some(-1.0)),
        (Decode::Times(0.001), "1500", Some(1.5)),
        (Decode::PLAIN, "1.25", Some(1.25)),
        (Decode::PLAIN, "", None),
        (Decode::PLAIN, "NaN", None),
        (Decode::PLAIN, "4 5", None),
        (Decode::Cell("rw", 1), "abt 7\nrw 5 6\n", Some(6.0)),
        (Decode::Cell("rw", 2), "abt 7\nrw 5 6\n", Some(0.0)),
        (Decode::Cell("dir", 0), "abt 7\nrw 5 6\n", Some(0.0)),
        (Decode::Cell("rw", 0), "rw x\n", None),
        (Decode::Is("up".into()), "up\n", Some(1.0)),
        (Decode::Is("up".into()), "upper", Some(0.0)),
    ];
    for (decode, text, expected) in cases {
        assert_eq!(
            decode.decode(text.as_bytes()),
            expected,
            "{decode:?} {text:?}"
        );
    }
}
