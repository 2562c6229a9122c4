//! Gauges that show facts as labels.

use crate::{Desc, Error, Registry};

/// Registers a gauge that is always 1 and has facts as labels, such as `narthex_build_info{version="…"} 1`.
///
/// # Errors
///
/// As [`Registry::register`].
pub fn register_info<const N: usize>(
    registry: &Registry,
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str; N],
    values: [String; N],
) -> Result<(), Error> {
    registry.register_fn(Desc::gauge(name, help, labels), move |samples| {
        samples.push(&values.each_ref().map(String::as_str), 1.0);
    })
}
