//! A rule: severity, condition, what is said about it, and what helps.
//!
//! ```text
//! file  = field+
//! field = ("severity" | "when" | "says" | "help") ":" text, continued by lines that begin with blanks
//! ```
//!
//! Texts have places: `{value}` for the expression's value, `{percent}` for it as a percentage, `{NAME}` for a label.

use narthex_host::Severity;

pub(super) struct Rule {
    pub(super) severity: Severity,
    /// A PromQL expression that yields a series for each finding.
    pub(super) when: String,
    pub(super) says: String,
    pub(super) help: String,
}

impl Rule {
    /// # Errors
    /// Fails on an unknown or missing field.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut fields: Vec<(&str, String)> = Vec::new();
        for line in text.lines() {
            if line.starts_with(' ') {
                let (_, last) = fields.last_mut().ok_or("it begins with a continued line")?;
                *last = format!("{last} {}", line.trim());
                continue;
            }
            let (name, value) = line
                .split_once(": ")
                .ok_or_else(|| format!("no field: {line}"))?;
            fields.push((name, value.to_owned()));
        }
        let mut take = |wanted: &str| {
            let at = fields.iter().position(|(name, _)| *name == wanted);
            let at = at.ok_or_else(|| format!("no field {wanted}"))?;
            Ok::<_, String>(fields.swap_remove(at).1)
        };
        let severity = match take("severity")?.as_str() {
            "notice" => Severity::Notice,
            "warning" => Severity::Warning,
            "critical" => Severity::Critical,
            other => return Err(format!("unknown severity {other}")),
        };
        let rule = Self {
            severity,
            when: take("when")?,
            says: take("says")?,
            help: take("help")?,
        };
        match fields.first() {
            Some((name, _)) => Err(format!("unknown or repeated field {name}")),
            None => Ok(rule),
        }
    }
}

/// Fills a text's places.
pub(super) fn filled(text: &str, value: f64, label: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (place, after) = after.split_once('}').unwrap_or((after, ""));
        out.push_str(before);
        match place {
            "value" => out.push_str(&number(value)),
            "percent" => out.push_str(&format!("{} %", number(value * 100.0))),
            name => out.push_str(&label(name)),
        }
        rest = after;
    }
    out + rest
}

/// Writes whole numbers with commas, smaller ones with two significant digits.
fn number(value: f64) -> String {
    let size = value.abs();
    if size < 1.0 {
        return format!("{value:.2}");
    }
    if size < 10.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{size:.0}");
    let mut out = String::new();
    if value < 0.0 {
        out.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_continue_and_none_is_missing_or_unknown() {
        let text = "severity: notice\nwhen: a\n  > 1\nsays: b\nhelp: c\n";
        let rule = Rule::parse(text).unwrap();
        assert_eq!(
            (rule.severity, rule.when.as_str()),
            (Severity::Notice, "a > 1")
        );
        for (text, reason) in [
            ("severity: odd\n", "unknown severity odd"),
            ("severity: notice\nsays: b\nhelp: c\n", "no field when"),
            (" a\n", "it begins with a continued line"),
            ("a\n", "no field: a"),
        ] {
            assert_eq!(Rule::parse(text).err().as_deref(), Some(reason));
        }
        let twice = format!("{text}says: d\n");
        let error = Rule::parse(&twice).err();
        assert_eq!(error.as_deref(), Some("unknown or repeated field says"));
    }

    #[test]
    fn places_are_filled() {
        let label = |name: &str| format!("<{name}>");
        let text = "{value} of {device}, {percent}: {";
        assert_eq!(filled(text, 0.314, label), "0.31 of <device>, 31 %: <>");
        let shown = [0.0, 0.25, 2.0, 2.25, 95.4, 24_000.0, -1_234_567.0].map(number);
        assert_eq!(
            shown,
            ["0.00", "0.25", "2", "2.2", "95", "24,000", "-1,234,567"]
        );
    }
}
