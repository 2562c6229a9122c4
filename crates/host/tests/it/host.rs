//! The machine the tests run on.

use narthex_host::{CollectorSet, HostConfig, HostError, HostSource};
use rustix::io::Errno;

use crate::support::PATIENT_MS;

#[test]
fn every_collector_succeeds_here() {
    let mut host = HostSource::new(HostConfig {
        wait_ms: PATIENT_MS,
        collectors: CollectorSet::all(),
        ..HostConfig::default()
    })
    .expect("the defaults are valid");
    let count = host.collect(1_000).present().count();
    for (kind, error) in host.errors() {
        // A machine need not have every device and program, and some are root's alone.
        let is_denied = matches!(
            error,
            HostError::Read {
                source: Errno::ACCESS | Errno::PERM,
                ..
            }
        );
        let is_missing = matches!(error, HostError::Service { .. });
        let is_fine = error.is_no_data() || is_denied || is_missing;
        assert!(is_fine, "{}: {error:?}", kind.name());
    }
    assert!(count > 100, "{count} samples");
}

#[test]
fn a_source_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<HostSource>();
}
