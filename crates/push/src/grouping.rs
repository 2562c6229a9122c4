//! Grouping keys: the labels in a push's path.
//!
//! ```text
//! PATH := ("job" | "job@base64") "/" VALUE ( "/" NAME ["@base64"] "/" VALUE )*
//! ```
//!
//! **Invariant:** labels are sorted by name, each name occurs once, `job` is among them and not empty; two paths with
//! the same labels name the same group, whatever their order.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use narthex_expfmt::{Escaping, unescape_name};
use narthex_model::{
    LabelSet,
    labels::{is_legacy_name, write_quoted},
};

/// Suffix of names whose value is in base64.
const BASE64: &str = "@base64";

/// Labels that name a group.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Grouping(Vec<(String, String)>);

impl Grouping {
    /// Parses the percent-decoded path after `/metrics/`; `None` if it is not a group's path.
    ///
    /// With `utf8` a name in the form `U__…` is unescaped and may be any text.
    ///
    /// # Errors
    /// Returns the Pushgateway's message.
    pub fn from_path(path: &str, utf8: bool) -> Option<Result<Self, String>> {
        let (first, rest) = path.split_once('/')?;
        let is_base64 = match first {
            "job" => false,
            "job@base64" => true,
            _ => return None,
        };
        let (job, labels) = match rest.split_once('/') {
            Some((job, labels)) => (job, labels),
            None => (rest, ""),
        };
        if job.is_empty() {
            return None;
        }
        Some(Self::read(is_base64, job, labels, utf8))
    }

    fn read(is_base64: bool, job: &str, labels: &str, utf8: bool) -> Result<Self, String> {
        let job = match decode(is_base64, job) {
            Ok(job) => job,
            Err((partial, error)) => {
                let partial = quoted(&partial);
                return Err(format!(
                    "invalid base64 encoding in job name {partial}: {error}"
                ));
            }
        };
        let mut pairs = split(labels, utf8)?;
        if job.is_empty() {
            return Err("job name is required".to_owned());
        }
        pairs.push(("job".to_owned(), job));
        // Every series gets an `instance`, empty if the group has none, so an empty one adds nothing.
        pairs.retain(|(name, value)| name != "instance" || !value.is_empty());
        Ok(Self::new(pairs))
    }

    /// Returns a grouping of labels in any order; of equal names the last wins.
    #[must_use]
    pub fn new(mut pairs: Vec<(String, String)>) -> Self {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|next, kept| next.0 == kept.0);
        pairs.reverse();
        Self(pairs)
    }

    /// Returns the path of the group below a gateway's address, without a slash before it. Values that are more than
    /// letters, digits and `-._~` are in base64, which every gateway reads in the same way.
    ///
    /// `utf8` says that the gateway takes label names of any text. Such a gateway unescapes names, so that those that
    /// look escaped must be; any other one reads them as they are.
    #[must_use]
    pub fn path(&self, utf8: bool) -> String {
        let mut path = "metrics".to_owned();
        let job = self.0.iter().filter(|(name, _)| name == "job");
        let others = self.0.iter().filter(|(name, _)| name != "job");
        for (name, value) in job.chain(others) {
            path.push('/');
            let escaped = Escaping::Values.name(name);
            let is_ambiguous = name.starts_with("U__") || name.starts_with("__");
            if utf8 && is_ambiguous && escaped == *name {
                path.push_str("U__");
                path.push_str(&name.replace('_', "__"));
            } else {
                path.push_str(&escaped);
            }
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            let is_dots = matches!(value.as_str(), "." | "..");
            if !value.is_empty() && value.bytes().all(is_plain) && !is_dots {
                path.push('/');
                path.push_str(value);
            } else {
                path.push_str(BASE64);
                path.push('/');
                path.push_str(&to_base64(value));
            }
        }
        path
    }

    /// Returns the labels, sorted by name.
    #[must_use]
    pub fn labels(&self) -> &[(String, String)] {
        &self.0
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self
            .0
            .binary_search_by(|(other, _)| other.as_str().cmp(name));
        at.ok().map(|at| self.0[at].1.as_str())
    }

    /// Returns the labels that every series of the group carries, without empty ones.
    pub(crate) fn common(&self) -> LabelSet {
        LabelSet::new(
            self.0
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        )
    }
}

fn split(labels: &str, utf8: bool) -> Result<Vec<(String, String)>, String> {
    if labels.is_empty() {
        return Ok(Vec::new());
    }
    let components: Vec<&str> = labels.split('/').collect();
    if !components.len().is_multiple_of(2) {
        let shown = quoted(&format!("/{labels}"));
        return Err(format!("odd number of components in label string {shown}"));
    }
    let mut pairs = Vec::with_capacity(components.len() / 2 + 1);
    for pair in components.chunks_exact(2) {
        let &[written, value] = pair else { continue };
        let trimmed = written.strip_suffix(BASE64).unwrap_or(written);
        let name = if utf8 {
            unescape_name(trimmed)
        } else {
            trimmed.to_owned()
        };
        let is_valid = if utf8 {
            !name.is_empty()
        } else {
            is_legacy_name(&name)
        };
        if !is_valid || trimmed.starts_with("__") {
            return Err(format!("improper label name {}", quoted(trimmed)));
        }
        let value = decode(written.len() > trimmed.len(), value).map_err(|(_, error)| {
            let value = quoted(value);
            format!("invalid base64 encoding for label {trimmed}={value}: {error}")
        })?;
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// Decodes a value; an error comes with the part decoded before it.
fn decode(is_base64: bool, text: &str) -> Result<String, (String, String)> {
    if !is_base64 {
        return Ok(text.to_owned());
    }
    let (bytes, error) = from_base64(text.trim_end_matches('='));
    match (String::from_utf8(bytes), error) {
        (Ok(text), None) => Ok(text),
        (Ok(text), Some(at)) => Err((text, format!("illegal base64 data at input byte {at}"))),
        (Err(error), _) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Err((text, "not UTF-8".to_owned()))
        }
    }
}

/// Encodes text in URL-safe base64 without padding; an empty one is `=`, because a path has no empty elements.
fn to_base64(text: &str) -> String {
    if text.is_empty() {
        return "=".to_owned();
    }
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

/// Decodes URL-safe base64 without padding like Go; returns the position of the first error as well.
fn from_base64(text: &str) -> (Vec<u8>, Option<usize>) {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut held, mut start) = (0u32, 0u32, 0);
    for (at, byte) in text.bytes().enumerate() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            b'\r' | b'\n' => continue,
            _ => return (out, Some(at)),
        };
        if held == 0 {
            start = at;
        }
        bits = bits << 6 | u32::from(six);
        held += 1;
        if held == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, held) = (0, 0);
        }
    }
    match held {
        1 => return (out, Some(start)),
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&(bits >> 2).to_be_bytes()[2..]),
        _ => {}
    }
    (out, None)
}

/// Quotes a text like Go's `%q`.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write_quoted(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, utf8: bool) -> String {
        match Grouping::from_path(path, utf8) {
            None => "none".to_owned(),
            Some(Err(error)) => error,
            Some(Ok(grouping)) => {
                let pairs = grouping
                    .labels()
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"));
                pairs.collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn paths_are_read_as_the_pushgateway_reads_them() {
        for (path, expected) in [
            ("job/a", "job=a"),
            ("job/a/", "job=a"),
            ("job/a/z/1/b/2", "b=2 job=a z=1"),
            ("job/a/b/1/b/2", "b=2 job=a"),
            ("job/a/job/b", "job=a"),
            ("job/a/instance@base64/=", "job=a"),
            ("job/a/instance/", "job=a"),
            ("job/a/b@base64/=", "b= job=a"),
            ("job/a/b@base64/L3Zhci90bXA", "b=/var/tmp job=a"),
            ("job/a/b@base64/L3Zhci90bXA=", "b=/var/tmp job=a"),
            ("job@base64/w7xiZXI", "job=über"),
            ("job@base64/=", "job name is required"),
            (
                "job@base64/YWJj*",
                "invalid base64 encoding in job name \"abc\": illegal base64 data at input byte 4",
            ),
            (
                "job@base64/YWJjY",
                "invalid base64 encoding in job name \"abc\": illegal base64 data at input byte 4",
            ),
            (
                "job/a/b@base64/?",
                "invalid base64 encoding for label b=\"?\": illegal base64 data at input byte 0",
            ),
            ("job/a/b", "odd number of components in label string \"/b\""),
            (
                "job/a/b/1/c",
                "odd number of components in label string \"/b/1/c\"",
            ),
            ("job/a/1b/1", "improper label name \"1b\""),
            ("job/a/__b/1", "improper label name \"__b\""),
            ("job/a/b.c/1", "improper label name \"b.c\""),
            ("job/a/U__b_2e_c/1", "U__b_2e_c=1 job=a"),
            ("job/", "none"),
            ("jobs/a", "none"),
            ("job", "none"),
        ] {
            assert_eq!(shown(path, false), expected, "{path}");
        }
    }

    #[test]
    fn paths_that_are_made_name_the_same_group() {
        for (pairs, expected) in [
            (&[("job", "a")][..], "metrics/job/a"),
            (
                &[("job", "a/b"), ("zone", ""), ("a", "x y")],
                "metrics/job@base64/YS9i/a@base64/eCB5/zone@base64/=",
            ),
            (
                &[("job", ".."), ("b", "über")],
                "metrics/job@base64/Li4/b@base64/w7xiZXI",
            ),
            (&[("job", "a"), ("b.c", "1")], "metrics/job/a/U__b_2e_c/1"),
        ] {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let grouping = Grouping::new(pairs.iter().map(owned).collect());
            assert_eq!(grouping.path(true), expected);
            let path = expected.strip_prefix("metrics/").unwrap();
            assert_eq!(Grouping::from_path(path, true), Some(Ok(grouping)));
        }
    }

    #[test]
    fn names_that_look_escaped_depend_on_the_gateway() {
        let owned =
            |name: &str| [(name, "1"), ("job", "a")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        for (name, utf8, expected) in [
            ("U__b_2e_c", false, "job/a/U__b_2e_c/1"),
            ("U__b_2e_c", true, "job/a/U__U____b__2e__c/1"),
            ("U__b_zz_", true, "job/a/U__U____b__zz__/1"),
            ("__b", true, "job/a/U______b/1"),
        ] {
            let grouping = Grouping::new(owned(name).to_vec());
            assert_eq!(grouping.path(utf8), format!("metrics/{expected}"));
            assert_eq!(Grouping::from_path(expected, utf8), Some(Ok(grouping)));
        }
    }

    #[test]
    fn names_are_unescaped_where_they_may_be_any_text() {
        assert_eq!(shown("job/a/U__b_2e_c/1", true), "b.c=1 job=a");
        assert_eq!(shown("job/a/b.c/1", true), "b.c=1 job=a");
    }
}
