//! Frames, negotiated: offered in answers, given up where they do not work, begun anew where a receiver forgot.

use super::*;
use crate::support::samples_of as stored;

/// Returns what a store has of the targets' series, as a target says it.
fn taken(remote: &Remote) -> BTreeMap<String, Vec<(i64, String)>> {
    let store = remote.state().store.clone();
    let mut all = BTreeMap::new();
    for at in 0..COLUMNS {
        for (series, samples) in stored(&store, &format!("c{at}")) {
            let samples = samples.iter().map(|sample| {
                let (value, time_ms) = sample.split_once('@').unwrap();
                (NOW_MS + time_ms.parse::<i64>().unwrap(), value.to_owned())
            });
            all.insert(series, samples.collect());
        }
    }
    all
}

const COLUMNS: usize = 40;

/// Sends rounds until `done`, checks that all of them arrived, and returns the messages of the requests.
fn run(
    name: &str,
    more: impl Fn(&mut RemoteWriteConfig),
    mut done: impl FnMut(&Remote) -> bool,
) -> Vec<(Message, u16)> {
    let (dir, remote) = (TempDir::new(name), Remote::start());
    {
        let mut state = remote.state();
        state.frames = Some(state.receiver());
    }
    let rig = Rig::new(dir.path());
    let mut config = named(name, config(&remote.url));
    config.queue.min_shards = 2;
    more(&mut config);
    rig.apply(&[config]);
    let sink = rig.storage.sink(None);
    let mut target = Target::new(&sink, "i", COLUMNS);
    let mut round = 0;
    until("enough rounds", || {
        target.round(NOW_MS + round);
        round += 1;
        done(&remote)
    });
    until("everything to be sent", || {
        rig.storage.status()[0]["pendingSamples"] == 0
    });
    rig.storage.stop(Duration::from_secs(5));
    assert!(taken(&remote) == target.said);
    let state = remote.state();
    state
        .came
        .iter()
        .map(|one| (one.message, one.status))
        .collect()
}

fn frames(remote: &Remote) -> usize {
    let state = remote.state();
    let frames = |one: &&remote::Came| one.message == Message::Frames && one.status == 204;
    state.came.iter().filter(frames).count()
}

#[test]
fn frames_follow_the_first_answer() {
    let came = run("frames-offered", |_| {}, |remote| frames(remote) > 10);
    assert_eq!(came[0], (Message::V1, 204));
    let first = came
        .iter()
        .position(|one| one.0 == Message::Frames)
        .unwrap();
    assert!(
        came[first..]
            .iter()
            .all(|one| *one == (Message::Frames, 204)),
        "{came:?}"
    );
}

#[test]
fn frames_are_not_sent_where_they_are_switched_off() {
    let off = |config: &mut RemoteWriteConfig| config.frames = false;
    let came = run("frames-off", off, |remote| remote.state().came.len() > 20);
    assert!(came.iter().all(|one| one.0 == Message::V1), "{came:?}");
}

/// The receiver restarts: it knows no session, and the samples that it refuses arrive in another one.
#[test]
fn a_receiver_that_forgot_is_told_again() {
    let mut restarts = 0;
    let came = run(
        "frames-forgot",
        |_| {},
        |remote| {
            if frames(remote) > 10 * (restarts + 1) && restarts < 3 {
                let mut state = remote.state();
                state.frames = Some(state.receiver());
                restarts += 1;
            }
            frames(remote) > 50
        },
    );
    let lost = came.iter().filter(|one| one.1 == 409).count();
    // Each of two shards may have found out by itself.
    assert!((3..=6).contains(&lost), "{lost}");
    let first = came
        .iter()
        .position(|one| one.0 == Message::Frames)
        .unwrap();
    assert!(came[first..].iter().all(|one| one.0 == Message::Frames));
    assert!(metric("narthex_remote_write_sessions_lost_total", "frames-forgot") >= 3.0);
}

/// Behind a load balancer no receiver sees a whole session.
#[test]
fn frames_are_given_up_when_sessions_are_lost_all_the_time() {
    let came = run(
        "frames-balanced",
        |_| {},
        |remote| {
            let mut state = remote.state();
            state.forgets_sessions = true;
            let last = state.came.iter().rev().take(5);
            state.came.len() > 20 && last.filter(|one| one.message == Message::V1).count() == 5
        },
    );
    let lost = came.iter().filter(|one| one.1 == 409).count();
    assert!((8..=20).contains(&lost), "{lost} in {came:?}");
}

/// A proxy that lets offers through and takes no frames.
#[test]
fn frames_that_are_not_supported_are_given_up() {
    let mut refused = false;
    let came = run(
        "frames-unsupported",
        |_| {},
        |remote| {
            if frames(remote) > 3 && !refused {
                refused = true;
                let answers = &mut remote.state().answers;
                answers.push_back(Answer::status(415));
            }
            let state = remote.state();
            state
                .came
                .last()
                .is_some_and(|one| refused && one.message == Message::V1)
        },
    );
    let refused = came.iter().position(|one| one.1 == 415).unwrap();
    assert_eq!(came[refused].0, Message::Frames);
    assert_eq!(came.last().unwrap().0, Message::V1);
}
