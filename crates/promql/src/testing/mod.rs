//! Runs the `.test` files of Prometheus' query language, unmodified.
//!
//! **Invariant:** a script is judged as by Prometheus' own runner: relative tolerance 1e-6, notes compared with their
//! positions, every instant evaluation repeated at other times with `@` and as a range query.
//!
//! ```text
//! load <step>                       eval instant at <time> <query>      clear
//!   <series> <values>                 expect <what> [msg|regex: <text>]
//!                                     <series> <values>
//! ```

mod compare;
mod histogram;
mod nhcb;
mod number;
mod run;
mod script;
mod series;
mod variants;

pub use run::{Failure, Report, Samples, TestStore, check, load, run};
pub use script::ScriptError;
pub use series::{SeriesValue, parse_series};

use crate::{EngineOptions, ParseOptions, QueryResult, Value};
use std::fmt::Write as _;

/// Returns a result to the bit, in its order, with its notes.
///
/// # Panics
/// Never: a text can be written to.
#[must_use]
pub fn bits(result: &QueryResult) -> String {
    let mut text = format!("{:?} {:?}\n", result.warnings, result.infos);
    let Value::Matrix(all) = &result.value else {
        return format!("{text}{:?}", result.value);
    };
    for series in all {
        text.push_str(&series.labels.to_string());
        for (time_ms, x) in &series.floats {
            write!(text, " {time_ms}:{:x}", x.to_bits()).expect("a text");
        }
        writeln!(text, " {:?}", series.histograms).expect("a text");
    }
    text
}

/// Returns the options that Prometheus uses for its own files.
#[must_use]
pub fn reference_options() -> EngineOptions {
    EngineOptions {
        default_subquery_step_ms: 60_000,
        parse: ParseOptions {
            unquoted_utf8_names: true,
            ..ParseOptions::default()
        },
        delayed_name_removal: true,
        use_start_timestamps: true,
        ..EngineOptions::default()
    }
}
