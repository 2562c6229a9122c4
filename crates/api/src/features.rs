//! `/features`: what this server can do, by Prometheus' names.

use crate::config::Api;
use narthex_promql::{ast::AggregateOp, functions::FUNCTIONS, lex::BinaryOp};
use serde_json::{Map, Value};

/// Keywords of the query language.
const KEYWORDS: [&str; 13] = [
    "anchored",
    "bool",
    "by",
    "fill",
    "fill_left",
    "fill_right",
    "group_left",
    "group_right",
    "ignoring",
    "offset",
    "on",
    "smoothed",
    "without",
];

/// Other features of the query language.
const LANGUAGE: [&str; 6] = [
    "at_modifier",
    "duration_expr",
    "negative_offset",
    "per_query_lookback_delta",
    "subqueries",
    "unquoted_utf8_names",
];

/// What every server's API has.
const API: [&str; 10] = [
    "exclude_alerts",
    "label_values_match",
    "openapi_3.1",
    "openapi_3.2",
    "query_stats",
    "query_warnings",
    "search_fuzz_alg_jarowinkler",
    "search_fuzz_alg_subsequence",
    "time_range_labels",
    "time_range_series",
];

pub(crate) fn features(api: &Api) -> Value {
    let mut all = Map::new();
    let mut add = |category: &str, name: &str, is_on: bool| {
        let of = all.entry(category).or_insert_with(|| Map::new().into());
        if let Some(of) = of.as_object_mut() {
            of.insert(name.to_owned(), Value::Bool(is_on));
        }
    };
    let options = api.engine.options();
    for keyword in KEYWORDS {
        let is_fill = keyword.starts_with("fill");
        add("promql", keyword, !is_fill || options.parse.fill_modifiers);
    }
    for name in LANGUAGE {
        add("promql", name, name != "unquoted_utf8_names");
    }
    add("promql", "per_step_stats", api.config.per_step_stats);
    add(
        "promql",
        "delayed_name_removal",
        options.delayed_name_removal,
    );
    add(
        "promql",
        "type_and_unit_labels",
        options.type_and_unit_labels,
    );
    for op in BinaryOp::ALL {
        add("promql_operators", op.as_str(), true);
    }
    for matching in ["=~", "!~", "@"] {
        add("promql_operators", matching, true);
    }
    for op in AggregateOp::ALL {
        let is_on = !op.is_experimental() || options.parse.experimental_functions;
        add("promql_operators", op.as_str(), is_on);
    }
    for function in FUNCTIONS {
        let is_on = !function.experimental || options.parse.experimental_functions;
        add("promql_functions", function.name, is_on);
    }
    for name in API {
        add("api", name, true);
    }
    add("api", "search", api.config.search);
    add("api", "query_cost", api.engine.cost_limits().is_some());
    for (category, name, is_on) in api.status.features() {
        add(category, &name, is_on);
    }
    Value::Object(all)
}
