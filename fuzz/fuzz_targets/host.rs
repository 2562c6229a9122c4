//! Fuzzes the function of `narthex_host::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("attributes", narthex_host::fuzz::fuzz_attributes),
    ("conntrack", narthex_host::fuzz::fuzz_conntrack),
    ("cpuinfo", narthex_host::fuzz::fuzz_cpuinfo),
    ("diskstats", narthex_host::fuzz::fuzz_diskstats),
    ("ipvs", narthex_host::fuzz::fuzz_ipvs),
    ("loadavg", narthex_host::fuzz::fuzz_loadavg),
    ("mdstat", narthex_host::fuzz::fuzz_mdstat),
    ("meminfo", narthex_host::fuzz::fuzz_meminfo),
    ("mountinfo", narthex_host::fuzz::fuzz_mountinfo),
    ("netdev", narthex_host::fuzz::fuzz_netdev),
    ("netlink", narthex_host::fuzz::fuzz_netlink),
    ("netstat", narthex_host::fuzz::fuzz_netstat),
    ("nodes", narthex_host::fuzz::fuzz_nodes),
    ("numbers", narthex_host::fuzz::fuzz_numbers),
    ("per_cpu", narthex_host::fuzz::fuzz_per_cpu),
    ("pressure", narthex_host::fuzz::fuzz_pressure),
    ("ranges", narthex_host::fuzz::fuzz_ranges),
    ("settings", narthex_host::fuzz::fuzz_settings),
    ("sockets", narthex_host::fuzz::fuzz_sockets),
    ("sockstat", narthex_host::fuzz::fuzz_sockstat),
    ("stat", narthex_host::fuzz::fuzz_stat),
    ("tables", narthex_host::fuzz::fuzz_tables),
    ("timezone", narthex_host::fuzz::fuzz_timezone),
    ("udev", narthex_host::fuzz::fuzz_udev),
    ("vmstat", narthex_host::fuzz::fuzz_vmstat),
    ("zfs", narthex_host::fuzz::fuzz_zfs),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("host", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("host", FUNCTIONS);
}
