//! A loop's order, bounds and ends; time is paused, so nothing waits.

use super::*;
use narthex_model::storage::Budget;

/// An Alertmanager that answers as told, each answer once, and then takes everything.
#[derive(Default)]
struct Scripted {
    answers: Mutex<VecDeque<Result<(), PostError>>>,
    bodies: Mutex<Vec<(Duration, String)>>,
    delay: Duration,
    begin: Option<Instant>,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Result<(), PostError>>) -> Self {
        Self {
            answers: Mutex::new(answers.into_iter().collect()),
            begin: Some(Instant::now()),
            ..Self::default()
        }
    }

    /// The bodies it got, with the second of each.
    fn bodies(&self) -> Vec<(u64, String)> {
        let bodies = self.bodies.lock().whole();
        let seconds = bodies.iter().map(|(at, body)| (at.as_secs(), body.clone()));
        seconds.collect()
    }
}

impl Post for Scripted {
    async fn post(&self, body: &[u8]) -> Result<(), PostError> {
        let at = self.begin.map_or(Duration::ZERO, |begin| begin.elapsed());
        let text = String::from_utf8(body.to_vec()).unwrap();
        self.bodies.lock().whole().push((at, text));
        tokio::time::sleep(self.delay).await;
        let answer = self.answers.lock().whole().pop_front();
        answer.unwrap_or(Ok(()))
    }
}

fn failure(may_pass: bool) -> Result<(), PostError> {
    Err(PostError {
        reason: "no".to_owned(),
        may_pass,
    })
}

fn alerts(names: &[&str]) -> Vec<Arc<Encoded>> {
    let budget = Budget::unlimited();
    let encoded = names.iter().map(|name| Encoded {
        json: (*name).to_owned(),
        _lease: budget.lease(1).unwrap(),
    });
    encoded.map(Arc::new).collect()
}

/// Returns a loop whose series no other test has.
fn send_loop(name: &str, capacity: usize, batch_size: usize, drains: bool) -> SendLoop {
    let options = NotifierOptions {
        queue_capacity: capacity,
        max_batch_size: batch_size,
        drain_on_shutdown: drains,
        ..NotifierOptions::default()
    };
    SendLoop::new(
        &format!("http://{name}:9093/api/v2/alerts"),
        Arc::new(options),
    )
}

/// Runs a loop until nothing happens for an hour of its time.
async fn settle(send_loop: &SendLoop, post: &Scripted) {
    let hour = Duration::from_hours(1);
    assert!(
        tokio::time::timeout(hour, send_loop.run(post))
            .await
            .is_err()
    );
}

fn body(second: u64, text: &str) -> (u64, String) {
    (second, text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn batches_keep_order_and_size() {
    let (one, post) = (send_loop("batches", 10, 2, true), Scripted::new([]));
    one.add(&alerts(&["1", "2", "3"]));
    one.add(&alerts(&["4", "5"]));
    assert_eq!(one.totals(), [0, 0, 0, 0, 5]);
    settle(&one, &post).await;
    let sent = ["[1,2]", "[3,4]", "[5]"].map(|text| body(0, text));
    assert_eq!(post.bodies(), sent);
    assert_eq!(one.totals(), [5, 0, 0, 0, 0]);
}

/// Prometheus' TestHandlerQueuing: the newest alerts stay.
#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_the_oldest() {
    let (one, post) = (send_loop("full", 3, 10, true), Scripted::new([]));
    one.add(&alerts(&["1", "2"]));
    one.add(&alerts(&["3", "4"]));
    assert_eq!(one.totals(), [0, 0, 1, 0, 3]);
    one.add(&alerts(&["5", "6", "7", "8"]));
    assert_eq!(one.totals(), [0, 0, 5, 0, 3]);
    settle(&one, &post).await;
    assert_eq!(post.bodies(), [body(0, "[6,7,8]")]);
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_sent_again_before_anything_later() {
    let one = send_loop("retry", 10, 10, true);
    let post = Scripted::new([failure(true), failure(true)]);
    one.add(&alerts(&["1"]));
    let second = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        one.add(&alerts(&["2"]));
    };
    tokio::join!(settle(&one, &post), second);
    assert_eq!(
        post.bodies(),
        [
            body(0, "[1]"),
            body(1, "[1]"),
            body(6, "[1]"),
            body(6, "[2]")
        ]
    );
    assert_eq!(one.totals(), [2, 1, 0, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_given_up() {
    let one = send_loop("give-up", 10, 1, true);
    // All attempts at the first, and one at the second.
    let post = Scripted::new([true, true, true, true, false].map(failure));
    one.add(&alerts(&["1", "2", "3"]));
    settle(&one, &post).await;
    let seconds: Vec<u64> = post.bodies().iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, [0, 1, 6, 21, 21, 21]);
    assert_eq!(one.totals(), [1, 2, 2, 3, 0]);
}

#[tokio::test(start_paused = true)]
async fn closing_sends_what_waits() {
    let (one, post) = (send_loop("drain", 10, 2, true), Scripted::new([]));
    one.add(&alerts(&["1", "2", "3"]));
    one.close();
    one.run(&post).await;
    assert_eq!(post.bodies(), [body(0, "[1,2]"), body(0, "[3]")]);
    one.add(&alerts(&["4"]));
    assert_eq!(one.totals(), [3, 0, 1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn closing_without_a_drain_drops_what_waits() {
    let (one, post) = (send_loop("no-drain", 10, 2, false), Scripted::new([]));
    one.add(&alerts(&["1", "2", "3"]));
    one.close();
    one.run(&post).await;
    assert_eq!(post.bodies(), []);
    assert_eq!(one.totals(), [0, 0, 3, 0, 0]);
}

/// A drain sends nothing twice, and ends at the first batch that nobody takes; one that is refused ends nothing.
#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_nobody_answers() {
    let one = send_loop("unreachable", 10, 1, true);
    let post = Scripted::new([failure(false), failure(true)]);
    one.add(&alerts(&["1", "2", "3", "4"]));
    one.close();
    one.run(&post).await;
    assert_eq!(post.bodies(), [body(0, "[1]"), body(0, "[2]")]);
    assert_eq!(one.totals(), [0, 2, 4, 0, 0]);
}

/// A loop that waits to send a batch again does not hold up the end.
#[tokio::test(start_paused = true)]
async fn closing_ends_a_pause() {
    let one = send_loop("pause", 10, 1, true);
    let post = Scripted::new([failure(true), failure(true), failure(true)]);
    one.add(&alerts(&["1"]));
    let close = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        one.add(&alerts(&["2"]));
        one.close();
    };
    tokio::join!(one.run(&post), close);
    let bodies = [body(0, "[1]"), body(1, "[1]"), body(2, "[2]")];
    assert_eq!(post.bodies(), bodies);
    assert_eq!(one.totals(), [0, 2, 2, 1, 0]);
}

/// A request under way at the end is neither cut off nor sent twice.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_request_under_way() {
    let one = send_loop("under-way", 10, 1, true);
    let post = Scripted {
        delay: Duration::from_secs(4),
        ..Scripted::new([])
    };
    one.add(&alerts(&["1"]));
    let close = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        one.close();
    };
    tokio::join!(one.run(&post), close);
    assert_eq!(post.bodies(), [body(0, "[1]")]);
    assert_eq!(one.totals(), [1, 0, 0, 0, 0]);
}
