//! Exponent switches: a column moves to another exponent, or into or out of raw bits.
//!
//! Invariant: `undo(apply(last)) == last`; where the arithmetic would break that, the switch carries the old value.

use crate::bits::{Reader, put_signed, put_varint};
use crate::decimal::{IPOW10, MAX_EXP, RAW, from_int, to_int};
use crate::error::ChunkError;

/// One column's change of exponent, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) position: usize,
    pub(crate) old: u8,
    pub(crate) new: u8,
    /// The old value, when the column restarts from zero instead of being rescaled.
    pub(crate) restart: Option<i64>,
}

impl Switch {
    /// Plans the switch of a column whose last value is `last`; returns it and the base of the next difference.
    pub(crate) fn plan(position: usize, last: i64, old: u8, new: u8) -> (Self, i64) {
        match rescale(last, old, new) {
            Some(base) => (
                Self {
                    position,
                    old,
                    new,
                    restart: None,
                },
                base,
            ),
            None => (
                Self {
                    position,
                    old,
                    new,
                    restart: Some(last),
                },
                0,
            ),
        }
    }

    /// Returns the base of the next difference.
    pub(crate) fn apply(&self, last: i64) -> Option<i64> {
        if self.restart.is_some() {
            Some(0)
        } else {
            rescale(last, self.old, self.new)
        }
    }

    /// Returns the value that [`Switch::apply`] was given.
    pub(crate) fn undo(&self, base: i64) -> Option<i64> {
        match self.restart {
            Some(last) => Some(last),
            None if self.new == RAW => to_int(f64::from_bits(base as u64), self.old),
            None => rescale(base, self.new, self.old),
        }
    }

    /// Appends the switch; `after` is one past the previous switch's position.
    pub(crate) fn encode_into(&self, after: usize, out: &mut Vec<u8>) {
        let gap = (self.position - after) as u64;
        put_varint(out, gap << 1 | u64::from(self.restart.is_some()));
        out.push(self.new << 4 | self.old);
        if let Some(last) = self.restart {
            put_signed(out, last);
        }
    }

    /// Reads a switch of one of `columns` columns.
    pub(crate) fn read(
        r: &mut Reader<'_>,
        after: usize,
        columns: usize,
    ) -> Result<Self, ChunkError> {
        let offset = r.offset();
        let malformed = ChunkError::Malformed {
            what: "exponent switch",
            offset,
        };
        let head = r.count(2 * columns + 1, "exponent switch")?;
        let block_columns = r.byte()?;
        let (new, old) = (block_columns >> 4, block_columns & 15);
        let position = after + (head >> 1);
        if position >= columns || !is_exponent(new) || !is_exponent(old) || new == old {
            return Err(malformed);
        }
        let restart = if head & 1 == 1 {
            Some(r.signed()?)
        } else {
            None
        };
        if old == RAW && restart.is_none() {
            return Err(malformed);
        }
        Ok(Self {
            position,
            old,
            new,
            restart,
        })
    }
}

/// Reports whether `exp` is a valid exponent.
pub(crate) fn is_exponent(exp: u8) -> bool {
    exp <= MAX_EXP || exp == RAW
}

fn rescale(last: i64, old: u8, new: u8) -> Option<i64> {
    if old == RAW {
        return None;
    }
    if new == RAW {
        let value = from_int(last, old);
        return (to_int(value, old) == Some(last)).then_some(value.to_bits() as i64);
    }
    if new > old {
        return last.checked_mul(IPOW10[usize::from(new - old)]);
    }
    let p = IPOW10[usize::from(old - new)];
    (last % p == 0).then_some(last / p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_can_be_undone() {
        let lasts = [
            0,
            1,
            -5,
            1_000_000,
            123_456_789,
            i64::MAX,
            i64::MIN,
            1 << 52,
            -(1 << 60),
        ];
        for last in lasts {
            for old in (0..=MAX_EXP).chain([RAW]) {
                for new in (0..=MAX_EXP).chain([RAW]).filter(|n| *n != old) {
                    let (switch, base) = Switch::plan(3, last, old, new);
                    assert_eq!(switch.apply(last), Some(base));
                    assert_eq!(switch.undo(base), Some(last), "{switch:?}");
                    let mut bytes = vec![];
                    switch.encode_into(1, &mut bytes);
                    assert_eq!(Switch::read(&mut Reader::new(&bytes), 1, 4), Ok(switch));
                    assert!(Switch::read(&mut Reader::new(&bytes), 1, 3).is_err());
                }
            }
        }
    }
}
