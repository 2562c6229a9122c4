//! Fuzzes the function of `narthex_discovery::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("dns_answer", narthex_discovery::fuzz::fuzz_dns_answer),
    ("groups", narthex_discovery::fuzz::fuzz_groups),
    ("kubeconfig", narthex_discovery::fuzz::fuzz_kubeconfig),
    ("kubernetes", narthex_discovery::fuzz::fuzz_kubernetes),
    ("resolv_conf", narthex_discovery::fuzz::fuzz_resolv_conf),
    ("selector", narthex_discovery::fuzz::fuzz_selector),
    ("watch", narthex_discovery::fuzz::fuzz_watch),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("discovery", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("discovery", FUNCTIONS);
}
