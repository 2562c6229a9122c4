//! Label sets as types: what `#[derive(Labels)]` and `#[derive(LabelValue)]` implement.
//!
//! **Invariant:** a label set always has the values that its type names, in their order.

use std::borrow::Cow;
use std::str;
use std::sync::Arc;

use crate::number;

/// A struct whose fields are labels; `#[derive(Labels)]` implements it (feature `derive`).
///
/// Fields may borrow: a look-up in a family of `Request<'static>` takes any `Request<'_>`.
pub trait Labels {
    /// This type with every lifetime `'static`.
    type Static: Labels;

    /// Names of the labels, in the order of their values.
    const NAMES: &'static [&'static str];

    /// How many label sets there are, if the values of all labels can be counted, else 0.
    const COMBINATIONS: usize;

    /// Returns the number of this label set, below [`Labels::COMBINATIONS`] unless that is 0.
    fn index(&self) -> usize;

    /// Calls `f` with the label values.
    fn with_values<R>(&self, f: impl FnOnce(&[&str]) -> R) -> R;
}

/// A label's value: text, a whole number, a `bool`, or an enum with `#[derive(LabelValue)]` (feature `derive`).
pub trait LabelValue {
    /// How many values there are, if they can be counted, else 0.
    const VALUES: usize = 0;

    /// Returns the number of this value, below [`LabelValue::VALUES`] unless that is 0.
    fn index(&self) -> usize {
        0
    }

    /// Returns the value's text, written into the buffer if it is not at hand.
    fn text<'a>(&'a self, digits: &'a mut DigitBuffer) -> &'a str;
}

/// Room for the digits of a number.
#[derive(Clone, Copy, Debug)]
pub struct DigitBuffer {
    digits: [u8; 20],
}

impl DigitBuffer {
    /// Creates an empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { digits: [0; 20] }
    }

    fn write(&mut self, is_negative: bool, magnitude: u64) -> &str {
        let start = self.digits.len() - number::digits(magnitude, &mut self.digits).len();
        let start = start - usize::from(is_negative);
        if is_negative {
            // A negative number of 64 bits has at most 19 digits.
            self.digits[start] = b'-';
        }
        str::from_utf8(&self.digits[start..]).expect("digits are ASCII")
    }
}

impl Default for DigitBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the product of the numbers of values, 0 if it is too large.
#[doc(hidden)]
#[must_use]
pub const fn combinations(values: &[usize]) -> usize {
    let mut product = 1_usize;
    let mut i = 0;
    while i < values.len() {
        product = match product.checked_mul(values[i]) {
            Some(product) => product,
            None => return 0,
        };
        i += 1;
    }
    product
}

impl LabelValue for str {
    #[inline]
    fn text<'a>(&'a self, _: &'a mut DigitBuffer) -> &'a str {
        self
    }
}

impl<T: LabelValue + ?Sized> LabelValue for &T {
    const VALUES: usize = T::VALUES;

    #[inline]
    fn index(&self) -> usize {
        T::index(self)
    }

    #[inline]
    fn text<'a>(&'a self, digits: &'a mut DigitBuffer) -> &'a str {
        T::text(self, digits)
    }
}

macro_rules! texts {
    ($($type:ty),*) => {$(
        impl LabelValue for $type {
            #[inline]
            fn text<'a>(&'a self, _: &'a mut DigitBuffer) -> &'a str {
                self
            }
        }
    )*};
}

texts!(String, Cow<'_, str>, Arc<str>, Box<str>);

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl LabelValue for $type {
            #[inline]
            #[allow(unused_comparisons, clippy::cast_lossless, reason = "one body for every width")]
            fn text<'a>(&'a self, digits: &'a mut DigitBuffer) -> &'a str {
                let magnitude = (*self as i128).unsigned_abs() as u64;
                digits.write(*self < 0, magnitude)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl LabelValue for bool {
    const VALUES: usize = 2;

    #[inline]
    fn index(&self) -> usize {
        usize::from(*self)
    }

    #[inline]
    fn text<'a>(&'a self, _: &'a mut DigitBuffer) -> &'a str {
        if *self { "true" } else { "false" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &(impl LabelValue + ?Sized)) -> String {
        value.text(&mut DigitBuffer::new()).to_owned()
    }

    #[test]
    fn values_have_the_text_that_display_gives() {
        assert_eq!(text(&200_u16), "200");
        assert_eq!(text(&u64::MAX), u64::MAX.to_string());
        assert_eq!(text(&i64::MIN), i64::MIN.to_string());
        assert_eq!([text(&-1_i8), text(&0_usize)], ["-1", "0"]);
        assert_eq!([text("é"), text(&"x".to_owned())], ["é", "x"]);
        assert_eq!([text(&true), text(&&false)], ["true", "false"]);
        assert_eq!((bool::VALUES, true.index(), <&bool>::VALUES), (2, 1, 2));
    }

    #[test]
    fn combinations_that_cannot_be_counted_are_0() {
        assert_eq!(combinations(&[]), 1);
        assert_eq!(combinations(&[3, 5]), 15);
        assert_eq!(combinations(&[3, 0]), 0);
        assert_eq!(combinations(&[usize::MAX, 2]), 0);
    }
}
