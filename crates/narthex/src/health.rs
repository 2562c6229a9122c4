//! Readiness of a started server, as `/-/ready` reports it.
//!
//! **Invariant:** a server that cannot store anything is not ready, and says why.

use narthex_model::sync::Whole as _;
use narthex_tsdb::Db;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Possible faults of a running server.
#[derive(Debug, Default)]
pub(crate) struct Health {
    db: OnceLock<Db>,
    /// Reason why storage maintenance fails.
    maintenance: Mutex<Option<String>>,
}

impl Health {
    /// Starts watching a database; a process opens only one.
    pub(crate) fn watch(&self, db: &Db) {
        let _ = self.db.set(db.clone());
    }

    /// Records why storage maintenance fails; `None` once it succeeds.
    pub(crate) fn set_maintenance(&self, trouble: Option<String>) {
        *self.maintenance() = trouble;
    }

    /// Returns why a started server is not ready, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        let poisoned = self.db.get().and_then(Db::poisoned);
        let poisoned = poisoned.map(|cause| {
            format!("storage takes nothing until the server is started again: {cause}")
        });
        poisoned.or_else(|| self.maintenance().clone())
    }

    fn maintenance(&self) -> MutexGuard<'_, Option<String>> {
        // Safe after a panic, since the text is only replaced as a whole.
        self.maintenance.lock().whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::{Gate, hosts::Hosts, outer};
    use narthex_model::{
        LabelSet, METRIC_NAME,
        storage::{SeriesSample, Sink},
    };
    use narthex_net::{
        Router, Stopper,
        axum::{
            body::{Body, to_bytes},
            extract::Request,
        },
    };
    use narthex_tsdb::{DbOptions, FaultyIo, ManualClock};
    use std::sync::Arc;
    use tower_service::Service;

    async fn ready(router: &mut Router) -> (u16, String) {
        let request = Request::get("/-/ready").body(Body::empty()).unwrap();
        let response = router.call(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 10).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// A server whose WAL rejected all writes reported that it was ready.
    #[tokio::test]
    async fn a_server_that_can_store_nothing_is_not_ready_and_says_why() {
        let disk = FaultyIo::new();
        let options = DbOptions::new("/data");
        let clock = Arc::new(ManualClock::new(1_767_225_600_000));
        let db = Db::open(Arc::new(disk.clone()), options, clock).unwrap();
        let (stopper, stop) = Stopper::new();
        let gate = Arc::new(Gate::new(stop));
        let mut router = outer(Arc::clone(&gate), Router::new(), Hosts::default());
        gate.health.watch(&db);
        assert_eq!(ready(&mut router).await.0, 503, "not started");
        gate.open(Router::new());
        let well = (200, "Narthex Server is Ready.\n".to_owned());
        assert_eq!(ready(&mut router).await, well);

        gate.health.set_maintenance(Some("it is broken".into()));
        let broken = (503, "Service Unavailable: it is broken\n".to_owned());
        assert_eq!(ready(&mut router).await, broken);
        gate.health.set_maintenance(None);
        assert_eq!(ready(&mut router).await, well);

        disk.fail_syncs(true);
        let labels = LabelSet::new([(METRIC_NAME, "m")]);
        let sample = SeriesSample::float(labels, 1_767_225_600_000, 1.0);
        let outcome = db.append_samples(&[sample]).unwrap();
        db.sync(outcome.token).expect_err("the disk is broken");
        let (status, text) = ready(&mut router).await;
        assert_eq!(status, 503);
        let start = "Service Unavailable: storage takes nothing until the server is started again: fsync of the log failed";
        assert!(text.starts_with(start), "{text}");

        stopper.stop();
        let stopping = (503, "Service Unavailable".to_owned());
        assert_eq!(ready(&mut router).await, stopping);
    }
}
