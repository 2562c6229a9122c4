//! Tests of `protobuf`.

use narthex_testkit::protobuf::{bytes, double, number, signed};

#[test]
fn fields_have_the_bytes_of_the_specification() {
    let mut out = Vec::new();
    number(&mut out, 1, 150);
    assert_eq!(out, [0x08, 0x96, 0x01]);
    out.clear();
    for value in [0, -1, 1, -2] {
        signed(&mut out, 2, value);
    }
    assert_eq!(out, [0x10, 0, 0x10, 1, 0x10, 2, 0x10, 3]);
    out.clear();
    bytes(&mut out, 2, b"testing");
    assert_eq!(out, b"\x12\x07testing");
    out.clear();
    double(&mut out, 3, 1.0);
    assert_eq!(out, [0x19, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
}
