//! Tests of `syscalls`.

use super::*;

#[test]
fn a_summary_is_read_with_and_without_errors() {
    let text = "% time     seconds  usecs/call     calls    errors syscall\n\
        ------ ----------- ----------- --------- --------- ----------------\n \
        57.14    0.000004           4        12           read\n \
        28.57    0.000002           2         7         3 openat\n  \
        0.00    0.000000           0         9           nanosleep\n\
        ------ ----------- ----------- --------- --------- ----------------\n\
        100.00    0.000007           2        28         3 total\n";
    let calls = parse(text).unwrap();
    let expected = [("openat".to_owned(), 7), ("read".to_owned(), 12)];
    assert_eq!(calls.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(parse("strace: no\n"), None);
    assert_eq!(parse("------\n 1 2 3 x name\n"), None);
}
