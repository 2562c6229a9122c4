//! Tests of `machine`.

use super::*;

#[test]
fn every_fact_is_known_here() {
    let facts = facts();
    assert!(!facts.cpu.is_empty() && !facts.kernel.is_empty());
    assert!(facts.cores > 0 && facts.memory_bytes > 1 << 20);
    assert!(!is_in_memory(Path::new("/proc")));
}
