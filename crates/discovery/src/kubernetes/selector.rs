//! Checks label and field selectors before the API sees them.
//!
//! ```text
//! labels      = requirement *( "," requirement )
//! requirement = [ "!" ] key | key ( "=" | "==" | "!=" | ">" | "<" ) value
//!             | key ( "in" | "notin" ) "(" value *( "," value ) ")"
//! fields      = term *( "," term )          term = path ( "=" | "==" | "!=" ) value
//! ```
//! Invariant: valid selectors are sent unchanged; the API has the last word.

use crate::error::{DiscoveryError, invalid};

/// Rejects selectors that no API would accept.
pub(crate) fn check_selector(label: &str, field: &str) -> Result<(), DiscoveryError> {
    check_fields(field)?;
    check_labels(label).map_err(|reason| {
        invalid(format!(
            "unable to parse label selector {label:?}: {reason}"
        ))
    })
}

fn check_fields(text: &str) -> Result<(), DiscoveryError> {
    let mut term = String::new();
    let mut escaped = false;
    let mut terms = Vec::new();
    for letter in text.chars() {
        if !escaped && letter == ',' {
            terms.push(std::mem::take(&mut term));
            continue;
        }
        escaped = !escaped && letter == '\\';
        term.push(letter);
    }
    terms.push(term);
    for term in terms.iter().filter(|term| !term.is_empty()) {
        if !term.contains('=') {
            return Err(invalid(format!(
                "invalid selector: '{text}'; can't understand '{term}'"
            )));
        }
    }
    Ok(())
}

pub(crate) fn check_labels(text: &str) -> Result<(), String> {
    let mut rest = text.trim_start();
    if rest.is_empty() {
        return Ok(());
    }
    loop {
        rest = requirement(rest)?.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() => return Ok(()),
            None => return Err(format!("found {rest:?}, expected: ',' or end")),
        }
    }
}

/// Parses one requirement; returns the rest of the text.
fn requirement(text: &str) -> Result<&str, String> {
    let negated = text.strip_prefix('!');
    let (key, rest) = word(negated.unwrap_or(text).trim_start());
    check_key(key)?;
    let rest = rest.trim_start();
    if negated.is_some() || rest.is_empty() || rest.starts_with(',') {
        return Ok(rest);
    }
    for operator in ["==", "!=", "=", ">", "<"] {
        if let Some(after) = rest.strip_prefix(operator) {
            let (value, rest) = word(after.trim_start());
            if matches!(operator, ">" | "<") {
                value.parse::<i64>().map_err(|_invalid| {
                    format!("{value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
                })?;
            }
            check_value(value)?;
            return Ok(rest);
        }
    }
    let (operator, rest) = word(rest);
    if !matches!(operator, "in" | "notin") {
        return Err(format!(
            "found {operator:?}, expected: in, notin, =, ==, !=, gt, lt"
        ));
    }
    let list = rest.trim_start().strip_prefix('(');
    let (list, rest) = list
        .and_then(|list| list.split_once(')'))
        .ok_or_else(|| "expected a list between '(' and ')'".to_owned())?;
    for value in list.split(',') {
        check_value(value.trim())?;
    }
    Ok(rest)
}

fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || "=!<>,()".contains(c));
    text.split_at(end.unwrap_or(text.len()))
}

/// `[prefix/]name`
fn check_key(key: &str) -> Result<(), String> {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
            if prefix.is_empty() || prefix.len() > 253 || !prefix.bytes().all(plain) {
                return Err(format!("{key:?}: prefix part must be a DNS subdomain"));
            }
            name
        }
        None => key,
    };
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    check_value(name)
}

fn check_value(value: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let ends = [value.bytes().next(), value.bytes().last()];
    let good = value.len() <= 63
        && value.bytes().all(plain)
        && ends.iter().flatten().all(u8::is_ascii_alphanumeric);
    if good {
        return Ok(());
    }
    Err(format!(
        "{value:?}: must be at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends"
    ))
}
