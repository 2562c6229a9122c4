//! Files that change while they are watched. The interval is too long to be what detects the change.

use std::time::Duration;

use narthex_discovery::{FileSdConfig, Options, SdConfig};
use narthex_testkit::TempDir;

use crate::support::run;

fn config(pattern: &std::path::Path) -> SdConfig {
    SdConfig::File(FileSdConfig {
        files: vec![pattern.display().to_string()],
        refresh_interval: Duration::from_hours(24),
    })
}

#[tokio::test]
async fn changes_are_seen_at_once() {
    let dir = TempDir::new("file-sd");
    dir.write("a.yml", "- targets: [a:1]\n");
    let mut running = run(config(&dir.join("*.yml")), Options::default());
    let groups = running.until(&["a:1"]).await;
    let path = dir.join("a.yml").display().to_string();
    assert_eq!(groups[0].labels["__meta_filepath"], path);
    assert_eq!(groups[0].source, format!("{path}:0"));
    dir.write("b.yml", "- targets: [b:1]\n  labels: {env: x}\n");
    running.until(&["a:1", "b:1"]).await;
    // Replaced by renaming, as careful writers do.
    let next = dir.write("a.tmp", "- targets: [a:2, a:3]\n");
    std::fs::rename(next, dir.join("a.yml")).unwrap();
    running.until(&["a:2", "a:3", "b:1"]).await;
    std::fs::remove_file(dir.join("b.yml")).unwrap();
    running.until(&["a:2", "a:3"]).await;
    dir.write("a.yml", "- targets: [\n");
    dir.write("c.yml", "- targets: [c:1]\n");
    running.until(&["a:2", "a:3", "c:1"]).await;
}

/// Kubernetes mounts a ConfigMap like this: the file is a symlink through another symlink, which is swapped.
#[tokio::test]
async fn a_swapped_link_is_a_change() {
    use std::os::unix::fs::symlink;
    let dir = TempDir::new("file-sd");
    dir.write("v1/targets.json", r#"[{"targets":["one"]}]"#);
    dir.write("v2/targets.json", r#"[{"targets":["two"]}]"#);
    symlink("v1", dir.join("..data")).unwrap();
    symlink("..data/targets.json", dir.join("targets.json")).unwrap();
    let mut running = run(config(&dir.join("targets.json")), Options::default());
    running.until(&["one"]).await;
    symlink("v2", dir.join("..data_tmp")).unwrap();
    std::fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    running.until(&["two"]).await;
}
