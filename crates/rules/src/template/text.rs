//! Functions from texts to texts.
//!
//! **Invariant:** results are those of the Go functions that Prometheus uses.

use narthex_model::{Pattern, pattern};
use narthex_promql::fmt::quote;
use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv6Addr},
};

/// Reports whether a part of a text matches.
pub(super) fn matches(source: &str, text: &str) -> Result<bool, String> {
    let pattern = Pattern::new(source).map_err(|error| error.to_string())?;
    Ok(pattern.is_match(text))
}

/// Replaces all matches; `$1` and `${name}` stand for groups.
pub(super) fn replace_all(source: &str, replacement: &str, text: &str) -> Result<String, String> {
    let pattern = Pattern::new(source)
        .map_err(|error| format!("regexp: Compile({}): {error}", go_raw(source)))?;
    Ok(pattern.replace_all(text, &pattern::Template::parse(replacement)))
}

/// Quotes a pattern as Go's `regexp` does: raw where that is possible.
fn go_raw(text: &str) -> String {
    let raw = text
        .chars()
        .all(|c| c != '`' && (c == '\t' || !c.is_control()));
    if raw {
        format!("`{text}`")
    } else {
        quote(text)
    }
}

/// Makes the first letter of each word upper case and leaves the others.
pub(super) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Whether the word has had its first letter; digits before it do not count.
    let mut raised = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let joins = match c {
            '\'' | '.' | '\u{2019}' => chars.peek().is_some_and(|next| next.is_alphanumeric()),
            ':' => chars.peek().is_some_and(|next| next.is_alphabetic()),
            _ => false,
        };
        if c.is_alphanumeric() || c == '_' {
            if !raised && c.is_alphabetic() {
                out.extend(c.to_uppercase());
                raised = true;
            } else {
                out.push(c);
            }
        } else {
            out.push(c);
            raised = raised && joins;
        }
    }
    out
}

/// Escapes like `template.HTMLEscapeString`.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

/// Escapes like `template.JSEscapeString`.
pub(super) fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match c {
            '\\' | '\'' | '"' => write!(out, "\\{c}"),
            c if c < ' ' || "<>&=".contains(c) => write!(out, "\\u{code:04X}"),
            c if c.is_ascii() || !(c.is_control() || c.is_whitespace()) => out.write_char(c),
            _ => write!(out, "\\u{code:04X}"),
        };
    }
    out
}

/// Splits like `net.SplitHostPort`.
fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let colon = text.rfind(':')?;
    let port = text.get(colon + 1..)?;
    let (host, behind) = match text.strip_prefix('[') {
        Some(inner) => {
            let end = inner.find(']')?;
            (inner.get(..end)?, inner.get(end + 1..)?)
        }
        None => (text.get(..colon)?, text.get(colon..)?),
    };
    let whole = behind.strip_prefix(':') == Some(port);
    let clean = !host.contains(['[', ']']) && !port.contains(['[', ']']);
    let colons = text.starts_with('[') || !host.contains(':');
    (whole && clean && colons).then_some((host, port))
}

pub(super) fn strip_port(text: &str) -> String {
    split_host_port(text)
        .map_or(text, |(host, _)| host)
        .to_owned()
}

/// Cuts the domain off; addresses stay.
pub(super) fn strip_domain(text: &str) -> String {
    let (host, port) = split_host_port(text).unwrap_or((text, ""));
    let is_address = match host.split_once('%') {
        Some((host, zone)) => !zone.is_empty() && host.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<IpAddr>().is_ok(),
    };
    if is_address {
        return text.to_owned();
    }
    let name = host.split('.').next().unwrap_or_default();
    match port {
        "" => name.to_owned(),
        port if name.contains([':', '%']) => format!("[{name}]:{port}"),
        port => format!("{name}:{port}"),
    }
}

/// Returns the path of a URL.
pub(super) fn url_path(url: &str) -> &str {
    let behind = url.split_once("://").map_or(url, |(_, behind)| behind);
    let path = behind.find('/').and_then(|slash| behind.get(slash..));
    path.unwrap_or_default()
        .split(['?', '#'])
        .next()
        .unwrap_or_default()
}
