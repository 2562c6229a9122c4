//! The tree of a template.
//!
//! **Invariant:** a node prints as Go prints it, because errors quote nodes; its position is the one that Go reports.

use narthex_promql::fmt::quote;
use std::fmt;

/// A node and its byte offset in the template's text.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) kind: NodeKind,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum NodeKind {
    Text(String),
    Action(Box<Node>),
    Branch(Box<Branch>),
    Template {
        name: String,
        pipe: Option<Box<Node>>,
    },
    Break,
    Continue,
    List(Vec<Node>),
    Pipe(Pipe),
    Command(Vec<Node>),
    Identifier(String),
    /// A variable with its fields: `$x.a` is `["$x", "a"]`.
    Variable(Vec<String>),
    Dot,
    Nil,
    Field(Vec<String>),
    Chain {
        of: Box<Node>,
        fields: Vec<String>,
    },
    Bool(bool),
    Number(Number),
    Literal(Quoted),
    /// `{{end}}`, only while parsing.
    End,
    /// `{{else}}`, only while parsing.
    Else,
}

/// A literal and its meaning.
#[derive(Debug)]
pub(super) struct Quoted {
    pub(super) literal: String,
    pub(super) text: String,
}

/// A constant, which may be both an integer and a float.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) literal: String,
    pub(super) int: Option<i64>,
    pub(super) float: Option<f64>,
    /// An integer beyond `i64`.
    pub(super) too_large: bool,
}

/// Commands whose results flow on, and the variables that take the last one.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) assigns: bool,
    pub(super) variables: Vec<String>,
    pub(super) commands: Vec<Node>,
}

/// `if`, `with` or `range`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BranchKind {
    If,
    With,
    Range,
}

impl BranchKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
        }
    }
}

/// A branch and its lists.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) kind: BranchKind,
    pub(super) pipe: Node,
    pub(super) list: Node,
    pub(super) otherwise: Option<Node>,
}

impl Node {
    pub(super) fn new(at: usize, kind: NodeKind) -> Self {
        Self { at, kind }
    }

    /// Reports whether a tree has no more than white space.
    pub(super) fn is_empty(&self) -> bool {
        match &self.kind {
            NodeKind::List(nodes) => nodes.iter().all(Self::is_empty),
            NodeKind::Text(text) => text.trim().is_empty(),
            _ => false,
        }
    }

    /// Returns the pipe's parts.
    pub(super) fn pipe(&self) -> Option<&Pipe> {
        match &self.kind {
            NodeKind::Pipe(pipe) => Some(pipe),
            _ => None,
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            NodeKind::Text(text) => f.write_str(text),
            NodeKind::Action(pipe) => write!(f, "{{{{{pipe}}}}}"),
            NodeKind::Branch(branch) => branch.fmt(f),
            NodeKind::Template { name, pipe } => {
                write!(f, "{{{{template {}", quote(name))?;
                if let Some(pipe) = pipe {
                    write!(f, " {pipe}")?;
                }
                f.write_str("}}")
            }
            NodeKind::Break => f.write_str("{{break}}"),
            NodeKind::Continue => f.write_str("{{continue}}"),
            NodeKind::End => f.write_str("{{end}}"),
            NodeKind::Else => f.write_str("{{else}}"),
            NodeKind::List(nodes) => nodes.iter().try_for_each(|node| node.fmt(f)),
            NodeKind::Pipe(pipe) => pipe.fmt(f),
            NodeKind::Command(arguments) => joined(f, arguments, " "),
            NodeKind::Identifier(name) => f.write_str(name),
            NodeKind::Variable(names) => f.write_str(&names.join(".")),
            NodeKind::Dot => f.write_str("."),
            NodeKind::Nil => f.write_str("nil"),
            NodeKind::Field(names) => names.iter().try_for_each(|name| write!(f, ".{name}")),
            NodeKind::Chain { of, fields } => {
                parenthesized(f, of)?;
                fields.iter().try_for_each(|name| write!(f, ".{name}"))
            }
            NodeKind::Bool(value) => value.fmt(f),
            NodeKind::Number(number) => f.write_str(&number.literal),
            NodeKind::Literal(quoted) => f.write_str(&quoted.literal),
        }
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            let operator = if self.assigns { "=" } else { ":=" };
            write!(f, "{} {operator} ", self.variables.join(", "))?;
        }
        joined(f, &self.commands, " | ")
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pipe, list, .. } = self;
        write!(f, "{{{{{} {pipe}}}}}{list}", self.kind.as_str())?;
        if let Some(otherwise) = &self.otherwise {
            write!(f, "{{{{else}}}}{otherwise}")?;
        }
        f.write_str("{{end}}")
    }
}

fn joined(f: &mut fmt::Formatter<'_>, nodes: &[Node], separator: &str) -> fmt::Result {
    for (at, node) in nodes.iter().enumerate() {
        if at > 0 {
            f.write_str(separator)?;
        }
        parenthesized(f, node)?;
    }
    Ok(())
}

fn parenthesized(f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
    if node.pipe().is_some() {
        write!(f, "({node})")
    } else {
        write!(f, "{node}")
    }
}
