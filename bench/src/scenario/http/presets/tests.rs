//! Tests of `presets`.

use super::*;

#[test]
fn given_paths_go_before_a_kinds_own() {
    let nginx = Paths::new("nginx", "", "", 5);
    assert_eq!(
        (nginx.load.as_str(), nginx.scrape.as_str()),
        ("/", "/metrics")
    );
    assert!(!nginx.is_written);
    let ours = Paths::new("narthex", "", "/metrics", 5);
    assert!(ours.is_written && ours.load.ends_with("&time=5"));
    assert_eq!(ours.scrape, "/metrics");
    assert_eq!(Paths::new("mine", "/x", "", 5).load, "/x");
}

#[test]
fn what_is_missing_is_named_with_the_way_to_get_it() {
    let dir = narthex_testkit::TempDir::new("modules");
    let mut libraries = Libraries::default();
    let say = |kind, libraries: &Libraries| lacking(kind, libraries, dir.path());
    assert!(say(PEER, &libraries).unwrap().contains("apt-get install"));
    dir.write("ngx_http_lua_module.so", "");
    assert!(say(PEER, &libraries).unwrap().contains("git clone"));
    assert!(say(OURS, &libraries).unwrap().contains("--own-lua-library"));
    libraries.peer = Some(dir.path().to_owned());
    assert_eq!(say(PEER, &libraries), None);
    libraries.own = Some(dir.path().to_owned());
    assert_eq!(say(OURS, &libraries), None);
}
