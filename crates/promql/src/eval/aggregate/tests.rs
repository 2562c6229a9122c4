//! Tests of the accumulators.

use super::*;
use narthex_testkit::rng::SplitMix64;

#[test]
fn rows_are_summed_as_single_values_are() {
    let mut rng = SplitMix64::new(3);
    let odd = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e308,
        -1e308,
        5e-324,
        1.0,
    ];
    let (mut sums, mut lost) = (vec![-0.0; 64], vec![0.0; 64]);
    let mut expected = vec![(-0.0, 0.0); 64];
    for round in 0..200 {
        let value = |rng: &mut SplitMix64| match rng.below(40) {
            0 if round > 100 => *rng.pick(&odd),
            n => (rng.unit_f64() - 0.5) * 10f64.powi(i32::try_from(n).unwrap() - 20),
        };
        let row: Vec<f64> = (0..64).map(|_| value(&mut rng)).collect();
        add_row(&mut sums, &mut lost, &row);
        for ((sum, lost), x) in expected.iter_mut().zip(&row) {
            (*sum, *lost) = kahan_add(*x, *sum, *lost);
        }
    }
    let bits = |x: f64| {
        if x.is_nan() {
            cell::NAN.to_bits()
        } else {
            x.to_bits()
        }
    };
    for (at, (sum, compensation)) in expected.iter().enumerate() {
        assert_eq!(bits(sums[at]), bits(*sum));
        assert_eq!(bits(lost[at]), bits(*compensation), "{sum}");
    }
}
