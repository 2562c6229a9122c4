//! Elementary functions beside Go's: the same bits for random numbers of every kind.

use crate::oracle::Oracle;
use narthex_model::math;
use narthex_testkit::{rng::SplitMix64, scaled};

type OfOne = fn(f64) -> f64;

const OF_ONE: [(&str, OfOne); 18] = [
    ("acos", math::acos),
    ("acosh", math::acosh),
    ("asin", math::asin),
    ("asinh", math::asinh),
    ("atan", math::atan),
    ("atanh", math::atanh),
    ("cos", math::cos),
    ("cosh", math::cosh),
    ("exp", math::exp),
    ("exp2", math::exp2),
    ("ln", math::ln),
    ("log10", math::log10),
    ("log1p", math::ln_1p),
    ("log2", math::log2),
    ("sin", math::sin),
    ("sinh", math::sinh),
    ("tan", math::tan),
    ("tanh", math::tanh),
];

const ODD: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MAX,
    f64::MIN_POSITIVE,
    5e-324,
    -708.4,
];

fn number(rng: &mut SplitMix64) -> f64 {
    let sign = if rng.one_in(2) { 1.0 } else { -1.0 };
    sign * match rng.below(8) {
        0 => f64::from_bits(rng.next_u64()),
        1 => *rng.pick(&ODD),
        2 => rng.below(2_000) as f64,
        3 => rng.unit_f64() * 800.0,
        4 => rng.unit_f64() * 1e12,
        5 => 1.0 + (rng.unit_f64() - 0.5) * 1e-6,
        6 => rng.unit_f64() * f64::from_bits((1023 - rng.below(60)) << 52),
        _ => rng.unit_f64() * 2.0,
    }
}

/// Go's logarithm takes no notice of how small a subnormal number is.
fn is_excepted(function: &str, x: f64) -> bool {
    matches!(function, "ln" | "log10" | "pow") && x.is_subnormal()
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn functions_have_the_bits_of_go() {
    let (mut oracle, mut rng) = (Oracle::start(), SplitMix64::new(0x006d_6174));
    let count = scaled(20_000);
    let mut wrong = Vec::new();
    for (name, function) in OF_ONE {
        let args: Vec<f64> = (0..count).map(|_| number(&mut rng)).collect();
        let theirs = oracle.numbers(name, &args, &[]);
        for (x, expected) in args.into_iter().zip(theirs) {
            let found = function(x);
            if !same(found, expected) && !is_excepted(name, x) {
                wrong.push(format!("{name}({x:e}) = {found:e}, not {expected:e}"));
            }
        }
    }
    for (name, function) in [
        ("pow", math::pow as fn(f64, f64) -> f64),
        ("atan2", math::atan2),
    ] {
        let mut args = || -> Vec<f64> { (0..count * 4).map(|_| number(&mut rng)).collect() };
        let (first, second) = (args(), args());
        let theirs = oracle.numbers(name, &first, &second);
        for ((x, y), expected) in first.into_iter().zip(second).zip(theirs) {
            let found = function(x, y);
            if !same(found, expected) && !is_excepted(name, x) {
                wrong.push(format!(
                    "{name}({x:e}, {y:e}) = {found:e}, not {expected:e}"
                ));
            }
        }
    }
    let shown = wrong
        .iter()
        .take(40)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(wrong.is_empty(), "{} differ:\n{shown}", wrong.len());
}
