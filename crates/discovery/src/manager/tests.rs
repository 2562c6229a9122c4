//! Merging, throttling, and what survives a reload. Time is tokio's, paused.

use super::*;
use crate::config::{FileSdConfig, KubernetesSdConfig};
use crate::group::{ADDRESS_LABEL, LabelMap};
use narthex_testkit::TempDir;
use std::sync::atomic::{AtomicUsize, Ordering};

fn statics(addresses: &[&str]) -> SdConfig {
    let addresses = addresses.iter().map(|a| (*a).to_owned());
    let group = TargetGroup::of_addresses("", addresses, LabelMap::new());
    SdConfig::Static(vec![group])
}

fn jobs(jobs: &[(&str, Vec<SdConfig>)]) -> BTreeMap<String, Vec<SdConfig>> {
    let owned = jobs
        .iter()
        .map(|(job, configs)| ((*job).to_owned(), configs.clone()));
    owned.collect()
}

fn addresses(sets: &TargetSets, job: &str) -> Vec<String> {
    let targets = sets[job].iter().flat_map(|group| &group.targets);
    targets
        .map(|target| target[ADDRESS_LABEL].clone())
        .collect()
}

fn manager(name: &'static str) -> (Manager, Targets, Stopper) {
    let (stopper, stop) = Stopper::new();
    let (manager, targets) = Manager::new(name, Options::default(), stop);
    (manager, targets, stopper)
}

#[tokio::test(start_paused = true)]
async fn static_targets_are_there_with_the_first_publication() {
    let (manager, mut targets, stopper) = manager("static-test");
    manager.apply(jobs(&[
        ("a", vec![statics(&["x:1", "y:2"]), statics(&["z:3"])]),
        ("empty", vec![]),
    ]));
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "a"), ["x:1", "y:2", "z:3"]);
    assert_eq!(addresses(&sets, "empty"), Vec::<String>::new());
    assert_eq!(targets.current(), sets);
    manager.apply(jobs(&[("a", vec![statics(&["z:3"])])]));
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "a"), ["z:3"]);
    assert!(
        !sets.contains_key("empty"),
        "a job that is gone is not named"
    );
    stopper.stop();
    manager.join().await;
    assert!(targets.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn equal_settings_share_a_discoverer_and_survive_a_reload() {
    let dir = TempDir::new("manager");
    dir.write("a.json", r#"[{"targets":["f:1"]}]"#);
    let file = SdConfig::File(FileSdConfig {
        files: vec![dir.join("a.json").display().to_string()],
        ..FileSdConfig::default()
    });
    let (manager, mut targets, _stopper) = manager("share-test");
    manager.apply(jobs(&[
        ("a", vec![file.clone()]),
        ("b", vec![file.clone()]),
    ]));
    loop {
        let sets = targets.next().await.expect("running");
        if addresses(&sets, "a") == ["f:1"] && addresses(&sets, "b") == ["f:1"] {
            break;
        }
    }
    let id = |manager: &Manager| manager.shared.lock().providers[0].id;
    let before = id(&manager);
    assert_eq!(manager.shared.lock().providers.len(), 1);
    manager.apply(jobs(&[("b", vec![file.clone()]), ("c", vec![file])]));
    assert_eq!(id(&manager), before);
    // Nothing is read again: the next publication contains the known targets.
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "c"), ["f:1"]);
    assert!(!sets.contains_key("a"));
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_be_used_leave_the_rest_of_the_job() {
    let bad = SdConfig::Http(Box::new(crate::config::HttpSdConfig {
        url: "http://u:p@h/".to_owned(),
        ..crate::config::HttpSdConfig::default()
    }));
    let (manager, mut targets, _stopper) = manager("bad-test");
    manager.apply(jobs(&[("a", vec![bad, statics(&["x"])])]));
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "a"), ["x"]);
}

/// Reports a target on behalf of a discoverer.
fn report(manager: &Manager, at: usize, source: &str, address: &str) {
    let id = manager.shared.lock().providers[at].id;
    let group = TargetGroup::of_addresses(source, [address.to_owned()], LabelMap::new());
    manager.shared.accept_report(id, vec![group]);
}

#[tokio::test(start_paused = true)]
async fn updates_that_keep_coming_are_published_ever_less_often() {
    let (manager, mut targets, _stopper) = manager("throttle-test");
    manager.apply(jobs(&[("a", vec![statics(&["x"])])]));
    let start = Instant::now();
    targets.next().await.expect("running");
    assert_eq!(
        start.elapsed(),
        Duration::ZERO,
        "the first one waits for nothing"
    );
    let mut pauses = Vec::new();
    for round in 0..14 {
        let before = Instant::now();
        report(&manager, 0, "s", &format!("t:{round}"));
        let sets = targets.next().await.expect("running");
        assert_eq!(addresses(&sets, "a").last(), Some(&format!("t:{round}")));
        pauses.push(before.elapsed());
    }
    assert_eq!(pauses[0].as_millis().div_ceil(10), 10, "{pauses:?}");
    assert!(pauses.windows(2).all(|two| two[0] <= two[1]), "{pauses:?}");
    let longest = pauses.last().expect("some");
    assert!((4990..=5010).contains(&longest.as_millis()), "{pauses:?}");
    // After a quiet time an update is published at once.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let before = Instant::now();
    report(&manager, 0, "s", "late");
    targets.next().await.expect("running");
    assert!(before.elapsed() < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn an_empty_group_is_forgotten_and_a_stopped_discoverer_not_heard() {
    let (manager, mut targets, _stopper) = manager("gone-test");
    manager.apply(jobs(&[("a", vec![statics(&["x"])])]));
    targets.next().await.expect("running");
    report(&manager, 0, "s", "y");
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "a"), ["x", "y"]);
    let id = manager.shared.lock().providers[0].id;
    manager
        .shared
        .accept_report(id, vec![TargetGroup::gone("s")]);
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "a"), ["x"]);
    manager.apply(jobs(&[("a", vec![statics(&["z"])])]));
    let late = TargetGroup::of_addresses("s", ["late".to_owned()], LabelMap::new());
    manager.shared.accept_report(id, vec![late]);
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "a"), ["z"]);
}

/// A discoverer that finds one target and panics, `panics` times before it keeps running.
struct Fragile {
    panics: Arc<AtomicUsize>,
}

impl Discoverer for Fragile {
    fn run(self: Box<Self>, updates: Updates, stop: StopToken) -> Run {
        Box::pin(async move {
            let left = self.panics.fetch_sub(1, Ordering::Relaxed);
            let address = format!("{left}:1");
            let source = format!("s{}", left % 2);
            updates.send(vec![TargetGroup::of_addresses(
                &source,
                [address],
                LabelMap::new(),
            )]);
            assert!(left == 1, "a list of nothing");
            stop.stopped().await;
        })
    }
}

/// A discoverer that panicked used to never report again.
#[tokio::test(start_paused = true)]
async fn a_discoverer_that_panics_begins_again_and_its_targets_stay_meanwhile() {
    let (manager, mut targets, stopper) = manager("fragile-test");
    let config = SdConfig::File(FileSdConfig {
        files: vec!["/nowhere/a.json".into()],
        refresh_interval: Duration::from_secs(60),
    });
    // Files: the first report after a restart does not remove sources it lacks, which may just be unreadable.
    let seen = [vec!["3:1"], vec!["2:1", "3:1"], vec!["2:1", "1:1"]];
    assert_eq!(panics_twice(&manager, &mut targets, &config).await, seen);
    stopper.stop();
    manager.join().await;
}

/// Targets deleted while a watch was down used to stay forever.
#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_says_everything_when_it_begins_again() {
    let (manager, mut targets, _stopper) = manager("fragile-watch-test");
    let config = SdConfig::Kubernetes(Box::<KubernetesSdConfig>::default());
    let seen = [vec!["3:1"], vec!["2:1"], vec!["1:1"]];
    assert_eq!(panics_twice(&manager, &mut targets, &config).await, seen);
}

/// Runs a discoverer of `config` that panics twice; returns what was published after each start.
async fn panics_twice(
    manager: &Manager,
    targets: &mut Targets,
    config: &SdConfig,
) -> Vec<Vec<String>> {
    let shared = &manager.shared;
    let counted = narthex_net::panics_total(TASK);
    let panics = Arc::new(AtomicUsize::new(3));
    let fragile = move || {
        let panics = Arc::clone(&panics);
        Box::new(Fragile { panics }) as Box<dyn Discoverer>
    };
    let first = fragile();
    {
        let mut state = shared.lock();
        let again = move || Some(Ok(fragile()));
        let mut provider = shared.run(&mut state, config, first, again);
        provider.jobs = BTreeSet::from(["a".to_owned()]);
        state.providers.push(provider);
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        let sets = targets.next().await.expect("running");
        seen.push(addresses(&sets, "a"));
    }
    // Panics of concurrent tests count as well.
    assert!(narthex_net::panics_total(TASK) - counted >= 2);
    seen
}

/// A reload that panicked used to leave every job without targets until the next one.
#[tokio::test(start_paused = true)]
async fn a_panic_while_settings_are_applied_leaves_those_before() {
    let (manager, mut targets, _stopper) = manager("panic-test");
    manager.apply(jobs(&[("a", vec![statics(&["x"])])]));
    targets.next().await.expect("running");
    let file = SdConfig::File(FileSdConfig {
        files: vec!["/nowhere/b.json".into()],
        refresh_interval: Duration::from_secs(60),
    });
    let wanted = jobs(&[("a", vec![statics(&["y"]), file])]);
    // Outside the runtime, discoverers cannot be spawned.
    let panicked = std::thread::scope(|scope| scope.spawn(|| manager.apply(wanted)).join());
    assert!(panicked.is_err());
    report(&manager, 0, "s", "z");
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "a"), ["x", "z"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_discoverer_that_begins_anew_does_not_name_is_gone() {
    let (manager, mut targets, _stopper) = manager("renewed-test");
    manager.apply(jobs(&[("a", vec![statics(&["x"])])]));
    targets.next().await.expect("running");
    report(&manager, 0, "s", "y");
    targets.next().await.expect("running");
    let id = manager.shared.lock().providers[0].id;
    manager.shared.renew(id);
    report(&manager, 0, "t", "z");
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "a"), ["z"]);
    report(&manager, 0, "u", "w");
    let sets = targets.next().await.expect("running");
    assert_eq!(addresses(&sets, "a"), ["z", "w"]);
}
