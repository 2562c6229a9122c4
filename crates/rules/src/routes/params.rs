//! Parameters of `/api/v1/rules`.
//!
//! **Invariant:** errors are Prometheus'.

use super::Params;
use crate::file::Texts;
use narthex_model::Matcher;
use narthex_promql::fmt::quote;
use std::collections::HashSet;

/// What is listed.
#[derive(Debug, Default)]
pub(super) struct Filter {
    pub(super) rules: HashSet<String>,
    pub(super) groups: HashSet<String>,
    pub(super) files: HashSet<String>,
    matchers: Vec<Vec<Matcher>>,
    pub(super) without_alerting: bool,
    pub(super) without_recording: bool,
    pub(super) exclude_alerts: bool,
    /// Most groups of a page.
    pub(super) group_limit: Option<usize>,
    /// The first group of the page.
    pub(super) first_group: Option<String>,
}

impl Filter {
    /// Reads the parameters.
    ///
    /// # Errors
    /// Fails with the first error, in Prometheus' order.
    pub(super) fn read(params: &Params) -> Result<Self, String> {
        let all = |name: &'static str| {
            let named = params.iter().filter(move |(other, _)| other == name);
            named.map(|(_, value)| value.clone())
        };
        let first = |name: &str| {
            let found = params.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| &**value).unwrap_or_default()
        };
        let mut filter = Self {
            rules: all("rule_name[]").collect(),
            groups: all("rule_group[]").collect(),
            files: all("file[]").collect(),
            ..Self::default()
        };
        for text in all("match[]") {
            filter.matchers.push(matchers(&text)?);
        }
        match &*first("type").to_lowercase() {
            "" => {}
            "alert" => filter.without_recording = true,
            "record" => filter.without_alerting = true,
            other => {
                let message = format!("not supported value {}", quote(other));
                return Err(invalid("type", &message));
            }
        }
        filter.exclude_alerts = flag(&first("exclude_alerts").to_lowercase())?;
        let (limit, token) = (first("group_limit"), first("group_next_token"));
        if limit.is_empty() && !token.is_empty() {
            let message = "group_limit needs to be present in order to paginate over the groups";
            return Err(invalid("group_next_token", message));
        }
        if !limit.is_empty() {
            filter.group_limit = Some(group_limit(limit)?);
            filter.first_group = Some(token.to_owned()).filter(|token| !token.is_empty());
        }
        Ok(filter)
    }

    /// Reports whether the labels of a rule are asked for.
    pub(super) fn selects(&self, labels: &Texts) -> bool {
        let value = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
        self.matchers.is_empty()
            || self.matchers.iter().any(|set| {
                set.iter()
                    .all(|matcher| matcher.matches(value(&matcher.name)))
            })
    }
}

fn matchers(text: &str) -> Result<Vec<Matcher>, String> {
    let matchers = narthex_promql::parse_selector(text).map_err(|error| error.to_string())?;
    if matchers.iter().all(Matcher::matches_empty) {
        return Err("match[] must contain at least one non-empty matcher".to_owned());
    }
    Ok(matchers)
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "" | "0" | "f" | "false" => Ok(false),
        "1" | "t" | "true" => Ok(true),
        other => {
            let other = quote(other);
            let message = format!(
                "error converting exclude_alerts: strconv.ParseBool: parsing {other}: invalid syntax"
            );
            Err(invalid("exclude_alerts", &message))
        }
    }
}

fn group_limit(text: &str) -> Result<usize, String> {
    let fail = |reason: &str| {
        let text = quote(text);
        let message = format!(
            "group_limit needs to be a valid number: strconv.ParseInt: parsing {text}: {reason}"
        );
        invalid("group_limit", &message)
    };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fail("invalid syntax"));
    }
    let limit: i32 = text.parse().map_err(|_| fail("value out of range"))?;
    match usize::try_from(limit) {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => Err(invalid(
            "group_limit",
            "group_limit needs to be greater than 0",
        )),
    }
}

pub(super) fn invalid(name: &str, message: &str) -> String {
    format!("invalid parameter {}: {message}", quote(name))
}
