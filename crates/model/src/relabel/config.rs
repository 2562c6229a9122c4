//! The configuration of a relabelling rule, with Prometheus' checks.

use crate::{Pattern, PatternError, labels::NameScheme};
use std::{error::Error, fmt, str::FromStr, sync::LazyLock};

crate::named! {
    /// The action of a rule.
    #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
    pub enum Action {
        /// Sets a label to a replacement if the source matches.
        Replace = "replace",
        /// Drops the target unless the source matches.
        Keep = "keep",
        /// Drops the target if the source matches.
        Drop = "drop",
        /// Drops the target unless the source equals the target label.
        KeepEqual = "keepequal",
        /// Drops the target if the source equals the target label.
        DropEqual = "dropequal",
        /// Sets a label to the source's hash modulo a number.
        HashMod = "hashmod",
        /// Copies labels to names derived from theirs.
        LabelMap = "labelmap",
        /// Removes labels whose name matches.
        LabelDrop = "labeldrop",
        /// Removes labels whose name does not match.
        LabelKeep = "labelkeep",
        /// Sets a label to the source in lower case.
        Lowercase = "lowercase",
        /// Sets a label to the source in upper case.
        Uppercase = "uppercase",
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Action {
    type Err = RelabelError;

    /// Parses an action's name, ignoring case.
    fn from_str(text: &str) -> Result<Self, RelabelError> {
        let lower = text.to_lowercase();
        Self::ALL
            .into_iter()
            .find(|action| action.as_str() == lower)
            .ok_or_else(|| RelabelError::UnknownAction(text.to_owned()))
    }
}

/// A rule as configured; an unset field has Prometheus' default.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RelabelConfig {
    /// Labels whose values are joined.
    pub source_labels: Vec<String>,
    /// Separator between the joined values.
    pub separator: String,
    /// Pattern for the joined values; `None` is the default, `(.*)`, which is not the same as an explicit `(.*)`.
    pub regex: Option<String>,
    /// Modulus of `hashmod`.
    pub modulus: u64,
    /// The label to set.
    pub target_label: String,
    /// Value for the target label.
    pub replacement: String,
    /// The action; `None` if the key is present but empty.
    pub action: Option<Action>,
}

impl Default for RelabelConfig {
    fn default() -> Self {
        Self {
            source_labels: Vec::new(),
            separator: SEPARATOR.to_owned(),
            regex: None,
            modulus: 0,
            target_label: String::new(),
            replacement: REPLACEMENT.to_owned(),
            action: Some(Action::Replace),
        }
    }
}

/// The default separator.
const SEPARATOR: &str = ";";
/// The default replacement.
const REPLACEMENT: &str = "$1";
/// The default pattern.
pub(super) const REGEX: &str = "(.*)";

/// Valid target label with group references, in the legacy scheme.
static LEGACY_TARGET: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(r"^(?:(?:[a-zA-Z_]|\$(?:\{\w+\}|\w+))+\w*)+$").expect("a pattern of our own")
});

impl RelabelConfig {
    /// Checks everything but the pattern and returns the action.
    ///
    /// # Errors
    /// Fails with Prometheus' message when the fields do not fit together.
    pub(super) fn check(&self, scheme: NameScheme) -> Result<Action, RelabelError> {
        use Action::*;
        let action = self.action.ok_or(RelabelError::NoAction)?;
        if action == HashMod && self.modulus == 0 {
            return Err(RelabelError::NoModulus);
        }
        let has_target = matches!(
            action,
            Replace | HashMod | Lowercase | Uppercase | KeepEqual | DropEqual
        );
        let target = &self.target_label;
        if has_target && target.is_empty() {
            return Err(RelabelError::NoTarget(action));
        }
        let legal = match action {
            Replace if target.contains('$') => allows_template(scheme, target),
            _ => !has_target || scheme.allows_label(target),
        };
        if !legal {
            return Err(RelabelError::Target(target.clone(), action));
        }
        let replaces = self.replacement != REPLACEMENT;
        let only_target = matches!(action, Lowercase | Uppercase | KeepEqual | DropEqual);
        if only_target && replaces {
            return Err(RelabelError::HasReplacement(action));
        }
        if action == LabelMap && !allows_template(scheme, &self.replacement) {
            return Err(RelabelError::Replacement(self.replacement.clone(), action));
        }
        let altered = self.modulus != 0 || self.separator != SEPARATOR || replaces;
        if matches!(action, DropEqual | KeepEqual) && (altered || self.regex.is_some()) {
            return Err(RelabelError::OnlyLabels(action));
        }
        let labels = !self.source_labels.is_empty() || !target.is_empty();
        if matches!(action, LabelDrop | LabelKeep) && (altered || labels) {
            return Err(RelabelError::OnlyRegex(action));
        }
        Ok(action)
    }

    /// Returns the pattern's text, or the default pattern.
    #[must_use]
    pub fn regex_text(&self) -> &str {
        self.regex.as_deref().unwrap_or(REGEX)
    }
}

/// Reports whether `template` can expand to a valid label name.
fn allows_template(scheme: NameScheme, template: &str) -> bool {
    match scheme {
        NameScheme::Utf8 => scheme.allows_label(template),
        NameScheme::Legacy => LEGACY_TARGET.is_match(template),
    }
}

/// An invalid rule.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RelabelError {
    /// An unknown action.
    UnknownAction(String),
    /// The action is present but empty.
    NoAction,
    /// `hashmod` without a modulus.
    NoModulus,
    /// An action that sets a label, without a target label.
    NoTarget(Action),
    /// A target label that is not a valid label name.
    Target(String, Action),
    /// A replacement for an action that ignores it.
    HasReplacement(Action),
    /// A replacement that is not a valid label name.
    Replacement(String, Action),
    /// Fields that an action comparing labels does not use.
    OnlyLabels(Action),
    /// Fields that an action selecting labels by name does not use.
    OnlyRegex(Action),
    /// The pattern is invalid.
    Pattern(PatternError),
}

impl fmt::Display for RelabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |f: &mut fmt::Formatter<'_>, text: &str| crate::labels::write_quoted(f, text);
        match self {
            Self::UnknownAction(text) => {
                f.write_str("unknown relabel action ")?;
                quoted(f, text)
            }
            Self::NoAction => f.write_str("relabel action cannot be empty"),
            Self::NoModulus => {
                f.write_str("relabel configuration for hashmod requires non-zero modulus")
            }
            Self::NoTarget(action) => write!(
                f,
                "relabel configuration for {action} action requires 'target_label' value"
            ),
            Self::Target(text, action) => {
                quoted(f, text)?;
                write!(f, " is invalid 'target_label' for {action} action")
            }
            Self::HasReplacement(action) => {
                write!(f, "'replacement' can not be set for {action} action")
            }
            Self::Replacement(text, action) => {
                quoted(f, text)?;
                write!(f, " is invalid 'replacement' for {action} action")
            }
            Self::OnlyLabels(action) => write!(
                f,
                "{action} action requires only 'source_labels' and `target_label`, and no other fields"
            ),
            Self::OnlyRegex(action) => {
                write!(
                    f,
                    "{action} action requires only 'regex', and no other fields"
                )
            }
            Self::Pattern(error) => error.fmt(f),
        }
    }
}

impl Error for RelabelError {}
