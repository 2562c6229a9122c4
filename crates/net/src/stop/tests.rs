//! Tests of the order and inheritance of stops; time is paused, so nothing waits.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{StopToken, Stopper};

const LONG: Duration = Duration::from_secs(3600);

async fn is_pending(work: impl Future<Output = ()>) -> bool {
    timeout(LONG, work).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn stop_reaches_clones_children_and_waiters() {
    let (stopper, token) = Stopper::new();
    let (_child_stopper, child) = token.child();
    let (_grandchild_stopper, grandchild) = child.child();
    let all = [token.clone(), token, child, grandchild, stopper.token()];
    assert!(all.iter().all(|t| !t.is_stopped()));
    let waiters: Vec<_> = all
        .iter()
        .cloned()
        .map(|t| tokio::spawn(async move { t.stopped().await }))
        .collect();
    tokio::task::yield_now().await;
    stopper.stop();
    for waiter in waiters {
        timeout(LONG, waiter)
            .await
            .expect("woken")
            .expect("no panic");
    }
    assert!(all.iter().all(StopToken::is_stopped));
    assert!(all.iter().all(|t| t.deadline().is_none()));
    // Waiting after a stop completes at once.
    all[0].stopped().await;
}

#[tokio::test(start_paused = true)]
async fn child_stops_alone() {
    let (stopper, token) = Stopper::new();
    let (child_stopper, child) = token.child();
    child_stopper.stop();
    assert!(child.is_stopped() && !token.is_stopped());
    drop((child_stopper, child));
    assert!(is_pending(token.stopped()).await);
    drop(stopper);
    assert!(
        is_pending(token.stopped()).await,
        "dropping a stopper stops nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn child_of_a_stopped_token_is_born_stopped() {
    let (stopper, token) = Stopper::new();
    let deadline = Instant::now() + LONG;
    stopper.stop_by(deadline);
    let (_own, child) = token.child();
    assert!(child.is_stopped());
    assert_eq!(child.deadline(), Some(deadline));
}

#[tokio::test(start_paused = true)]
async fn parent_outlived_by_its_stopper_still_reaches_the_child() {
    let (stopper, token) = Stopper::new();
    let (_own, child) = token.child();
    drop(token);
    stopper.stop();
    assert!(child.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn deadline_only_moves_forward() {
    let (stopper, token) = Stopper::new();
    let (_own, child) = token.child();
    let near = Instant::now() + Duration::from_secs(10);
    stopper.stop();
    assert_eq!(token.deadline(), None);
    stopper.stop_by(near + LONG);
    stopper.stop_by(near);
    stopper.stop_by(near + LONG);
    stopper.stop();
    assert_eq!(
        (token.deadline(), child.deadline()),
        (Some(near), Some(near))
    );
}

#[tokio::test(start_paused = true)]
async fn expiry_follows_the_earliest_deadline() {
    let (stopper, token) = Stopper::new();
    assert!(is_pending(token.expired()).await);
    stopper.stop();
    assert!(is_pending(token.expired()).await, "no deadline, no expiry");
    let start = Instant::now();
    stopper.stop_by(start + LONG);
    let waiter = tokio::spawn({
        let token = token.clone();
        async move {
            token.expired().await;
            Instant::now()
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    stopper.stop_by(start + Duration::from_secs(5));
    let ended = waiter.await.expect("no panic");
    assert_eq!(ended - start, Duration::from_secs(5));
    token.expired().await;
}

#[tokio::test(start_paused = true)]
async fn run_returns_the_output_or_drops_the_work() {
    let (stopper, token) = Stopper::new();
    assert_eq!(token.run(async { 7 }).await, Some(7));
    let work = token.run(tokio::time::sleep(LONG));
    let stop = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stopper.stop();
    };
    let (output, ()) = tokio::join!(work, stop);
    assert_eq!(output, None);
    assert_eq!(
        token.run(async { 7 }).await,
        None,
        "stopped before it began"
    );
}

#[test]
fn dead_children_are_swept() {
    let (_stopper, token) = Stopper::new();
    for _ in 0..100_000 {
        let _gone = token.child();
    }
    let kept = token.node.children.lock().expect("not poisoned").len();
    assert!(kept <= 8, "{kept} dead children kept");
}
