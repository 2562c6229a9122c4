//! Tests of the parsers on captured lines.

use super::*;

const UNITS: Units = Units {
    page_bytes: 4096.0,
    ticks_per_second: 100.0,
    boot_time_seconds: Some(1_700_000_000.0),
};

#[test]
fn reads_stat_whatever_the_process_is_called() {
    let line = "1234 (a) b (c) S 1 1234 1234 0 -1 4194560 6000 0 0 0 150 50 3 4 20 0 8 0 12345 104857600 2560 \
                18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";
    let stat = Stat::parse(line, UNITS).unwrap();
    assert_eq!(stat.cpu_seconds, 2.0);
    assert_eq!(stat.start_seconds, Some(1_700_000_123.45));
    assert_eq!(stat.virtual_bytes, 104_857_600.0);
    assert_eq!(stat.resident_bytes, 10_485_760.0);
    assert_eq!(Stat::parse(&line[..60], UNITS), None);
    assert_eq!(Stat::parse("", UNITS), None);
}

#[test]
fn reads_soft_limits() {
    let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                Max open files            1024                 1048576              files     \n\
                Max address space         unlimited            unlimited            bytes     \n";
    assert_eq!(limit(text, "Max open files"), Some(1024.0));
    assert_eq!(
        limit(text, "Max address space"),
        Some(18_446_744_073_709_551_615.0)
    );
    assert_eq!(limit(text, "Max nothing"), None);
}

#[test]
fn reads_the_auxiliary_vector_and_the_boot_time() {
    let bytes: Vec<u8> = [17_usize, 100, 6, 16384, 0, 0]
        .into_iter()
        .flat_map(usize::to_ne_bytes)
        .collect();
    assert_eq!(auxiliary_value(&bytes, AUX_PAGE_SIZE), Some(16384));
    assert_eq!(auxiliary_value(&bytes, AUX_CLOCK_TICKS), Some(100));
    assert_eq!(auxiliary_value(&bytes[..24], AUX_PAGE_SIZE), None);
    assert_eq!(
        boot_time_seconds(b"cpu 1 2\nbtime 1700000000\nctxt 5\n"),
        Some(1.7e9)
    );
}
