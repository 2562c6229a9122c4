//! Fits a tree into the schema of rule files.
//!
//! **Invariant:** every value that does not fit is reported, in the words and order of Go's YAML library; what fits is
//! read as that library reads it. Types in messages are Prometheus' Go types, because people search for them.

use crate::error::{Place, Problem, RuleError};
use narthex_model::duration;
use narthex_yaml::{Node, Scalar, Value, Word};

/// A text with its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    pub(crate) place: Place,
    pub(crate) text: String,
    /// Whether the text is UTF-8; `!!binary` may hold anything.
    pub(crate) valid: bool,
}

/// A duration, if given.
pub(crate) type Period = Option<i64>;

/// A group as it is written.
#[derive(Debug, Default)]
pub(crate) struct RawGroup {
    pub(crate) place: Place,
    pub(crate) name: Text,
    pub(crate) interval_ms: Period,
    pub(crate) query_offset_ms: Period,
    pub(crate) limit: i64,
    pub(crate) rules: Vec<RawRule>,
    pub(crate) labels: Vec<(Text, Text)>,
}

/// A rule as it is written.
#[derive(Debug, Default)]
pub(crate) struct RawRule {
    pub(crate) place: Place,
    pub(crate) record: Text,
    pub(crate) alert: Text,
    pub(crate) expr: Text,
    pub(crate) for_ms: Period,
    pub(crate) keep_firing_for_ms: Period,
    pub(crate) labels: Vec<(Text, Text)>,
    pub(crate) annotations: Vec<(Text, Text)>,
}

/// Reads the groups of a file.
///
/// # Errors
/// Fails with every value that does not fit.
pub(crate) fn groups(root: &Node, ignore_unknown: bool) -> Result<Vec<RawGroup>, Vec<RuleError>> {
    let mut decoder = Decoder::new(ignore_unknown);
    let groups = decoder.object(
        root,
        "rulefmt.RuleGroups",
        |groups: &mut Vec<RawGroup>, it, key, node| match key {
            "groups" => *groups = it.list(node, "[]rulefmt.RuleGroup", Decoder::group),
            _ => it.unknown(),
        },
    );
    decoder.finish(groups.unwrap_or_default())
}

/// Reads values out of a tree, and collects what does not fit.
pub(crate) struct Decoder {
    ignore_unknown: bool,
    /// Whether the key being read is unknown.
    is_unknown: bool,
    problems: Vec<Problem>,
    invalid: Vec<RuleError>,
}

impl Decoder {
    pub(crate) fn new(ignore_unknown: bool) -> Self {
        Self {
            ignore_unknown,
            is_unknown: false,
            problems: Vec::new(),
            invalid: Vec::new(),
        }
    }

    /// Returns what was read if everything did fit.
    ///
    /// # Errors
    /// Fails with every value that did not fit.
    pub(crate) fn finish<T>(self, read: T) -> Result<T, Vec<RuleError>> {
        let mut errors = Vec::new();
        if !self.problems.is_empty() {
            errors.push(RuleError::Schema(self.problems));
        }
        errors.extend(self.invalid);
        if errors.is_empty() {
            Ok(read)
        } else {
            Err(errors)
        }
    }

    fn group(&mut self, node: &Node) -> Option<RawGroup> {
        let read = self.object(
            node,
            "rulefmt.RuleGroup",
            |group: &mut RawGroup, it, key, node| match key {
                "name" => group.name = it.text(node),
                "interval" => group.interval_ms = it.period(node),
                "query_offset" => group.query_offset_ms = it.period(node),
                "limit" => group.limit = it.integer(node),
                "rules" => group.rules = it.list(node, "[]rulefmt.Rule", Self::rule),
                "labels" => group.labels = it.texts(node),
                _ => it.unknown(),
            },
        );
        read.map(|group| RawGroup {
            place: place(node),
            ..group
        })
    }

    fn rule(&mut self, node: &Node) -> Option<RawRule> {
        let read = self.object(
            node,
            "rulefmt.Rule",
            |rule: &mut RawRule, it, key, node| match key {
                "record" => rule.record = it.text(node),
                "alert" => rule.alert = it.text(node),
                "expr" => rule.expr = it.text(node),
                "for" => rule.for_ms = it.period(node),
                "keep_firing_for" => rule.keep_firing_for_ms = it.period(node),
                "labels" => rule.labels = it.texts(node),
                "annotations" => rule.annotations = it.texts(node),
                _ => it.unknown(),
            },
        );
        read.map(|rule| RawRule {
            place: place(node),
            ..rule
        })
    }

    /// Reads a mapping, key by key; `None` for any other node. Null is none, without being a problem.
    pub(crate) fn object<T: Default>(
        &mut self,
        node: &Node,
        go_type: &str,
        mut read: impl FnMut(&mut T, &mut Self, &str, &Node),
    ) -> Option<T> {
        let mut object = T::default();
        for (word, value) in self.pairs(node, go_type)? {
            read(&mut object, self, &word.text, value);
            if std::mem::take(&mut self.is_unknown) && !self.ignore_unknown {
                let message = format!("field {} not found in type {go_type}", word.text);
                self.problem(word_place(word), message);
            }
        }
        Some(object)
    }

    /// Says that the key being read is none of the object's.
    pub(crate) fn unknown(&mut self) {
        self.is_unknown = true;
    }

    /// Returns the pairs of a mapping without repeated keys.
    fn pairs<'a>(&mut self, node: &'a Node, go_type: &str) -> Option<&'a [(Word, Node)]> {
        let pairs = match &node.value {
            Value::Map(pairs) => pairs,
            Value::Null => return None,
            _ => {
                self.misfit(node, go_type);
                return None;
            }
        };
        let before = self.problems.len();
        for (at, (first, _)) in pairs.iter().enumerate() {
            for (again, _) in pairs.iter().skip(at + 1) {
                if first.text == again.text {
                    let key = narthex_promql::fmt::quote(&again.text);
                    let line = first.line;
                    let message = format!("mapping key {key} already defined at line {line}");
                    self.problem(word_place(again), message);
                }
            }
        }
        (self.problems.len() == before).then_some(pairs)
    }

    /// Reads a list; items that do not fit, and null ones, are left out.
    pub(crate) fn list<T>(
        &mut self,
        node: &Node,
        go_type: &str,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Vec<T> {
        match &node.value {
            Value::List(items) => items.iter().filter_map(|item| read(self, item)).collect(),
            Value::Null => Vec::new(),
            _ => {
                self.misfit(node, go_type);
                Vec::new()
            }
        }
    }

    /// Reads a mapping of texts; null values are empty texts.
    pub(crate) fn texts(&mut self, node: &Node) -> Vec<(Text, Text)> {
        let pairs = self.pairs(node, "map[string]string").unwrap_or_default();
        let mut texts = Vec::with_capacity(pairs.len());
        for (word, value) in pairs {
            let key = Text {
                place: word_place(word),
                text: word.text.clone(),
                valid: word.bytes.is_none(),
            };
            texts.push((key, self.text(value)));
        }
        texts
    }

    pub(crate) fn text(&mut self, node: &Node) -> Text {
        match &node.value {
            Value::Scalar(scalar) => Text {
                place: place(node),
                text: scalar.text.clone(),
                valid: scalar.bytes.is_none(),
            },
            Value::Null => Text {
                place: place(node),
                text: String::new(),
                valid: true,
            },
            _ => {
                self.misfit(node, "string");
                Text::default()
            }
        }
    }

    pub(crate) fn period(&mut self, node: &Node) -> Period {
        self.parsed(node, |text| {
            duration::parse(text).map_err(|error| error.to_string())
        })
    }

    /// Reads a scalar whose text `parse` understands.
    pub(crate) fn parsed<T>(
        &mut self,
        node: &Node,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match &node.value {
            Value::Null => None,
            Value::Scalar(scalar) => parse(&scalar.text)
                .map_err(|message| self.invalid(place(node), message))
                .ok(),
            _ => {
                self.misfit(node, "string");
                None
            }
        }
    }

    /// Reports a scalar whose text means nothing.
    pub(crate) fn invalid(&mut self, place: Place, message: String) {
        self.invalid.push(RuleError::Value { place, message });
    }

    pub(crate) fn float(&mut self, node: &Node) -> f64 {
        self.scalar(node, "float64", number)
    }

    pub(crate) fn boolean(&mut self, node: &Node) -> bool {
        self.scalar(node, "bool", Scalar::boolean)
    }

    fn integer(&mut self, node: &Node) -> i64 {
        self.scalar(node, "int", whole)
    }

    /// Reads a plain scalar; null is the default.
    fn scalar<T: Default>(
        &mut self,
        node: &Node,
        go_type: &str,
        read: impl FnOnce(&Scalar) -> Option<T>,
    ) -> T {
        let value = match &node.value {
            Value::Null => Some(T::default()),
            Value::Scalar(scalar) => read(scalar),
            _ => None,
        };
        value.unwrap_or_else(|| {
            self.misfit(node, go_type);
            T::default()
        })
    }

    fn misfit(&mut self, node: &Node, go_type: &str) {
        let message = format!("cannot unmarshal {} into {go_type}", shown(node));
        self.problem(place(node), message);
    }

    fn problem(&mut self, place: Place, message: String) {
        self.problems.push(Problem { place, message });
    }
}

/// Returns the integer that a plain scalar means; Go cuts the fraction of a float off.
fn whole(scalar: &Scalar) -> Option<i64> {
    if let Some(integer) = scalar.integer() {
        return i64::try_from(integer).ok();
    }
    let float = scalar.float().filter(|float| float.abs() < 9.2e18)?;
    #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
    let cut = float as i64;
    Some(cut)
}

/// Returns the number that a plain scalar means.
fn number(scalar: &Scalar) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "as Go converts integers")]
    let integer = scalar.integer().map(|integer| integer as f64);
    integer.or_else(|| scalar.float())
}

/// Formats a node as version 3 of Go's YAML library does: a long text is cut to seven bytes.
fn shown(node: &Node) -> String {
    let text = match &node.value {
        Value::Scalar(scalar) => &scalar.text,
        _ => return node.shown(),
    };
    let shown = node.shown();
    let tag = shown.split(' ').next().unwrap_or_default();
    if text.len() <= 10 {
        return format!("{tag} `{text}`");
    }
    let cut = text.as_bytes().get(..7).unwrap_or_default();
    format!("{tag} `{}...`", String::from_utf8_lossy(cut))
}

pub(crate) fn place(node: &Node) -> Place {
    Place::new(node.line, node.column)
}

fn word_place(word: &Word) -> Place {
    Place::new(word.line, word.column)
}
