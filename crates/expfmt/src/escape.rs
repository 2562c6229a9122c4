//! Names escaped for readers without UTF-8 support.
//!
//! **Invariant:** with every scheme but `AllowUtf8` the result of [`Escaping::name`] is a legacy metric name.

use narthex_model::labels::is_legacy_metric_name;
use std::{borrow::Cow, fmt, fmt::Write as _};

/// Scheme for writing names that are not legacy names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Escaping {
    /// Unchanged, in quotes.
    AllowUtf8,
    /// Each character invalid in a legacy name becomes `_`.
    #[default]
    Underscores,
    /// `.` becomes `_dot_`; `_` and every other character invalid in a legacy name become `__`.
    Dots,
    /// `U__`, then each character invalid in a legacy name as its hexadecimal code point between underscores.
    Values,
}

impl Escaping {
    /// Returns the scheme with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::AllowUtf8, Self::Underscores, Self::Dots, Self::Values];
        all.into_iter().find(|scheme| scheme.as_str() == name)
    }

    /// Returns the name that headers and configuration use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllowUtf8 => "allow-utf-8",
            Self::Underscores => "underscores",
            Self::Dots => "dots",
            Self::Values => "values",
        }
    }

    /// Returns `name`, of a metric or a label, escaped by this scheme; legacy names are unchanged.
    #[must_use]
    pub fn name(self, name: &str) -> Cow<'_, str> {
        if self == Self::AllowUtf8 || name.is_empty() || is_legacy_metric_name(name) {
            return Cow::Borrowed(name);
        }
        let mut escaped = String::with_capacity(name.len() + 8);
        if self == Self::Values {
            escaped.push_str("U__");
        }
        for (at, c) in name.chars().enumerate() {
            let legacy =
                c.is_ascii_alphabetic() || c == '_' || c == ':' || (c.is_ascii_digit() && at > 0);
            match (self, c) {
                (Self::Dots | Self::Values, '_') => escaped.push_str("__"),
                (Self::Dots, '.') => escaped.push_str("_dot_"),
                _ if legacy => escaped.push(c),
                (Self::Dots, _) => escaped.push_str("__"),
                (Self::Values, _) => {
                    // Writing into a string cannot fail.
                    let _ = write!(escaped, "_{:x}_", u32::from(c));
                }
                _ => escaped.push('_'),
            }
        }
        Cow::Owned(escaped)
    }
}

/// Returns the name that [`Escaping::Values`] has made this of; other names are returned unchanged.
#[must_use]
pub fn unescape_name(name: &str) -> String {
    unescaped(name).unwrap_or_else(|| name.to_owned())
}

fn unescaped(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("U__")?;
    let mut out = String::with_capacity(rest.len());
    while let Some((plain, behind)) = rest.split_once('_') {
        out.push_str(plain);
        if let Some(behind) = behind.strip_prefix('_') {
            out.push('_');
            rest = behind;
            continue;
        }
        let (code, behind) = behind.split_once('_')?;
        let is_hexadecimal = code.bytes().all(|byte| byte.is_ascii_hexdigit());
        if code.len() > 5 || !is_hexadecimal {
            return None;
        }
        out.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
        rest = behind;
    }
    out.push_str(rest);
    Some(out)
}

impl fmt::Display for Escaping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_clients_do() {
        // Cases of prometheus/common's TestEscapeName.
        let cases = [
            (
                "no:escaping_required",
                "no:escaping_required",
                "no:escaping_required",
                "no:escaping_required",
            ),
            (
                "mysystem.prod.west.cpu.load",
                "mysystem_prod_west_cpu_load",
                "mysystem_dot_prod_dot_west_dot_cpu_dot_load",
                "U__mysystem_2e_prod_2e_west_2e_cpu_2e_load",
            ),
            (
                "http.status:sum",
                "http_status:sum",
                "http_dot_status:sum",
                "U__http_2e_status:sum",
            ),
            ("花火", "__", "____", "U___82b1__706b_"),
            ("a.b_c", "a_b_c", "a_dot_b__c", "U__a_2e_b__c"),
            ("9lives", "_lives", "__lives", "U___39_lives"),
        ];
        for (name, underscores, dots, values) in cases {
            assert_eq!(Escaping::Underscores.name(name), underscores);
            assert_eq!(Escaping::Dots.name(name), dots);
            assert_eq!(Escaping::Values.name(name), values);
            assert_eq!(Escaping::AllowUtf8.name(name), name);
        }
    }

    #[test]
    fn escaped_names_are_unescaped() {
        for (name, expected) in [
            ("U__a_2e_b", "a.b"),
            ("U__a__b", "a_b"),
            ("U___1F600_", "😀"),
            ("U__a_2e", "U__a_2e"),
            ("U__a_zz_", "U__a_zz_"),
            ("U__a_zz_b", "U__a_zz_b"),
            ("U__a_", "U__a_"),
            ("U___d800_", "U___d800_"),
            ("U___1F6000_", "U___1F6000_"),
            ("job", "job"),
        ] {
            assert_eq!(unescape_name(name), expected, "{name}");
        }
    }

    #[test]
    fn schemes_have_names() {
        for scheme in [
            Escaping::AllowUtf8,
            Escaping::Underscores,
            Escaping::Dots,
            Escaping::Values,
        ] {
            assert_eq!(Escaping::from_name(scheme.as_str()), Some(scheme));
        }
        assert_eq!(Escaping::from_name("none"), None);
    }
}
