//! Tests of `tour`.

use super::*;

#[test]
fn every_stop_has_a_right_file() {
    for (name, text) in STOPS {
        let file = ScenarioFile::parse(text, name).unwrap();
        assert_eq!(scenario::named_in(&file).unwrap().name, *name);
        let values = scenario::find(name).unwrap().values(&[]).unwrap();
        values.with_file(file).unwrap();
    }
}

#[test]
fn every_committed_scenario_can_be_read() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
    assert!(files.len() > 8, "{files:?}");
    for path in files {
        // Other files are lists of queries that scenarios use.
        if !fs::read_to_string(&path).unwrap().contains("\nscenario: ") {
            continue;
        }
        let file = ScenarioFile::read(&path).unwrap();
        let scenario = scenario::named_in(&file).unwrap();
        scenario.values(&[]).unwrap().with_file(file).unwrap();
    }
}
