//! Parses YAML into a tree whose nodes know their positions.
//!
//! **Invariant:** a scalar keeps its text; the key it belongs to decides its type, as in Go's YAML library. The tree is
//! bounded in depth and size, aliases included.

use crate::YamlError;
use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, general_purpose::PAD},
};
use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput, Tag};
use std::collections::HashMap;

/// Deepest nesting of a document.
const MAX_DEPTH: usize = 64;

/// Most nodes of a document once its aliases are copied.
const MAX_NODES: usize = 1_000_000;

/// A value with its line and column, both from 1; both 0 for a default.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// The value.
    pub value: Value,
}

/// A node's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A text.
    Scalar(Scalar),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the text.
    Map(Vec<(Word, Node)>),
}

/// A text, and how it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    /// The text, without quotes.
    pub text: String,
    /// Whether it has neither quotes nor a tag, so it may be a number or a boolean.
    pub plain: bool,
    /// Bytes of a `!!binary` scalar that are not UTF-8.
    pub bytes: Option<Vec<u8>>,
}

/// A key and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// The key itself.
    pub text: String,
    /// Bytes of a `!!binary` key that are not UTF-8.
    pub bytes: Option<Vec<u8>>,
}

impl Node {
    /// Returns a node without a position.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self {
            line: 0,
            column: 0,
            value,
        }
    }

    /// Returns a text node without a position.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Value::Scalar(Scalar {
            text: text.into(),
            plain: true,
            bytes: None,
        }))
    }

    /// Reports whether the value is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// Returns a mapping's value under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        let mut pairs = self.entries().iter();
        Some(&pairs.find(|(word, _)| word.text == key)?.1)
    }

    /// Returns a mapping's value under `key`, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let mut pairs = self.entries_mut().iter_mut();
        Some(&mut pairs.find(|(word, _)| word.text == key)?.1)
    }

    /// Returns the scalar that the node is.
    #[must_use]
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Returns a sequence's nodes; any other node has none.
    #[must_use]
    pub fn list(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Returns a sequence's nodes, to be changed; any other node has none.
    pub fn list_mut(&mut self) -> &mut [Node] {
        match &mut self.value {
            Value::List(items) => items,
            _ => &mut [],
        }
    }

    /// Returns a mapping's pairs in the order of the text; any other node has none.
    #[must_use]
    pub fn entries(&self) -> &[(Word, Node)] {
        match &self.value {
            Value::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// Returns a mapping's pairs, to be changed; any other node has none.
    pub fn entries_mut(&mut self) -> &mut [(Word, Node)] {
        match &mut self.value {
            Value::Map(pairs) => pairs,
            _ => &mut [],
        }
    }

    /// Sets a mapping's value under `key`; any other node becomes a mapping.
    pub fn set(&mut self, key: &str, node: Node) {
        if let Some(old) = self.get_mut(key) {
            *old = node;
            return;
        }
        let word = Word {
            line: node.line,
            column: node.column,
            text: key.to_owned(),
            bytes: None,
        };
        match &mut self.value {
            Value::Map(pairs) => pairs.push((word, node)),
            other => *other = Value::Map(vec![(word, node)]),
        }
    }

    /// Formats the node as Go's YAML library does in errors: its type and, for a scalar, its text.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Null => "!!null".to_owned(),
            Value::List(_) => "!!seq".to_owned(),
            Value::Map(_) => "!!map".to_owned(),
            Value::Scalar(scalar) => {
                let short: String = scalar.text.chars().take(10).collect();
                let dots = if short == scalar.text { "" } else { "..." };
                format!("{} `{short}{dots}`", scalar.tag())
            }
        }
    }
}

impl Scalar {
    /// Returns the tag that a plain scalar resolves to.
    fn tag(&self) -> &'static str {
        if !self.plain {
            "!!str"
        } else if self.boolean().is_some() {
            "!!bool"
        } else if self.integer().is_some() {
            "!!int"
        } else if self.float().is_some() {
            "!!float"
        } else {
            "!!str"
        }
    }

    /// Returns the boolean that a plain scalar means.
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        match self.text.as_str() {
            _ if !self.plain => None,
            "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
                Some(true)
            }
            "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False"
            | "FALSE" => Some(false),
            _ => None,
        }
    }

    /// Returns the integer that a plain scalar means: decimal, or prefixed with `0x`, `0o`, `0b` or `0`.
    #[must_use]
    pub fn integer(&self) -> Option<i128> {
        if !self.plain {
            return None;
        }
        let text = self.text.replace('_', "");
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(&text)),
        };
        let radix = |prefix: &str, radix| {
            let digits = digits.strip_prefix(prefix)?;
            i128::from_str_radix(digits, radix).ok()
        };
        let first = digits.chars().next()?;
        if !first.is_ascii_digit() {
            return None;
        }
        let number = radix("0x", 16)
            .or_else(|| radix("0X", 16))
            .or_else(|| radix("0o", 8))
            .or_else(|| radix("0b", 2))
            .or_else(|| radix("0", 8))
            .or_else(|| digits.parse().ok())?;
        Some(if negative { -number } else { number })
    }

    /// Returns the float that a plain scalar means.
    #[must_use]
    pub fn float(&self) -> Option<f64> {
        match self.text.as_str() {
            _ if !self.plain => None,
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
            ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
            text => {
                let begins = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
                let number = text.replace('_', "").parse().ok().filter(|_| begins);
                number.filter(|_| text.contains(|c: char| c.is_ascii_digit()))
            }
        }
    }

    /// Reports whether a plain text would be read as something other than a text.
    #[must_use]
    pub fn is_ambiguous(text: &str) -> bool {
        let scalar = Self {
            text: text.to_owned(),
            plain: true,
            bytes: None,
        };
        is_null(text) || scalar.tag() != "!!str"
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// The first document of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its root; null if there is none.
    pub root: Node,
    /// Whether anything follows the document.
    pub more: bool,
}

/// Parses the first document of a text; null if there is none. A mapping that repeats a key is an error, and an alias
/// has the place of what it repeats.
///
/// # Errors
/// Fails when the text is not YAML or exceeds a limit.
pub fn read(text: &str) -> Result<Node, YamlError> {
    Reader::new(text, false).first()
}

/// Parses the first document of a text for readers that report every error: mappings keep repeated keys, and an alias
/// has its own place.
///
/// # Errors
/// Fails when the text is not YAML or exceeds a limit.
pub fn read_all_keys(text: &str) -> Result<Document, YamlError> {
    let mut reader = Reader::new(text, true);
    let root = reader.first()?;
    let more = loop {
        match reader.next() {
            Ok(Some((Event::DocumentEnd, _))) => {}
            Ok(None | Some((Event::StreamEnd, _))) => break false,
            // As in Go, whatever is wrong behind the document is not read.
            Ok(Some(_)) | Err(_) => break true,
        }
    };
    Ok(Document { root, more })
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    text: &'a str,
    /// Whether every key and the place of every alias is kept, and nodes begin where Go's begin.
    all_keys: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, all_keys: bool) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(false);
        Self {
            events: Parser::new_from_str_with_options(text, options),
            anchors: HashMap::new(),
            nodes: 0,
            text,
            all_keys,
        }
    }

    /// Builds the first document's root.
    fn first(&mut self) -> Result<Node, YamlError> {
        loop {
            match self.next()? {
                None | Some((Event::StreamEnd | Event::DocumentEnd, _)) => {
                    return Ok(Node::new(Value::Null));
                }
                Some((Event::StreamStart | Event::DocumentStart(..), _)) => {}
                Some((event, span)) => return self.node(event, span, 0),
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, YamlError> {
        self.events.next_event().transpose().map_err(|error| {
            let place = error.marker();
            YamlError::at(place.line(), place.col() + 1, error.info())
        })
    }

    /// Builds the node that begins with `event`.
    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, YamlError> {
        let (line, column) = match &event {
            Event::Scalar(_, style, ..) if self.all_keys => begin(self.text, &span, *style),
            _ => (span.start.line(), span.start.col() + 1),
        };
        if depth > MAX_DEPTH {
            return Err(YamlError::at(line, column, "nests too deeply"));
        }
        self.count(1, line, column)?;
        let anchor = event.anchor_id();
        let value = match event {
            Event::Alias(id) => {
                let copied = self.anchors.get(&id).cloned();
                let mut node = copied
                    .ok_or_else(|| YamlError::at(line, column, "an alias of nothing before it"))?;
                self.count(size(&node), line, column)?;
                if self.all_keys {
                    (node.line, node.column) = (line, column);
                }
                return Ok(node);
            }
            Event::Scalar(text, style, _, tag) => scalar(&text, style, tag.as_deref())
                .map_err(|message| YamlError::at(line, column, message))?,
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            _ => return Err(YamlError::at(line, column, "not a value")),
        };
        let node = Node {
            line,
            column,
            value,
        };
        if let Some(id) = anchor {
            self.anchors.insert(id, node.clone());
        }
        Ok(node)
    }

    fn count(&mut self, nodes: usize, line: usize, column: usize) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(YamlError::at(line, column, "too large a document"));
        }
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                None | Some((Event::SequenceEnd, _)) => return Ok(Value::List(items)),
                Some((event, span)) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut pairs: Vec<(Word, Node)> = Vec::new();
        let mut merged = Vec::new();
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key = self.node(event, span, depth + 1)?;
            let word = word(&key)?;
            let Some((event, span)) = self.next()? else {
                break;
            };
            let node = self.node(event, span, depth + 1)?;
            if word.text == "<<" {
                merge(&mut merged, node)?;
                continue;
            }
            if let Some((first, _)) = pairs.iter().find(|(other, _)| other.text == word.text)
                && !self.all_keys
            {
                let message = format!("key {:?} already set in line {}", word.text, first.line);
                return Err(YamlError::at(key.line, key.column, message));
            }
            pairs.push((word, node));
        }
        for (word, node) in merged {
            if !pairs.iter().any(|(other, _)| other.text == word.text) {
                pairs.push((word, node));
            }
        }
        Ok(Value::Map(pairs))
    }
}

/// Returns the line and column where Go says that a scalar begins: at its anchor, its tag or the sign of a block.
fn begin(text: &str, span: &Span, style: ScalarStyle) -> (usize, usize) {
    let place = (span.start.line(), span.start.col() + 1);
    let Some(start) = span.start.byte_offset() else {
        return place;
    };
    let before = |at: usize| text.get(..at).unwrap_or_default();
    let last_word = |at: usize| {
        let words = before(at).trim_end_matches(' ');
        words.rfind([' ', '\n', '\t']).map_or(0, |space| space + 1)
    };
    let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
    let mut at = start;
    let begins = |at: usize, signs: [char; 2]| {
        let rest = text.get(at..);
        rest.is_some_and(|rest| rest.starts_with(signs))
    };
    if is_block && !begins(at, ['|', '>']) {
        let header = before(at).trim_end();
        let line = header.rfind('\n').map_or(0, |newline| newline + 1);
        let comment = header.get(line..).and_then(|header| header.find(" #"));
        at = last_word(comment.map_or(header.len(), |comment| line + comment));
    }
    loop {
        let word = last_word(at);
        if word >= at || !begins(word, ['&', '!']) {
            break;
        }
        at = word;
    }
    if at == start {
        return place;
    }
    let between = text.get(at..start).unwrap_or_default();
    let lines = between.matches('\n').count();
    let column = before(at).chars().rev().take_while(|c| *c != '\n').count() + 1;
    (place.0 - lines, column)
}

/// Collects the pairs merged by `<<`; earlier mappings win.
fn merge(merged: &mut Vec<(Word, Node)>, node: Node) -> Result<(), YamlError> {
    match node.value {
        Value::Map(pairs) => {
            merged.extend(pairs);
            Ok(())
        }
        Value::List(items) => items.into_iter().try_for_each(|item| merge(merged, item)),
        _ => {
            let message = "map merge requires map or sequence of maps as the value";
            Err(YamlError::at(node.line, node.column, message))
        }
    }
}

fn word(key: &Node) -> Result<Word, YamlError> {
    let (text, bytes) = match &key.value {
        Value::Scalar(scalar) => (scalar.text.clone(), scalar.bytes.clone()),
        Value::Null => (String::new(), None),
        _ => return Err(YamlError::at(key.line, key.column, "a key must be a text")),
    };
    Ok(Word {
        line: key.line,
        column: key.column,
        text,
        bytes,
    })
}

fn size(node: &Node) -> usize {
    let values = node.entries().iter().map(|(_, node)| node);
    1 + node.list().iter().chain(values).map(size).sum::<usize>()
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, &'static str> {
    let core = tag.filter(|tag| tag.handle() == "tag:yaml.org,2002:");
    let plain = style == ScalarStyle::Plain;
    match core.map(Tag::suffix) {
        Some("binary") => return binary(text),
        Some("null") => return Ok(Value::Null),
        None if plain && is_null(text) => return Ok(Value::Null),
        _ => {}
    }
    Ok(Value::Scalar(Scalar {
        text: text.to_owned(),
        plain: plain && core.is_none_or(|tag| tag.suffix() != "str"),
        bytes: None,
    }))
}

/// Decodes base64; a result that is not UTF-8 stays bytes.
fn binary(text: &str) -> Result<Value, &'static str> {
    // Like Go's decoder, accepts any bits after the last byte.
    let lenient = PAD.with_decode_allow_trailing_bits(true);
    let digits = text.replace(|c: char| c.is_ascii_whitespace(), "");
    let bytes = GeneralPurpose::new(&STANDARD, lenient)
        .decode(digits)
        .map_err(|_| "!!binary value contains invalid base64 data")?;
    let (text, bytes) = match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            (text, Some(error.into_bytes()))
        }
    };
    Ok(Value::Scalar(Scalar {
        text,
        plain: false,
        bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match read(text) {
            Ok(node) => show(&node),
            Err(error) => error.to_string(),
        }
    }

    fn show(node: &Node) -> String {
        match &node.value {
            Value::List(items) => format!(
                "[{}]",
                items.iter().map(show).collect::<Vec<_>>().join(", ")
            ),
            Value::Map(pairs) => {
                let pairs = pairs
                    .iter()
                    .map(|(word, node)| format!("{}: {}", word.text, show(node)));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
            }
            _ => node.shown(),
        }
    }

    #[test]
    fn scalars_mean_what_they_mean_to_go() {
        for (text, expected) in [
            ("", "!!null"),
            ("# nothing", "!!null"),
            ("---\n~", "!!null"),
            ("yes", "!!bool `yes`"),
            ("'yes'", "!!str `yes`"),
            ("!!str yes", "!!str `yes`"),
            ("0x1F", "!!int `0x1F`"),
            ("1_000", "!!int `1_000`"),
            ("-3", "!!int `-3`"),
            ("0777", "!!int `0777`"),
            ("1e3", "!!float `1e3`"),
            (".inf", "!!float `.inf`"),
            ("-", "[!!null]"),
            ("1s", "!!str `1s`"),
            ("e5", "!!str `e5`"),
            ("a: &x [1]\nb: *x", "{a: [!!int `1`], b: [!!int `1`]}"),
            (
                "a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}",
                "{a: {p: !!int `1`, q: !!int `2`}, b: {q: !!int `3`, p: !!int `1`}}",
            ),
            ("a: 1\n---\nb: 2", "{a: !!int `1`}"),
            ("!!binary aGk=", "!!str `hi`"),
            (
                "a: !!binary ==",
                "line 1, column 13: !!binary value contains invalid base64 data",
            ),
            (
                "a: 1\nb: 2\na: 3",
                "line 3, column 1: key \"a\" already set in line 1",
            ),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn documents_are_bounded() {
        assert!(shown(&"[".repeat(100_000)).contains("line 1"));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let alias = format!("*a{}", level - 1);
            bomb.push_str(&format!(
                "a{level}: &a{level} [{}]\n",
                vec![alias; 10].join(", ")
            ));
        }
        assert!(shown(&bomb).contains("too large a document"));
    }
}
