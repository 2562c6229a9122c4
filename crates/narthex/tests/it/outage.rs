//! An agent whose remote end is away for an hour: it is killed twice meanwhile, and nothing is lost; or its queue is too small
//! for the hour, and what is given up is the oldest, and counted.
//!
//! An hour passes in seconds: the samples are written to the agent with the times they would have had.
//! `NARTHEX_TEST_SCALE=50` has the series of a soak.

use crate::{
    client,
    remote_ends::Relay,
    support::{self, PATIENCE, Running, until},
    target::now_ms,
};
use narthex_testkit::{
    TempDir,
    mutate::scaled,
    remote_write::{Request, Series},
    rng::SplitMix64,
};
use serde_json::Value;
use std::{ops::Range, path::PathBuf};

/// Rounds of an hour, one every 15 s.
const ROUNDS: u64 = 240;
const ROUND_MS: i64 = 15_000;
/// Series at a scale of 1.
const SERIES: u64 = 100;
/// Samples of a request; one of frames may have ten times as many.
const BATCH: u64 = 50;

/// An agent's directory, and the samples that are written to it.
struct Rig {
    dir: TempDir,
    relay: Relay,
    config: PathBuf,
    series: u64,
    begin_ms: i64,
}

impl Rig {
    fn new(label: &str, to: &Running, series: u64, more: &str) -> Self {
        let dir = TempDir::new(label);
        let relay = Relay::start(to.address());
        let text = format!(
            "remote_write: [{{name: far, url: '{}/api/v1/write', queue_config: {{max_samples_per_send: {BATCH}, \
batch_send_deadline: 20ms, max_backoff: 100ms, max_shards: 1{more}}}}}]\n",
            relay.url
        );
        Self {
            config: dir.write("agent.yml", text),
            relay,
            dir,
            series,
            begin_ms: now_ms() - i64::try_from(ROUNDS).unwrap() * ROUND_MS,
        }
    }

    fn start(&self) -> Running {
        let data = format!("--storage.agent.path={}", self.dir.join("agent").display());
        Running::of(support::narthex().args([
            "agent",
            "--web.listen-address=127.0.0.1:0",
            "--web.enable-remote-write-receiver",
            &data,
            &support::config_flag(&self.config),
        ]))
    }

    fn time_ms(&self, round: u64) -> i64 {
        self.begin_ms + i64::try_from(round).unwrap() * ROUND_MS
    }

    /// Writes rounds to the agent: once it has answered, they are its to deliver.
    fn write(&self, agent: &Running, rounds: Range<u64>) {
        for round in rounds {
            let of = |at: u64| {
                let labels = [("__name__", "measured"), ("at", &*at.to_string())];
                Series::new(&labels, &[(self.time_ms(round), value(at, round))])
            };
            let request = Request {
                series: (0..self.series).map(of).collect(),
                families: Vec::new(),
            };
            let answer = request.send(&agent.url).unwrap();
            assert_eq!(answer.status, 204, "{}", answer.text());
        }
    }

    fn total(&self) -> u64 {
        self.series * ROUNDS
    }
}

/// A value that no encoding makes small.
fn value(at: u64, round: u64) -> f64 {
    let mut rng = SplitMix64::new(at << 32 | round);
    rng.below(u64::MAX) as f64 / 1e3
}

fn receiver(dir: &TempDir) -> Running {
    let idle = support::config(dir, "1h", &[]);
    let spawn = support::server_in(&dir.join("receiver")).arg(support::config_flag(&idle));
    Running::of(spawn.arg("--web.enable-remote-write-receiver"))
}

fn status(agent: &Running) -> Value {
    agent.data("/api/v1/status/remote_write", &[])[0].clone()
}

fn received(receiver: &Running) -> u64 {
    let name = "narthex_remote_write_received_total{kind=\"samples\"}";
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count"
    )]
    let samples = receiver.metric(name).unwrap_or_default() as u64;
    samples
}

fn wait_empty(agent: &Running) {
    until("everything to be sent", || {
        (status(agent)["pendingSamples"] == 0).then_some(())
    });
}

/// Fails unless each series has just these rounds, with their values.
fn assert_has(receiver: &Running, rig: &Rig, rounds: Range<u64>) {
    let all = client::matrix(&receiver.url, "measured[2h]");
    assert_eq!(all.len() as u64, rig.series);
    for at in 0..rig.series {
        let labels = format!("measured{{at=\"{at}\"}}");
        let found: Vec<(i64, u64)> = all[&labels].iter().map(|(at, bits)| (*at, *bits)).collect();
        let wanted = rounds.clone();
        let wanted = wanted.map(|round| (rig.time_ms(round), value(at, round).to_bits()));
        let other = found
            .iter()
            .copied()
            .zip(wanted.clone())
            .find(|(one, other)| one != other);
        assert_eq!(other, None, "{labels}: found and wanted");
        assert_eq!(found.len(), wanted.count(), "{labels}");
    }
}

#[test]
fn an_hour_away_and_two_kills_lose_nothing() {
    let dir = TempDir::new("outage-receiver");
    let receiver = receiver(&dir);
    let rig = Rig::new("outage", &receiver, scaled(SERIES), "");
    let mut agent = rig.start();
    rig.write(&agent, 0..20);
    wait_empty(&agent);

    // The remote end is away. The agent is killed with a third of the hour in its queue, at once after an answer.
    rig.relay.set_open(false);
    rig.write(&agent, 20..100);
    agent.process.kill9();
    agent.process.wait_exit(PATIENCE);
    let mut agent = rig.start();
    rig.write(&agent, 100..220);
    until("an error", || {
        status(&agent)["lastError"].as_str().map(str::to_owned)
    });
    let waiting = status(&agent)["pendingSamples"].as_u64().unwrap();
    assert_eq!(waiting, rig.series * 200);
    let before = received(&receiver);

    // It is back, and the agent is killed while it makes up for the hour.
    rig.relay.set_open(true);
    until("some of it", || {
        (received(&receiver) > before + 4 * BATCH).then_some(())
    });
    agent.process.kill9();
    agent.process.wait_exit(PATIENCE);
    let came = received(&receiver);
    let agent = rig.start();
    rig.write(&agent, 220..ROUNDS);
    wait_empty(&agent);
    assert_eq!(status(&agent)["droppedSamples"], 0);
    agent.stop();

    assert_has(&receiver, &rig, 0..ROUNDS);
    let twice = received(&receiver) - rig.total();
    println!(
        "{} samples, {waiting} waited, killed with {came} received, {twice} received twice",
        rig.total()
    );
    // What was under way when the connection was cut, and when it was killed.
    assert!(twice <= 2 * 10 * BATCH, "{twice} samples received twice");
    receiver.stop();
}

#[test]
fn an_hour_in_a_small_queue_costs_the_oldest_and_is_counted() {
    const LIMIT: u64 = 256 << 10;
    let dir = TempDir::new("outage-small-receiver");
    let receiver = receiver(&dir);
    let rig = Rig::new(
        "outage-small",
        &receiver,
        4 * SERIES,
        ", max_disk_size: 256KB",
    );
    rig.relay.set_open(false);
    let mut agent = rig.start();
    for rounds in [0..80, 80..160, 160..ROUNDS] {
        rig.write(&agent, rounds);
        let bytes = status(&agent)["queueBytes"].as_u64().unwrap();
        assert!(bytes <= LIMIT, "{bytes} bytes of {LIMIT}");
    }
    let dropped = status(&agent)["droppedSamples"].as_u64().unwrap();
    assert!(
        dropped > rig.total() / 4,
        "{dropped} of {} dropped",
        rig.total()
    );
    // A killed agent still knows what waits.
    let waiting = status(&agent)["pendingSamples"].as_u64().unwrap();
    assert_eq!(waiting + dropped, rig.total());
    agent.process.kill9();
    agent.process.wait_exit(PATIENCE);
    let agent = rig.start();
    assert_eq!(status(&agent)["pendingSamples"].as_u64(), Some(waiting));
    rig.relay.set_open(true);
    wait_empty(&agent);
    agent.stop();

    let arrived = received(&receiver);
    assert_eq!(arrived, waiting, "nothing twice: no request was under way");
    let rounds = arrived / rig.series;
    println!(
        "{dropped} of {} samples dropped, {rounds} of {ROUNDS} rounds left",
        rig.total()
    );
    assert_has(&receiver, &rig, ROUNDS - rounds..ROUNDS);
    receiver.stop();
}
