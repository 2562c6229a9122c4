//! Fuzzes the function of `narthex_net::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("accept_encoding", narthex_net::fuzz::fuzz_accept_encoding),
    ("answer", narthex_net::fuzz::fuzz_answer),
    ("authorization", narthex_net::fuzz::fuzz_authorization),
    ("certificate", narthex_net::fuzz::fuzz_certificate),
    ("chain", narthex_net::fuzz::fuzz_chain),
    ("decompress", narthex_net::fuzz::fuzz_decompress),
    ("glob", narthex_net::fuzz::fuzz_glob),
    ("listen_address", narthex_net::fuzz::fuzz_listen_address),
    ("no_proxy", narthex_net::fuzz::fuzz_no_proxy),
    ("pages", narthex_net::fuzz::fuzz_pages),
    ("request", narthex_net::fuzz::fuzz_request),
    ("url", narthex_net::fuzz::fuzz_url),
    ("web_config", narthex_net::fuzz::fuzz_web_config),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("net", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("net", FUNCTIONS);
}
