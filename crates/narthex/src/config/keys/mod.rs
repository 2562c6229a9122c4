//! Every key of a configuration file, as data: name, kind, default, meaning, support.
//!
//! **Invariant:** a key is defined once, here. Checking a file, filling in defaults, printing what is in effect and the
//! reference in docs/config.md all read these tables. Keys are in the order in which Prometheus prints them, one a
//! line: rustfmt would give each six.

mod discovery;
mod files;
mod global;
mod http;
mod remote;
mod scrape;

pub(crate) use global::{FILE_ROOT, SCRAPE_FILE};
pub(crate) use http::HTTP_FILE;
pub(crate) use scrape::SCRAPE;

/// One key of a section.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: KeyKind,
    /// Default as written in YAML; empty for none.
    pub(crate) default: &'static str,
    /// Meaning, in one or more sentences.
    pub(crate) help: &'static str,
    pub(crate) class: Class,
    /// Whether it is printed even when empty.
    pub(crate) always: bool,
}

/// The kind of a key's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyKind {
    Bool,
    /// A whole number, 0 or more.
    Count,
    /// A whole number.
    Number,
    Float,
    Text,
    /// A text that is never printed.
    Secret,
    /// A path, relative to the file that names it.
    Path,
    /// A period such as `15s`.
    Period,
    /// A size such as `15MB`.
    Size,
    /// A URL whose password is never printed.
    Url,
    Texts,
    /// Texts that are printed in one line.
    FlowTexts,
    Paths,
    Secrets,
    /// A map from names to texts.
    Labels,
    /// A map from names to lists of texts.
    Params,
    /// A map from names to lists of texts that are never printed.
    SecretParams,
    Section(&'static Section),
    Sections(&'static Section),
    /// A map from names to sections.
    Named(&'static Section),
    /// Any value; it is not checked.
    Any,
}

/// How far a key is supported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Class {
    /// Fully supported.
    Honoured,
    /// Checked and accepted, but without effect, for this reason.
    NoEffect(&'static str),
    /// Checked and rejected, for this reason.
    Refused(&'static str),
}

/// A mapping with known keys.
#[derive(Debug)]
pub(crate) struct Section {
    /// Name in the reference and in errors.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Keys, in parts that sections may share.
    pub(crate) parts: &'static [&'static [Key]],
}

impl Section {
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }
}

/// Default of a section that exists with its own defaults even when absent or null.
pub(crate) const THERE: &str = "{}";

/// Default of a section that exists when absent, but not when null.
pub(crate) const THERE_UNLESS_NULL: &str = "{} unless null";

/// Reason given for rejecting an unsupported key.
const NOT_HERE: &str = "this version does not have it";

const fn key(name: &'static str, kind: KeyKind, default: &'static str, help: &'static str) -> Key {
    Key {
        name,
        kind,
        default,
        help,
        class: Class::Honoured,
        always: false,
    }
}

const fn section(
    name: &'static str,
    about: &'static str,
    parts: &'static [&'static [Key]],
) -> Section {
    Section { name, about, parts }
}

impl Key {
    const fn always(mut self) -> Self {
        self.always = true;
        self
    }

    const fn refused(mut self, reason: &'static str) -> Self {
        self.class = Class::Refused(reason);
        self
    }

    const fn no_effect(mut self, reason: &'static str) -> Self {
        self.class = Class::NoEffect(reason);
        self
    }
}

/// A relabelling rule.
#[rustfmt::skip]
pub(crate) static RELABEL: Section = section("relabel_config", "A rule that changes labels, or drops the target or series that has them.", &[&[
    key("source_labels", KeyKind::FlowTexts, "", "Labels whose values are joined."),
    key("separator", KeyKind::Text, ";", "Separator between joined values.").always(),
    key("regex", KeyKind::Text, "", "Anchored regular expression matched against the joined values; (.*) if absent."),
    key("modulus", KeyKind::Count, "", "Modulus of hashmod."),
    key("target_label", KeyKind::Text, "", "The label to set."),
    key("replacement", KeyKind::Text, "$1", "New value; $1 and ${name} refer to groups of the regular expression.").always(),
    key("action", KeyKind::Text, "replace", "One of replace, keep, drop, keepequal, dropequal, hashmod, labelmap, labeldrop, labelkeep, lowercase, uppercase."),
]]);
