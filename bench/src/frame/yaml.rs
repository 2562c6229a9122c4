//! Reads YAML into a tree whose nodes know where they stand.
//!
//! **Invariant:** a scalar keeps its text, whatever YAML would make of it; the tree is bounded in depth and size. There
//! are no aliases: a scenario is a short list of settings.

use granit_parser::{Event, Options, Parser, Span, StrInput};

/// Deepest nesting.
const MAX_DEPTH: usize = 16;
/// Most nodes.
const MAX_NODES: usize = 10_000;

/// A value and its place in the text, both from 1.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) value: Value,
}

/// What stands at a place.
#[derive(Debug)]
pub(crate) enum Value {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// What is wrong, and where.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
}

impl Node {
    /// Returns an error about this place.
    pub(crate) fn wrong(&self, what: impl Into<String>) -> Wrong {
        Wrong {
            line: self.line,
            column: self.column,
            what: what.into(),
        }
    }

    /// Returns the text of a scalar.
    pub(crate) fn text(&self) -> Result<&str, Wrong> {
        match &self.value {
            Value::Scalar(text) => Ok(text),
            _ => Err(self.wrong("a single value belongs here")),
        }
    }

    /// Returns the items of a list; a scalar is a list of itself.
    pub(crate) fn items(&self) -> Result<&[Self], Wrong> {
        match &self.value {
            Value::List(items) => Ok(items),
            Value::Scalar(_) => Ok(std::slice::from_ref(self)),
            Value::Map(_) => Err(self.wrong("a list belongs here")),
        }
    }

    /// Returns the pairs of a mapping.
    pub(crate) fn pairs(&self) -> Result<&[(Self, Self)], Wrong> {
        match &self.value {
            Value::Map(pairs) => Ok(pairs),
            _ => Err(self.wrong("a mapping belongs here: `key: value` lines")),
        }
    }
}

/// Reads the one document of a text; None when there is nothing in it.
pub(crate) fn read(text: &str) -> Result<Option<Node>, Wrong> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        nodes: 0,
    };
    let mut root = None;
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd => {}
            _ if root.is_some() => return Err(wrong(&span, "a second document")),
            event => root = Some(reader.node(event, &span, 0)?),
        }
    }
    Ok(root)
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Wrong> {
        self.events.next_event().transpose().map_err(|error| {
            let place = error.marker();
            Wrong {
                line: place.line(),
                column: place.col() + 1,
                what: error.info(),
            }
        })
    }

    /// Builds the node that begins with `event`.
    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node, Wrong> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Err(wrong(span, "too large a document"));
        }
        let value = match event {
            Event::Scalar(text, ..) => Value::Scalar(text.into_owned()),
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            Event::Alias(_) => return Err(wrong(span, "an alias")),
            _ => return Err(wrong(span, "not a value")),
        };
        Ok(Node {
            line: span.start.line(),
            column: span.start.col() + 1,
            value,
        })
    }

    fn list(&mut self, depth: usize) -> Result<Value, Wrong> {
        let mut items = Vec::new();
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::SequenceEnd) {
                break;
            }
            items.push(self.node(event, &span, depth + 1)?);
        }
        Ok(Value::List(items))
    }

    fn map(&mut self, depth: usize) -> Result<Value, Wrong> {
        let mut pairs: Vec<(Node, Node)> = Vec::new();
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key = self.node(event, &span, depth + 1)?;
            let name = key.text()?;
            let is_same = |(other, _): &&(Node, Node)| other.text().is_ok_and(|text| text == name);
            if let Some((first, _)) = pairs.iter().find(is_same) {
                let what = format!("{name:?} is already set in line {}", first.line);
                return Err(key.wrong(what));
            }
            let Some((event, span)) = self.next()? else {
                break;
            };
            let node = self.node(event, &span, depth + 1)?;
            pairs.push((key, node));
        }
        Ok(Value::Map(pairs))
    }
}

fn wrong(span: &Span, what: &str) -> Wrong {
    Wrong {
        line: span.start.line(),
        column: span.start.col() + 1,
        what: what.to_owned(),
    }
}
