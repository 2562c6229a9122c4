//! Arithmetic of cells: what a series' cells add up to over several writers.

use crate::family::{GaugeMerge, Shape};

/// Replaces the accepted values of a series by the ones it has now.
///
/// Counts only grow: one that is less than before, or no number, keeps the value it had.
pub(crate) fn accept(shape: &Shape, accepted: &mut [u64], current: impl Iterator<Item = u64>) {
    // What follows the shape's cells is the time of the last update, a whole number that only grows too.
    for (at, (accepted, current)) in accepted.iter_mut().zip(current).enumerate() {
        let keeps = match shape {
            Shape::Counter if at == 0 => {
                let (before, value) = (f64::from_bits(*accepted), f64::from_bits(current));
                !(value > before && value.is_finite())
            }
            Shape::Gauge(_) => false,
            // A sum falls with a negative observation.
            _ if shape.is_float(at) => false,
            _ => current < *accepted,
        };
        if !keeps {
            *accepted = current;
        }
    }
}

/// Time of a gauge that its writer has removed.
const REMOVED: u64 = u64::MAX;

/// Reports whether a series was removed and may be set again.
pub(crate) fn is_removed(shape: &Shape, cells: &[u64]) -> bool {
    shape.is_gauge() && cells.get(1) == Some(&REMOVED)
}

/// Adds the cells of one writer to those of others; `is_first` if there are no others.
pub(crate) fn add(shape: &Shape, sums: &mut [u64], cells: &[u64], is_first: bool) {
    if let Shape::Gauge(merge) = shape {
        if is_first || replaces(*merge, sums, cells) {
            sums.copy_from_slice(cells);
        } else if matches!(merge, GaugeMerge::Sum | GaugeMerge::Each) {
            add_float(&mut sums[0], cells[0]);
        }
        return;
    }
    for (at, (sum, cell)) in sums.iter_mut().zip(cells).enumerate() {
        if at >= shape.cells() {
            *sum = (*sum).max(*cell);
        } else if shape.is_float(at) {
            add_float(sum, *cell);
        } else {
            *sum = sum.saturating_add(*cell);
        }
    }
}

fn replaces(merge: GaugeMerge, held: &[u64], cells: &[u64]) -> bool {
    let [before, value] = [held, cells].map(|cells| f64::from_bits(cells[0]));
    match merge {
        GaugeMerge::Least => value < before || before.is_nan(),
        GaugeMerge::Greatest => value > before || before.is_nan(),
        GaugeMerge::Last => cells[1] > held[1],
        GaugeMerge::Sum | GaugeMerge::Each => false,
    }
}

fn add_float(sum: &mut u64, cell: u64) {
    *sum = (f64::from_bits(*sum) + f64::from_bits(cell)).to_bits();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn counts_never_fall() {
        let mut accepted = bits(&[0.0]);
        for (value, expected) in [
            (2.0, 2.0),
            (1.0, 2.0),
            (f64::NAN, 2.0),
            (f64::INFINITY, 2.0),
            (3.0, 3.0),
        ] {
            accept(&Shape::Counter, &mut accepted, bits(&[value]).into_iter());
            assert_eq!(accepted, bits(&[expected]));
        }
        let shape = Shape::Histogram(Box::new([1.0]));
        let mut accepted = vec![0, 5, 5];
        let current = [(-2.0_f64).to_bits(), 6, 4];
        accept(&shape, &mut accepted, current.into_iter());
        assert_eq!(accepted, [(-2.0_f64).to_bits(), 6, 5]);
    }

    #[test]
    fn writers_are_added_up() {
        let mut sums = bits(&[1.5]);
        add(&Shape::Counter, &mut sums, &bits(&[2.0]), false);
        assert_eq!(sums, bits(&[3.5]));
        let mut sums = vec![u64::MAX];
        add(&Shape::WholeCounter, &mut sums, &[1], false);
        assert_eq!(sums, [u64::MAX]);
        let mut sums = vec![1.0_f64.to_bits(), 1, 2];
        let shape = Shape::Histogram(Box::new([1.0]));
        add(&shape, &mut sums, &[0.5_f64.to_bits(), 3, 4], false);
        assert_eq!(sums, [1.5_f64.to_bits(), 4, 6]);
    }

    #[test]
    fn gauges_merge_as_they_ask() {
        let merged = |merge, cells: &[(f64, u64)]| {
            let mut sums = vec![0, 0];
            for (at, (value, time)) in cells.iter().enumerate() {
                let cells = [value.to_bits(), *time];
                add(&Shape::Gauge(merge), &mut sums, &cells, at == 0);
            }
            f64::from_bits(sums[0])
        };
        let cells = [(-3.0, 20), (-4.0, 10), (-2.0, 15)];
        assert_eq!(merged(GaugeMerge::Sum, &cells), -9.0);
        assert_eq!(merged(GaugeMerge::Least, &cells), -4.0);
        assert_eq!(merged(GaugeMerge::Greatest, &cells), -2.0);
        assert_eq!(merged(GaugeMerge::Last, &cells), -3.0);
        assert_eq!(merged(GaugeMerge::Least, &[(f64::NAN, 0), (1.0, 0)]), 1.0);
    }
}
