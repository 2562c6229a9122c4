//! `/proc/loadavg`: the three load averages.
//!
//! Invariant: values are the printed decimals, correctly rounded.

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::scan::{decimal, next_field};
use crate::sink::Sink;
use crate::table::Series;

pub(crate) struct Loadavg {
    file: OpenFile,
    series: Series,
}

impl Loadavg {
    pub(crate) fn new(file: OpenFile) -> Self {
        let series = Series::new(include_str!("loadavg.txt"));
        Self { file, series }
    }
}

impl Collector for Loadavg {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let text = self.file.read(ctx.buf, End::Short)?;
        let loads = parse(text).map_err(|source| self.file.malformed(source))?;
        self.series.set(loads, out);
        Ok(())
    }
}

pub(crate) fn parse(mut text: &[u8]) -> Result<[f64; 3], ParseError> {
    let mut loads = [0.0; 3];
    for load in &mut loads {
        *load = next_field(&mut text).and_then(decimal).ok_or(ParseError {
            line: 1,
            expected: "three load averages",
        })?;
    }
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_decimals_or_nothing() {
        assert_eq!(
            parse(b"0.21 10.37 0.39 1/719 19737\n"),
            Ok([0.21, 10.37, 0.39])
        );
        for bad in [&b""[..], b"0.1 0.2", b"0.1 0.2\n", b"a 0.2 0.3", b"-1 0 0"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
