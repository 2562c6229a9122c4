//! Recording and alerting rules: the files that hold them, and the templates in them.
//!
//! It reads and checks rule files and expands templates as Prometheus does. It evaluates nothing and sends nothing.
//!
//! Limits: those of `narthex_yaml` on a file and of `narthex_promql` on an expression.

#![forbid(unsafe_code)]

mod alert;
mod decode;
mod error;
mod file;
#[doc(hidden)]
pub mod fuzz;
mod lint;
mod read;
mod template;
mod validate;

pub use alert::{Alert, AlertSink};
pub use error::{Place, Problem, RuleError, RuleFault};
pub use file::{Group, Rule, RuleFile, RuleKind, Texts};
pub use lint::{Duplicate, duplicates};
pub use read::{ParseOptions, load, parse};
pub use template::{Element, ExpandError, Scope, Template, TemplateParseError};
