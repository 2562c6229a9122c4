//! The machine the tests run on.

use narthex_host::{CollectorKind, HostConfig, HostSource};

use crate::support::PATIENT_MS;

#[test]
fn every_collector_succeeds_here() {
    let mut host = HostSource::new(HostConfig {
        wait_ms: PATIENT_MS,
        ..HostConfig::default()
    })
    .expect("the defaults are valid");
    let count = host.collect(1_000).present().count();
    for kind in CollectorKind::ALL {
        // A machine need not have every device.
        let error = host.error(kind).filter(|error| !error.is_no_data());
        assert!(error.is_none(), "{}: {error:?}", kind.name());
    }
    assert!(count > 100, "{count} samples");
}

#[test]
fn a_source_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<HostSource>();
}
