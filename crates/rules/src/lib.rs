//! Recording and alerting rules: the files that hold them, their templates, and their evaluation.
//!
//! It reads and checks rule files, evaluates groups over any store into any sink, and shows them in the API as
//! Prometheus does; it runs promtool's unit tests of rules. It finds no files and sends nothing: alerts leave through an
//! [`AlertSink`].
//!
//! Limits: those of `narthex_yaml` on a file and of `narthex_promql` on an expression; a group's own on its results.

#![forbid(unsafe_code)]

mod alert;
mod decode;
mod error;
mod eval;
mod file;
#[doc(hidden)]
pub mod fuzz;
mod lint;
mod options;
mod read;
mod routes;
mod template;
mod thresholds;
mod unit;
mod validate;

pub use alert::{Alert, AlertSink};
pub use error::{Place, Problem, RuleError, RuleFault};
pub use eval::{
    EvalOptions, Manager, OfflineAlert, OfflineGroups, RuleSet, first_evaluation, register_metrics,
};
pub use file::{Group, Rule, RuleFile, RuleKind, Texts};
pub use lint::{Duplicate, duplicates};
pub use options::ParseOptions;
pub use read::{load, parse};
pub use routes::{RouteLimits, routes};
pub use template::{Element, ExpandError, Scope, Template, TemplateParseError};
pub use unit::{TestCase, TestFailure, TestFile, TestOptions, TestOutcome};
