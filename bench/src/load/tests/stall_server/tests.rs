//! Tests of `stall_server`.

use super::*;

#[test]
fn a_stall_is_the_end_of_a_period() {
    let ms = Duration::from_millis;
    let stalls = Stalls {
        every: ms(5000),
        length: ms(1000),
    };
    for (since, left) in [
        (0, 0),
        (3999, 0),
        (4000, 1000),
        (4999, 1),
        (5000, 0),
        (9500, 500),
    ] {
        assert_eq!(stalls.left(ms(since)), ms(left), "after {since} ms");
    }
    let never = Stalls {
        every: ms(10),
        length: ms(0),
    };
    assert_eq!(never.left(ms(5)), ms(0));
}
