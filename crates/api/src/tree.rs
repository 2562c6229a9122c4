//! `/format_query` and `/parse_query`: a formatted query, and its tree as JSON.
//!
//! **Invariant:** the tree has the fields and words of Prometheus' tree view, whose page reads it.

use crate::{
    answer::Answer,
    call::run,
    config::{Api, Gate},
    error::ApiError,
    params::Params,
};
use narthex_model::{
    Matcher,
    storage::{OverBudget, StorageError},
};
use narthex_net::axum::extract::Request;
use narthex_promql::{
    ast::{
        At, BinaryExpr, Cardinality, DurationExpr, DurationNode, DurationOp, Expr, Extension,
        NumberLiteral, ValueType, VectorMatching, VectorSelector,
    },
    fmt::float_f,
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn format_query(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    inspected(&api, request, |expr| Value::from(expr.pretty())).await
}

pub(crate) async fn parse_query(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    inspected(&api, request, tree).await
}

async fn inspected(
    api: &Arc<Api>,
    request: Request,
    look: fn(&Expr) -> Value,
) -> Result<Answer, ApiError> {
    let params = Params::read(api, request).await?;
    run(api, Gate::Metadata, api.config.timeout, move |api, ctx| {
        let query = params.get("query");
        // Runs inside `inspect`, which has enough stack for the tree's depth.
        let data = api.engine.inspect(&query, ctx, |expr| {
            let mut parts = 0;
            expr.walk(&mut |node| parts += 1 + matchers(node));
            let lease = ctx
                .budget
                .lease(parts * PART_BYTES + 8 * query.len() as u64)?;
            Ok::<_, OverBudget>((look(expr).to_string().into_bytes(), lease))
        })?;
        let (data, lease) = data.map_err(StorageError::from)?;
        let mut answer = Answer::whole(data);
        answer.holds.add(lease);
        Ok(answer)
    })
    .await
}

/// Most bytes of JSON for a node of the tree, as a value and as text.
const PART_BYTES: u64 = 4 << 10;

fn matchers(expr: &Expr) -> u64 {
    match expr {
        Expr::Vector(e) => e.matchers.len() as u64,
        Expr::Matrix(e) => e.selector.matchers.len() as u64,
        _ => 0,
    }
}

fn tree(expr: &Expr) -> Value {
    match expr {
        Expr::Aggregate(e) => json!({
            "type": "aggregation",
            "op": e.op.as_str(),
            "expr": tree(&e.expr),
            "param": e.param.as_ref().map(tree),
            "grouping": e.grouping,
            "without": e.without,
        }),
        Expr::Binary(e) => binary(e),
        Expr::Call(e) => json!({
            "type": "call",
            "func": {
                "name": e.function.name,
                "argTypes": e.function.args.iter().map(|kind| kind.as_str()).collect::<Vec<_>>(),
                "variadic": e.function.variadic,
                "returnType": ValueType::as_str(e.function.returns),
            },
            "args": e.args.iter().map(tree).collect::<Vec<_>>(),
        }),
        Expr::Matrix(e) => {
            let mut value = selector(&e.selector);
            value["type"] = "matrixSelector".into();
            value["range"] = ms(e.range_ns);
            value["rangeExpr"] = duration(e.range_expr.as_ref());
            value
        }
        Expr::Number(e) => json!({ "type": "numberLiteral", "val": float_f(e.value) }),
        Expr::Paren(e) => json!({ "type": "parenExpr", "expr": tree(&e.expr) }),
        Expr::String(e) => json!({ "type": "stringLiteral", "val": e.text() }),
        Expr::Subquery(e) => json!({
            "type": "subquery",
            "expr": tree(&e.expr),
            "range": ms(e.range_ns),
            "rangeExpr": duration(e.range_expr.as_ref()),
            "offset": ms(e.offset_ns),
            "offsetExpr": duration(e.offset_expr.as_ref()),
            "step": ms(e.step_ns),
            "stepExpr": duration(e.step_expr.as_ref()),
            "timestamp": timestamp(e.at),
            "startOrEnd": start_or_end(e.at),
        }),
        Expr::Unary(e) => json!({
            "type": "unaryExpr",
            "op": if e.negative { "-" } else { "+" },
            "expr": tree(&e.expr),
        }),
        Expr::Vector(e) => selector(e),
    }
}

fn binary(e: &BinaryExpr) -> Value {
    let matching = |m: &VectorMatching| {
        let card = match m.cardinality {
            Cardinality::OneToOne => "one-to-one",
            Cardinality::ManyToOne => "many-to-one",
            Cardinality::OneToMany => "one-to-many",
            Cardinality::ManyToMany => "many-to-many",
        };
        json!({
            "card": card,
            "labels": m.labels,
            "on": m.on,
            "include": m.include,
            "fillValues": { "lhs": m.fill_left, "rhs": m.fill_right },
        })
    };
    json!({
        "type": "binaryExpr",
        "op": e.op.as_str(),
        "lhs": tree(&e.lhs),
        "rhs": tree(&e.rhs),
        "matching": e.matching.as_ref().map(matching),
        "bool": e.return_bool,
    })
}

fn selector(e: &VectorSelector) -> Value {
    json!({
        "type": "vectorSelector",
        "name": e.name,
        "offset": ms(e.offset_ns),
        "offsetExpr": duration(e.offset_expr.as_ref()),
        "matchers": e.matchers.iter().map(matcher).collect::<Vec<_>>(),
        "timestamp": timestamp(e.at),
        "startOrEnd": start_or_end(e.at),
        "anchored": e.extension == Extension::Anchored,
        "smoothed": e.extension == Extension::Smoothed,
    })
}

fn matcher(m: &Matcher) -> Value {
    json!({ "name": &*m.name, "value": &*m.value, "type": m.op.as_str() })
}

fn ms(ns: i64) -> Value {
    Value::from(ns / 1_000_000)
}

fn timestamp(at: Option<At>) -> Value {
    match at {
        Some(At::Time(time_ms)) => Value::from(time_ms),
        _ => Value::Null,
    }
}

fn start_or_end(at: Option<At>) -> Value {
    match at {
        Some(At::Start) => Value::from("start"),
        Some(At::End) => Value::from("end"),
        _ => Value::Null,
    }
}

fn duration(expr: Option<&DurationExpr>) -> Value {
    let Some(expr) = expr else { return Value::Null };
    let op = match expr.op {
        DurationOp::Add => "+",
        DurationOp::Sub => "-",
        DurationOp::Mul => "*",
        DurationOp::Div => "/",
        DurationOp::Mod => "%",
        DurationOp::Pow => "^",
        DurationOp::Step => "step",
        DurationOp::Range => "range",
        DurationOp::MinOf => "min_of",
        DurationOp::MaxOf => "max_of",
    };
    json!({
        "type": "durationExpr",
        "op": op,
        "lhs": operand(expr.lhs.as_ref()),
        "rhs": operand(expr.rhs.as_ref()),
        "wrapped": expr.wrapped,
    })
}

fn operand(node: Option<&DurationNode>) -> Value {
    match node {
        None => Value::Null,
        Some(DurationNode::Number(NumberLiteral {
            value, is_duration, ..
        })) => json!({
            "type": "numberLiteral",
            "val": float_f(*value),
            "duration": is_duration,
        }),
        Some(DurationNode::Expr(expr)) => duration(Some(expr)),
    }
}
