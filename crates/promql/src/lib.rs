//! PromQL: parser, plan and evaluation over the storage traits.
//!
//! ```text
//! text -> lex -> parse -> ast -> plan (explain) -> eval -> QueryResult
//! ```
//!
//! It implements the whole query language of Prometheus 3.16, native histograms included, over any
//! [`narthex_model::storage::Store`]. It is not a server, a store, or a clock, and does no I/O of its own.
//!
//! Limits: queries are at most [`ast::MAX_DEPTH`] levels deep and have at most [`parse::MAX_NODES`] nodes; a query's
//! memory is bounded by [`EngineOptions::max_samples`] and by its context's budget.
//!
//! ```
//! use narthex_model::{MemStore, storage::Context};
//! use narthex_promql::{Engine, EngineOptions};
//!
//! let engine = Engine::new(EngineOptions::default());
//! let result = engine.instant(&MemStore::new(), "vector(1) + 1", 0, &Context::unlimited());
//! assert_eq!(result.unwrap().value.type_name(), "vector");
//! ```

#![forbid(unsafe_code)]

pub mod ast;
mod cost;
pub mod date;
mod engine;
mod error;
mod eval;
pub mod fmt;
pub mod functions;
#[doc(hidden)]
pub mod fuzz;
mod kept_groups;
mod kept_steps;
pub mod lex;
mod math;
mod notes;
mod observe;
pub mod parse;
mod plan;
mod result;
mod sampling;
mod span;
mod stack;
pub mod testing;
mod trace;

pub use cost::{CostEstimate, CostLimits, ReadLimits};
pub use engine::{Engine, EngineOptions, InstantQuery};
pub use error::{ErrorKind, QueryError};
pub use kept_steps::KeptSteps;
pub use observe::{Observation, Observer, Query};
pub use parse::{
    ParseError, ParseOptions, parse, parse_metric, parse_selector, parse_selector_within,
    parse_with,
};
pub use result::{
    MatrixSeries, QueryResult, QueryStats, ResultMemory, SampleValue, StepSamples, Value,
    VectorSample,
};
pub use span::{Position, Span};
pub use trace::{Phase, Trace, TraceNode};
