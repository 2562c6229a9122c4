//! A round without changes: the same schema, no allocation.

use narthex_host::{CollectorKind, HostConfig, HostSource};
use narthex_testkit::alloc;

use crate::support::PATIENT_MS;

#[test]
fn a_steady_round_allocates_nothing() {
    let mut config = HostConfig::default();
    config.cpu.info = true;
    config.wait_ms = PATIENT_MS;
    let mut host = HostSource::new(config).expect("valid");
    let mut steady = 0;
    for round in 0..20 {
        let version = host.schema().version();
        let before = alloc::thread().calls;
        host.collect(round);
        let allocations = alloc::thread().calls - before;
        // Other tests of this process add and remove network devices.
        if round >= 2 && host.schema().version() == version {
            assert_eq!(allocations, 0, "round {round}");
            steady += 1;
        }
    }
    assert!(steady > 5, "only {steady} rounds were steady");
    assert!(alloc::thread().calls > 0, "the allocator counts");
    for kind in CollectorKind::ALL {
        let error = host.error(kind).filter(|error| !error.is_no_data());
        assert!(error.is_none(), "{error:?}");
    }
}
