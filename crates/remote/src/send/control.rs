//! Orders to a worker, which passes them on to its tasks.

use tokio::sync::watch;

/// What workers and their tasks are to do; each is stricter than the one before.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Order {
    /// Send whatever comes.
    #[default]
    Run,
    /// Send what is there as long as it is taken, then end.
    Flush,
    /// End the requests under way, then end.
    Finish,
    /// End at once; requests under way are cut off, and sent again by whoever comes next.
    Abort,
}

/// The giving end.
#[derive(Clone, Debug)]
pub(super) struct Orders(watch::Sender<Order>);

impl Orders {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Order::Run))
    }

    /// Sends an order, unless a stricter one was sent.
    pub(super) fn send(&self, order: Order) {
        self.0.send_if_modified(|now| {
            let is_stricter = order > *now;
            if is_stricter {
                *now = order;
            }
            is_stricter
        });
    }

    pub(super) fn now(&self) -> Order {
        *self.0.borrow()
    }

    pub(super) fn follow(&self) -> Follower {
        Follower(self.0.subscribe())
    }
}

/// The taking end.
#[derive(Clone, Debug)]
pub(super) struct Follower(watch::Receiver<Order>);

impl Follower {
    pub(super) fn now(&self) -> Order {
        *self.0.borrow()
    }

    /// Waits until the order is `order` or a stricter one; for ever if nobody can give one any more.
    pub(super) async fn at_least(&mut self, order: Order) {
        if self.0.wait_for(|now| *now >= order).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
