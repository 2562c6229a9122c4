//! `eq` and its kin, `index`, `slice` and `len`.
//!
//! **Invariant:** errors and the order in which operands are judged are Go's: an integer and a float do not compare.

use super::{
    format::show,
    value::{Basic, Value},
};

type Result<T> = std::result::Result<T, String>;

/// Reports whether the first value equals one of the others.
pub(super) fn equal(first: &Value, others: &[Value]) -> Result<bool> {
    if others.is_empty() {
        return Err("missing argument for comparison".to_owned());
    }
    for other in others {
        if equals(first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equals(a: &Value, b: &Value) -> Result<bool> {
    Ok(match (a.basic(), b.basic()) {
        (Basic::Int, Basic::Uint) | (Basic::Uint, Basic::Int) => a.whole() == b.whole(),
        (left, right) if left != right => {
            if !matches!(a, Value::Invalid) && !matches!(b, Value::Invalid) {
                return Err(incompatible(a, b));
            }
            false
        }
        (Basic::None, _) => return equals_other(a, b),
        (Basic::Float, _) => float(a) == float(b),
        (Basic::String, _) => a.as_str() == b.as_str(),
        (Basic::Bool, _) => a.is_true() == b.is_true(),
        _ => a.whole() == b.whole(),
    })
}

/// Compares what is neither number nor text: pointers, maps, lists, structs.
fn equals_other(a: &Value, b: &Value) -> Result<bool> {
    let nil = |value: &Value| matches!(value, Value::Invalid | Value::NilSample);
    let kind = |value: &Value| match value {
        Value::Labels(_) | Value::Args(_) => 1,
        Value::Vector(_) => 2,
        Value::Data(_) | Value::Time(_) => 3,
        _ => 4,
    };
    let invalid = matches!(a, Value::Invalid) || matches!(b, Value::Invalid);
    if kind(a) != kind(b) && !invalid {
        let (left, right) = (a.type_name(), b.type_name());
        return Err(format!(
            "non-comparable types {}: {left}, {right}: {}",
            show(a),
            show(b)
        ));
    }
    if nil(a) || nil(b) {
        return Ok(nil(a) && nil(b));
    }
    match b {
        Value::Labels(_) | Value::Args(_) | Value::Vector(_) | Value::Data(_) => Err(format!(
            "non-comparable type {}: {}",
            show(b),
            b.type_name()
        )),
        Value::Time(time) => Ok(a.as_time() == Some(*time)),
        Value::Sample(b) => Ok(matches!(a, Value::Sample(a) if std::sync::Arc::ptr_eq(a, b))),
        Value::Histogram(b) => Ok(matches!(a, Value::Histogram(a) if std::sync::Arc::ptr_eq(a, b))),
        _ => Ok(false),
    }
}

fn incompatible(a: &Value, b: &Value) -> String {
    let (a, b) = (a.type_name(), b.type_name());
    format!("incompatible types for comparison: {a} and {b}")
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// Reports whether `a` is less than `b`.
pub(super) fn less(a: &Value, b: &Value) -> Result<bool> {
    let bad = || Err("invalid type for comparison".to_owned());
    match (a.basic(), b.basic()) {
        (Basic::None, _) | (_, Basic::None) => bad(),
        (Basic::Int | Basic::Uint, Basic::Int | Basic::Uint) => Ok(a.whole() < b.whole()),
        (left, right) if left != right => Err(incompatible(a, b)),
        (Basic::Bool, _) => bad(),
        (Basic::Float, _) => Ok(float(a) < float(b)),
        _ => Ok(a.as_str() < b.as_str()),
    }
}

/// Reports whether `a` is less than or equals `b`.
pub(super) fn less_or_equal(a: &Value, b: &Value) -> Result<bool> {
    Ok(less(a, b)? || equals(a, b)?)
}

/// Returns the length of a text in bytes, or of a list or map.
pub(super) fn length(value: &Value) -> Result<Value> {
    let length = match value {
        Value::NilSample => return Err("len of nil pointer".to_owned()),
        // Go's reflection panics here.
        Value::Invalid => {
            return Err("reflect: call of reflect.Value.Type on zero Value".to_owned());
        }
        Value::String(text) | Value::Html(text) => text.len(),
        Value::Labels(labels) => labels.len(),
        Value::Args(args) => args.len(),
        Value::Vector(samples) => samples.len(),
        other => return Err(format!("len of type {}", followed(other))),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// Returns the name of the type that a pointer leads to.
fn followed(value: &Value) -> &'static str {
    value.type_name().trim_start_matches('*')
}

/// Returns an element of an element … of a value.
pub(super) fn index(item: &Value, indexes: &[Value]) -> Result<Value> {
    if matches!(item, Value::Invalid) {
        return Err("index of untyped nil".to_owned());
    }
    let mut item = item.clone();
    for index in indexes {
        item = match &item {
            Value::Labels(labels) => {
                Value::text(labels.get(key(index)?).map_or("", String::as_str))
            }
            Value::Args(args) => args.get(key(index)?).cloned().unwrap_or(Value::Invalid),
            Value::Vector(samples) => {
                let at = position(index, samples.len())?;
                let found = samples.get(at).cloned();
                found
                    .map(Value::Sample)
                    .ok_or("reflect: slice index out of range")?
            }
            Value::String(text) | Value::Html(text) => {
                let at = position(index, text.len())?;
                let found = text.as_bytes().get(at).copied();
                found
                    .map(Value::Byte)
                    .ok_or("reflect: string index out of range")?
            }
            Value::NilSample | Value::Invalid => return Err("index of nil pointer".to_owned()),
            other => return Err(format!("can't index item of type {}", followed(other))),
        };
    }
    Ok(item)
}

fn key(index: &Value) -> Result<&str> {
    match index {
        Value::String(text) => Ok(text),
        Value::Invalid => Err("value is nil; should be of type string".to_owned()),
        other => Err(format!(
            "value has type {}; should be string",
            other.type_name()
        )),
    }
}

fn position(index: &Value, length: usize) -> Result<usize> {
    let Some(at) = index.whole() else {
        return Err(match index {
            Value::Invalid => "cannot index slice/array with nil".to_owned(),
            other => format!("cannot index slice/array with type {}", other.type_name()),
        });
    };
    let position = usize::try_from(at).ok().filter(|at| *at <= length);
    position.ok_or_else(|| format!("index out of range: {at}"))
}

/// Returns a part of a text or list.
pub(super) fn slice(item: &Value, indexes: &[Value]) -> Result<Value> {
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()));
    }
    let length = match item {
        Value::Invalid => return Err("slice of untyped nil".to_owned()),
        Value::NilSample => return Err("slice of nil pointer".to_owned()),
        Value::String(_) | Value::Html(_) if indexes.len() == 3 => {
            return Err("cannot 3-index slice a string".to_owned());
        }
        Value::String(text) | Value::Html(text) => text.len(),
        Value::Vector(samples) => samples.len(),
        other => return Err(format!("can't slice item of type {}", followed(other))),
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, length)?;
    }
    let [from, to, cap] = bounds;
    if from > to || to > cap {
        let (from, to) = if from > to { (from, to) } else { (to, cap) };
        return Err(format!("invalid slice index: {from} > {to}"));
    }
    Ok(match item {
        Value::Vector(samples) => Value::Vector(samples.get(from..to).unwrap_or_default().into()),
        Value::Html(text) => Value::Html(part(text, from, to).into()),
        other => Value::text(part(other.as_str().unwrap_or_default(), from, to)),
    })
}

/// Cuts bytes out; a character that is cut becomes U+FFFD.
fn part(text: &str, from: usize, to: usize) -> String {
    let bytes = text.as_bytes().get(from..to).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
