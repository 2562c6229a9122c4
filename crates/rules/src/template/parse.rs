//! Parses templates, as Go's `text/template/parse` does.
//!
//! **Invariant:** the first error is Go's, with Go's line. Nesting is bounded by [`MAX_DEPTH`], so walking and dropping
//! a tree takes a bounded stack.

use super::{
    lex::{Class, Lexer, Token},
    node::{Branch, BranchKind, Node, NodeKind, Number, Pipe, Quoted},
    unquote::{unquote, unquote_char},
};
use narthex_promql::fmt::{parse_integer, quote};
use std::{collections::BTreeMap, error::Error, fmt};

/// Deepest nesting of branches and parentheses. Go allows 10,000 parentheses, and any number of branches.
pub(super) const MAX_DEPTH: usize = 100;

/// A text that is not a template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TemplateParseError {
    /// The template's name.
    pub name: String,
    /// Line, from 1, in the text with the variables' declarations before it.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for TemplateParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template: {}:{}: {}", self.name, self.line, self.message)
    }
}

impl Error for TemplateParseError {}

/// Trees by name: the template itself, and what it defines.
pub(super) type Trees = BTreeMap<String, Node>;

/// Parses a text that may call the functions that `knows` knows.
pub(super) fn parse(
    name: &str,
    text: &str,
    knows: fn(&str) -> bool,
) -> Result<Trees, TemplateParseError> {
    let mut parser = Parser {
        lexer: Lexer::new(text),
        back: Vec::new(),
        line: 0,
        variables: vec!["$".to_owned()],
        action_line: 0,
        ranges: 0,
        depth: 0,
        trees: Trees::new(),
        knows,
    };
    let parsed = parser.parse(name);
    parsed.map_err(|Fail(message)| TemplateParseError {
        name: name.to_owned(),
        line: parser.line,
        message: message.replace('\0', name),
    })?;
    Ok(parser.trees)
}

/// The text of an error; a NUL stands for the template's name.
struct Fail(String);

type Parsed<T> = Result<T, Fail>;

fn fail<T>(message: impl Into<String>) -> Parsed<T> {
    Err(Fail(message.into()))
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Tokens put back, the next one last.
    back: Vec<Token>,
    /// Line of the token read last, which errors report.
    line: usize,
    variables: Vec<String>,
    action_line: usize,
    ranges: usize,
    depth: usize,
    trees: Trees,
    knows: fn(&str) -> bool,
}

impl Parser<'_> {
    fn next(&mut self) -> Token {
        self.back.pop().unwrap_or_else(|| {
            let token = self.lexer.token();
            self.line = token.line;
            token
        })
    }

    fn peek(&mut self) -> Token {
        let token = self.next();
        self.back.push(token.clone());
        token
    }

    fn next_non_space(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.class != Class::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token {
        let token = self.next_non_space();
        self.back.push(token.clone());
        token
    }

    fn unexpected<T>(&self, token: &Token, context: &str) -> Parsed<T> {
        if token.class != Class::Error {
            return fail(format!("unexpected {token} in {context}"));
        }
        let mut extra = String::new();
        if self.action_line != 0 && self.action_line != token.line {
            let word = if token.text.ends_with(" action") {
                ""
            } else {
                " in action"
            };
            extra = format!("{word} started at \0:{}", self.action_line);
        }
        fail(format!("{token}{extra}"))
    }

    fn expect(&mut self, class: Class, context: &str) -> Parsed<Token> {
        let token = self.next_non_space();
        if token.class == class {
            Ok(token)
        } else {
            self.unexpected(&token, context)
        }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return fail("max expression depth exceeded");
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn parse(&mut self, name: &str) -> Parsed<()> {
        let at = self.peek().at;
        let mut nodes = Vec::new();
        loop {
            let token = self.peek();
            if token.class == Class::Eof {
                break;
            }
            if token.class == Class::LeftDelim {
                let delim = self.next();
                let word = self.next_non_space();
                if word.is("define") {
                    self.definition()?;
                    continue;
                }
                self.back.extend([word, delim]);
            }
            let node = self.text_or_action()?;
            if matches!(node.kind, NodeKind::End | NodeKind::Else) {
                return fail(format!("unexpected {node}"));
            }
            nodes.push(node);
        }
        self.add(name, Node::new(at, NodeKind::List(nodes)))
    }

    fn add(&mut self, name: &str, tree: Node) -> Parsed<()> {
        match self.trees.get(name) {
            Some(other) if !other.is_empty() => {
                if !tree.is_empty() {
                    let name = quote(name);
                    return fail(format!("template: multiple definition of template {name}"));
                }
            }
            _ => {
                self.trees.insert(name.to_owned(), tree);
            }
        }
        Ok(())
    }

    fn definition(&mut self) -> Parsed<()> {
        let context = "define clause";
        let name = self.template_name(context)?;
        self.expect(Class::RightDelim, context)?;
        self.body(&name, context)
    }

    /// Parses the body of a definition, which sees no variables.
    fn body(&mut self, name: &str, context: &str) -> Parsed<()> {
        let variables = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let (line, ranges) = (self.action_line, self.ranges);
        (self.action_line, self.ranges) = (0, 0);
        let (list, end) = self.nested(Self::item_list)?;
        if !matches!(end.kind, NodeKind::End) {
            return fail(format!("unexpected {end} in {context}"));
        }
        self.add(name, list)?;
        self.variables = variables;
        (self.action_line, self.ranges) = (line, ranges);
        Ok(())
    }

    /// Parses nodes up to `{{end}}` or `{{else}}`.
    fn item_list(&mut self) -> Parsed<(Node, Node)> {
        let at = self.peek_non_space().at;
        let mut nodes = Vec::new();
        while self.peek_non_space().class != Class::Eof {
            let node = self.text_or_action()?;
            if matches!(node.kind, NodeKind::End | NodeKind::Else) {
                return Ok((Node::new(at, NodeKind::List(nodes)), node));
            }
            nodes.push(node);
        }
        fail("unexpected EOF")
    }

    fn text_or_action(&mut self) -> Parsed<Node> {
        let token = self.next_non_space();
        match token.class {
            Class::Text => Ok(Node::new(token.at, NodeKind::Text(token.text))),
            Class::LeftDelim => {
                self.action_line = token.line;
                let node = self.action()?;
                self.action_line = 0;
                Ok(node)
            }
            _ => self.unexpected(&token, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Node> {
        let token = self.next_non_space();
        if token.class == Class::Keyword {
            match &*token.text {
                "block" => return self.block(),
                "break" => return self.leave(&token, NodeKind::Break),
                "continue" => return self.leave(&token, NodeKind::Continue),
                "else" => {
                    let next = self.peek_non_space();
                    if next.is("if") || next.is("with") {
                        return Ok(Node::new(next.at, NodeKind::Else));
                    }
                    let token = self.expect(Class::RightDelim, "else")?;
                    return Ok(Node::new(token.at, NodeKind::Else));
                }
                "end" => {
                    let token = self.expect(Class::RightDelim, "end")?;
                    return Ok(Node::new(token.at, NodeKind::End));
                }
                "if" => return self.control(BranchKind::If),
                "range" => return self.control(BranchKind::Range),
                "template" => return self.template(),
                "with" => return self.control(BranchKind::With),
                _ => {}
            }
        }
        let at = token.at;
        self.back.push(token);
        let pipe = self.pipeline("command", Class::RightDelim)?;
        Ok(Node::new(at, NodeKind::Action(Box::new(pipe))))
    }

    fn leave(&mut self, keyword: &Token, kind: NodeKind) -> Parsed<Node> {
        let shown = format!("{{{{{}}}}}", keyword.text);
        let token = self.next_non_space();
        if token.class != Class::RightDelim {
            return self.unexpected(&token, &shown);
        }
        if self.ranges == 0 {
            return fail(format!("{shown} outside {{{{range}}}}"));
        }
        Ok(Node::new(keyword.at, kind))
    }

    fn control(&mut self, kind: BranchKind) -> Parsed<Node> {
        self.nested(|parser| {
            let variables = parser.variables.len();
            let node = parser.branch(kind)?;
            parser.variables.truncate(variables);
            Ok(node)
        })
    }

    fn branch(&mut self, kind: BranchKind) -> Parsed<Node> {
        let pipe = self.pipeline(kind.as_str(), Class::RightDelim)?;
        let in_range = usize::from(kind == BranchKind::Range);
        self.ranges += in_range;
        let (list, end) = self.item_list()?;
        self.ranges -= in_range;
        let mut otherwise = None;
        if matches!(end.kind, NodeKind::Else) {
            let chains = kind != BranchKind::Range && self.peek().is(kind.as_str());
            otherwise = Some(if chains {
                self.next();
                let chained = self.control(kind)?;
                Node::new(end.at, NodeKind::List(vec![chained]))
            } else {
                let (list, end) = self.item_list()?;
                if !matches!(end.kind, NodeKind::End) {
                    return fail(format!("expected end; found {end}"));
                }
                list
            });
        }
        let at = pipe.at;
        let branch = Branch {
            kind,
            pipe,
            list,
            otherwise,
        };
        Ok(Node::new(at, NodeKind::Branch(Box::new(branch))))
    }

    fn block(&mut self) -> Parsed<Node> {
        let context = "block clause";
        let at = self.peek_non_space().at;
        let name = self.template_name(context)?;
        let pipe = Some(Box::new(self.pipeline(context, Class::RightDelim)?));
        self.body(&name, context)?;
        Ok(Node::new(at, NodeKind::Template { name, pipe }))
    }

    fn template(&mut self) -> Parsed<Node> {
        let context = "template clause";
        let at = self.peek_non_space().at;
        let name = self.template_name(context)?;
        let token = self.next_non_space();
        let mut pipe = None;
        if token.class != Class::RightDelim {
            self.back.push(token);
            pipe = Some(Box::new(self.pipeline(context, Class::RightDelim)?));
        }
        Ok(Node::new(at, NodeKind::Template { name, pipe }))
    }

    fn template_name(&mut self, context: &str) -> Parsed<String> {
        let token = self.next_non_space();
        if !matches!(token.class, Class::String | Class::RawString) {
            return self.unexpected(&token, context);
        }
        unquoted(&token)
    }

    fn pipeline(&mut self, context: &str, end: Class) -> Parsed<Node> {
        let at = self.peek_non_space().at;
        let mut pipe = Pipe {
            assigns: false,
            variables: Vec::new(),
            commands: Vec::new(),
        };
        self.declarations(&mut pipe, context)?;
        loop {
            let token = self.next_non_space();
            match token.class {
                class if class == end => break,
                Class::Bool
                | Class::CharConstant
                | Class::Complex
                | Class::Dot
                | Class::Field
                | Class::Identifier
                | Class::Number
                | Class::RawString
                | Class::String
                | Class::Variable
                | Class::LeftParen => {}
                _ if token.is("nil") => {}
                _ => return self.unexpected(&token, context),
            }
            self.back.push(token);
            let command = self.command()?;
            pipe.commands.push(command);
        }
        if pipe.commands.is_empty() {
            return fail(format!("missing value for {context}"));
        }
        for (stage, command) in pipe.commands.iter().enumerate().skip(1) {
            let NodeKind::Command(arguments) = &command.kind else {
                continue;
            };
            if let Some(
                NodeKind::Bool(_)
                | NodeKind::Dot
                | NodeKind::Nil
                | NodeKind::Number(_)
                | NodeKind::Literal(_),
            ) = arguments.first().map(|first| &first.kind)
            {
                let stage = stage + 1;
                return fail(format!("non executable command in pipeline stage {stage}"));
            }
        }
        Ok(Node::new(at, NodeKind::Pipe(pipe)))
    }

    /// Parses the variables that a pipeline sets.
    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parsed<()> {
        while self.peek_non_space().class == Class::Variable {
            let variable = self.next_non_space();
            let behind = self.peek();
            let next = self.peek_non_space();
            match next.class {
                Class::Assign | Class::Declare => {
                    pipe.assigns = next.class == Class::Assign;
                    self.next_non_space();
                    self.declare(pipe, variable);
                    return Ok(());
                }
                Class::Char if next.text == "," => {
                    self.next_non_space();
                    self.declare(pipe, variable);
                    if context != "range" || pipe.variables.len() >= 2 {
                        return fail(format!("too many declarations in {context}"));
                    }
                    let class = self.peek_non_space().class;
                    if !matches!(
                        class,
                        Class::Variable | Class::RightDelim | Class::RightParen
                    ) {
                        return fail("range can only initialize variables");
                    }
                }
                _ => {
                    // The space matters: `$x .a` is a variable and a field, `$x.a` a variable's field.
                    if behind.class == Class::Space {
                        self.back.push(behind);
                    }
                    self.back.push(variable);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, pipe: &mut Pipe, variable: Token) {
        self.variables.push(variable.text.clone());
        pipe.variables.push(variable.text);
    }

    fn command(&mut self) -> Parsed<Node> {
        let at = self.peek_non_space().at;
        let mut arguments = Vec::new();
        loop {
            self.peek_non_space();
            arguments.extend(self.operand()?);
            let token = self.next();
            match token.class {
                Class::Space => continue,
                Class::RightDelim | Class::RightParen => self.back.push(token),
                Class::Pipe => {}
                _ => return self.unexpected(&token, "operand"),
            }
            break;
        }
        if arguments.is_empty() {
            return fail("empty command");
        }
        Ok(Node::new(at, NodeKind::Command(arguments)))
    }

    fn operand(&mut self) -> Parsed<Option<Node>> {
        let Some(term) = self.term()? else {
            return Ok(None);
        };
        let token = self.peek();
        if token.class != Class::Field {
            return Ok(Some(term));
        }
        let mut fields = Vec::new();
        while self.peek().class == Class::Field {
            fields.push(self.next().text.trim_start_matches('.').to_owned());
        }
        let kind = match term.kind {
            NodeKind::Field(mut names) => {
                names.append(&mut fields);
                NodeKind::Field(names)
            }
            NodeKind::Variable(mut names) => {
                names.append(&mut fields);
                NodeKind::Variable(names)
            }
            NodeKind::Bool(_)
            | NodeKind::Literal(_)
            | NodeKind::Number(_)
            | NodeKind::Nil
            | NodeKind::Dot => {
                let term = quote(&term.to_string());
                return fail(format!("unexpected . after term {term}"));
            }
            _ => NodeKind::Chain {
                of: Box::new(term),
                fields,
            },
        };
        Ok(Some(Node::new(token.at, kind)))
    }

    fn term(&mut self) -> Parsed<Option<Node>> {
        let token = self.next_non_space();
        let kind = match token.class {
            Class::Identifier => {
                if !(self.knows)(&token.text) {
                    return fail(format!("function {} not defined", quote(&token.text)));
                }
                NodeKind::Identifier(token.text)
            }
            Class::Dot => NodeKind::Dot,
            Class::Keyword if token.text == "nil" => NodeKind::Nil,
            Class::Variable => {
                if !self.variables.contains(&token.text) {
                    return fail(format!("undefined variable {}", quote(&token.text)));
                }
                NodeKind::Variable(vec![token.text])
            }
            Class::Field => NodeKind::Field(vec![token.text.trim_start_matches('.').to_owned()]),
            Class::Bool => NodeKind::Bool(token.text == "true"),
            Class::CharConstant | Class::Complex | Class::Number => {
                NodeKind::Number(number(&token)?)
            }
            Class::LeftParen => {
                let context = "parenthesized pipeline";
                let pipe = self.nested(|parser| parser.pipeline(context, Class::RightParen))?;
                return Ok(Some(pipe));
            }
            Class::String | Class::RawString => {
                let text = unquoted(&token)?;
                NodeKind::Literal(Quoted {
                    literal: token.text,
                    text,
                })
            }
            _ => {
                self.back.push(token);
                return Ok(None);
            }
        };
        Ok(Some(Node::new(token.at, kind)))
    }
}

fn unquoted(token: &Token) -> Parsed<String> {
    unquote(&token.text).ok_or_else(|| Fail("invalid syntax".to_owned()))
}

fn number(token: &Token) -> Parsed<Number> {
    let literal = &token.text;
    let mut number = Number {
        literal: literal.clone(),
        int: None,
        float: None,
        too_large: false,
    };
    if token.class == Class::CharConstant {
        let Some(c) = unquote_char(literal) else {
            return fail(format!("malformed character constant: {literal}"));
        };
        number.int = Some(i64::from(u32::from(c)));
        number.float = Some(f64::from(u32::from(c)));
        return Ok(number);
    }
    if literal.ends_with('i') && !literal.starts_with("0x") {
        // Nothing in a rule can be done with them.
        return fail(format!("complex constants are not supported: {literal}"));
    }
    number.int = parse_integer(literal);
    if let Some(int) = number.int {
        #[expect(clippy::cast_precision_loss, reason = "as in Go")]
        let float = int as f64;
        number.float = Some(float);
        return Ok(number);
    }
    let digits = literal.replace('_', "");
    let is_float = literal.contains(['.', 'e', 'E']) && !literal.starts_with("0x");
    match digits.parse::<f64>().ok().filter(|float| float.is_finite()) {
        Some(float) if is_float => {
            number.float = Some(float);
            #[expect(clippy::cast_possible_truncation, reason = "compared just below")]
            let int = float as i64;
            #[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "as in Go")]
            let whole = int as f64 == float;
            number.int = whole.then_some(int);
            Ok(number)
        }
        Some(_) if !digits.starts_with('0') && digits.parse::<u64>().is_ok() => {
            number.too_large = true;
            Ok(number)
        }
        Some(_) => fail(format!("integer overflow: {}", quote(literal))),
        None => fail(format!("illegal number syntax: {}", quote(literal))),
    }
}
