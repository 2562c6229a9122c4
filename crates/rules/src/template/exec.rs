//! Executes templates, as Go's `text/template` does.
//!
//! **Invariant:** the first error is Go's, with the node and position that Go reports. Time, memory and stack are bounded
//! by [`MAX_STEPS`], [`MAX_TEXT`] and [`MAX_DEPTH`]: Go has no such bounds.

use super::{
    field::{self, Found},
    format::show,
    functions::{self, Param, Signature, Surroundings},
    node::{Branch, BranchKind, Node, NodeKind, Number, Pipe},
    parse::Trees,
    value::{Basic, Value},
};
use narthex_promql::fmt::quote;

/// Most nodes that are executed.
const MAX_STEPS: usize = 1_000_000;

/// Longest text, in bytes: a value's, and the result.
const MAX_TEXT: usize = 1 << 20;

/// Deepest nesting of nodes and templates. Go allows 100,000 templates.
const MAX_DEPTH: usize = 300;

/// What follows a node.
enum Flow {
    Next,
    Break,
    Continue,
}

type Step<T> = Result<T, String>;

/// Executes the template `name` of a text.
///
/// # Errors
/// Fails with Go's text.
pub(super) fn execute(
    trees: &Trees,
    name: &str,
    text: &str,
    data: Value,
    around: &Surroundings<'_>,
) -> Result<String, String> {
    let Some(root) = trees.get(name) else {
        let shown = quote(name);
        return Err(format!(
            "template: {name}: {shown} is an incomplete or empty template"
        ));
    };
    let mut state = State {
        trees,
        main: name,
        text,
        around,
        template: name,
        node: root,
        variables: vec![("$", data.clone())],
        out: String::new(),
        depth: 0,
        steps: 0,
    };
    state.walk(&data, root)?;
    Ok(state.out)
}

struct State<'t> {
    trees: &'t Trees,
    /// Name of the whole text, in positions.
    main: &'t str,
    text: &'t str,
    around: &'t Surroundings<'t>,
    /// Name of the template being executed.
    template: &'t str,
    /// The node that errors report.
    node: &'t Node,
    variables: Vec<(&'t str, Value)>,
    out: String,
    depth: usize,
    steps: usize,
}

impl<'t> State<'t> {
    fn fail<T>(&self, message: impl AsRef<str>) -> Step<T> {
        let before = self.text.get(..self.node.at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before
            .rfind('\n')
            .map_or(before.len(), |newline| before.len() - newline - 1);
        let (main, template) = (self.main, quote(self.template));
        let (node, message) = (self.node, message.as_ref());
        Err(format!(
            "template: {main}:{line}:{column}: executing {template} at <{node}>: {message}"
        ))
    }

    /// Counts a node and a level; [`Self::leave`] takes the level back.
    fn enter(&mut self) -> Step<()> {
        self.steps += 1;
        self.depth += 1;
        if self.steps > MAX_STEPS {
            return self.fail(format!("exceeded maximum number of steps ({MAX_STEPS})"));
        }
        if self.depth > MAX_DEPTH {
            return self.fail(format!("exceeded maximum template depth ({MAX_DEPTH})"));
        }
        Ok(())
    }

    fn leave<T>(&mut self, value: T) -> T {
        self.depth -= 1;
        value
    }

    fn write(&mut self, text: &str) -> Step<()> {
        if self.out.len() + text.len() > MAX_TEXT {
            return self.fail(format!("exceeded maximum length of a text ({MAX_TEXT})"));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn walk(&mut self, dot: &Value, node: &'t Node) -> Step<Flow> {
        self.enter()?;
        let flow = self.walk_node(dot, node)?;
        Ok(self.leave(flow))
    }

    fn walk_node(&mut self, dot: &Value, node: &'t Node) -> Step<Flow> {
        self.node = node;
        match &node.kind {
            NodeKind::Action(pipe) => {
                let value = self.pipeline(dot, pipe)?;
                if pipe.pipe().is_some_and(|pipe| pipe.variables.is_empty()) {
                    self.node = node;
                    self.write(&show(&value))?;
                }
            }
            NodeKind::Break => return Ok(Flow::Break),
            NodeKind::Continue => return Ok(Flow::Continue),
            NodeKind::Branch(branch) => return self.branch(dot, node, branch),
            NodeKind::List(nodes) => {
                for node in nodes {
                    match self.walk(dot, node)? {
                        Flow::Next => {}
                        other => return Ok(other),
                    }
                }
            }
            NodeKind::Template { name, pipe } => self.template(dot, name, pipe.as_deref())?,
            NodeKind::Text(text) => self.write(text)?,
            _ => return self.fail(format!("unknown node: {node}")),
        }
        Ok(Flow::Next)
    }

    fn branch(&mut self, dot: &Value, node: &'t Node, branch: &'t Branch) -> Step<Flow> {
        let mark = self.variables.len();
        let flow = if branch.kind == BranchKind::Range {
            self.node = node;
            self.range(dot, branch)?
        } else {
            let value = self.pipeline(dot, &branch.pipe)?;
            match (&branch.otherwise, value.is_true()) {
                (_, true) if branch.kind == BranchKind::With => self.walk(&value, &branch.list)?,
                (_, true) => self.walk(dot, &branch.list)?,
                (Some(otherwise), false) => self.walk(dot, otherwise)?,
                (None, false) => Flow::Next,
            }
        };
        self.variables.truncate(mark);
        Ok(flow)
    }

    fn range(&mut self, dot: &Value, branch: &'t Branch) -> Step<Flow> {
        let value = self.pipeline(dot, &branch.pipe)?;
        let pipe = branch.pipe.pipe();
        let two = pipe.is_some_and(|pipe| pipe.variables.len() > 1);
        let index = |at: usize| Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
        let text = |text: &String| Value::text(&**text);
        let items: Box<dyn Iterator<Item = (Value, Value)>> = match &value {
            Value::Vector(samples) => {
                let samples = samples.iter().cloned().enumerate();
                Box::new(samples.map(move |(at, sample)| (index(at), Value::Sample(sample))))
            }
            Value::Labels(labels) => {
                Box::new(labels.iter().map(|(name, value)| (text(name), text(value))))
            }
            Value::Args(args) => {
                Box::new(args.iter().map(|(name, value)| (text(name), value.clone())))
            }
            Value::Invalid => Box::new(std::iter::empty()),
            other => match (other.basic(), other.whole()) {
                (Basic::Int | Basic::Uint, Some(_)) if two => {
                    let shown = show(other);
                    return self.fail(format!(
                        "can't use {shown} to iterate over more than one variable"
                    ));
                }
                (Basic::Int | Basic::Uint, Some(count)) => {
                    let kind = other.clone();
                    Box::new((0..count).map(move |at| (Value::Invalid, counted(&kind, at))))
                }
                _ => return self.fail(format!("range can't iterate over {}", show(other))),
            },
        };
        let mark = self.variables.len();
        let mut empty = true;
        for (key, item) in items {
            empty = false;
            self.set_range_variables(pipe, key, &item)?;
            let flow = self.walk(&item, &branch.list)?;
            self.variables.truncate(mark);
            if matches!(flow, Flow::Break) {
                break;
            }
        }
        match &branch.otherwise {
            Some(otherwise) if empty => self.walk(dot, otherwise),
            _ => Ok(Flow::Next),
        }
    }

    fn set_range_variables(
        &mut self,
        pipe: Option<&'t Pipe>,
        key: Value,
        item: &Value,
    ) -> Step<()> {
        let Some(pipe) = pipe else {
            return Ok(());
        };
        let values = match &*pipe.variables {
            [] => return Ok(()),
            [one] => vec![(one, item.clone())],
            [first, second, ..] => vec![(first, key), (second, item.clone())],
        };
        let count = values.len();
        for (at, (name, value)) in values.into_iter().enumerate() {
            if pipe.assigns {
                self.set(name, value)?;
            } else {
                // The pipeline pushed them just before the loop.
                let top = self.variables.len() + at - count;
                if let Some(variable) = self.variables.get_mut(top) {
                    variable.1 = value;
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: Value) -> Step<()> {
        match self
            .variables
            .iter_mut()
            .rev()
            .find(|(other, _)| *other == name)
        {
            Some(variable) => variable.1 = value,
            None => return self.fail(format!("undefined variable: {name}")),
        }
        Ok(())
    }

    fn template(&mut self, dot: &Value, name: &str, pipe: Option<&'t Node>) -> Step<()> {
        let Some((name, root)) = self.trees.get_key_value(name) else {
            return self.fail(format!("template {} not defined", quote(name)));
        };
        let dot = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Invalid,
        };
        let variables = std::mem::replace(&mut self.variables, vec![("$", dot.clone())]);
        let outer = std::mem::replace(&mut self.template, name);
        self.walk(&dot, root)?;
        self.variables = variables;
        self.template = outer;
        Ok(())
    }

    fn pipeline(&mut self, dot: &Value, node: &'t Node) -> Step<Value> {
        self.node = node;
        self.enter()?;
        let Some(pipe) = node.pipe() else {
            return self.fail("not a pipeline");
        };
        let mut last = None;
        for command in &pipe.commands {
            let NodeKind::Command(arguments) = &command.kind else {
                return self.fail("not a command");
            };
            last = Some(self.command(dot, command, arguments, last)?);
        }
        let value = last.unwrap_or(Value::Invalid);
        for name in &pipe.variables {
            if pipe.assigns {
                self.set(name, value.clone())?;
            } else {
                self.variables.push((name, value.clone()));
            }
        }
        Ok(self.leave(value))
    }

    fn command(
        &mut self,
        dot: &Value,
        command: &'t Node,
        arguments: &'t [Node],
        last: Option<Value>,
    ) -> Step<Value> {
        let Some(first) = arguments.first() else {
            return self.fail("empty command");
        };
        match &first.kind {
            NodeKind::Field(_) | NodeKind::Chain { .. } | NodeKind::Variable(_) => {
                return self.fields(dot, first, arguments, last);
            }
            NodeKind::Identifier(name) => {
                self.node = first;
                return self.function(dot, name, command, arguments, last);
            }
            NodeKind::Pipe(_) => {
                self.no_function(arguments, last.as_ref())?;
                return self.pipeline(dot, first);
            }
            _ => {}
        }
        self.node = first;
        self.no_function(arguments, last.as_ref())?;
        match &first.kind {
            NodeKind::Dot => Ok(dot.clone()),
            NodeKind::Nil => self.fail("nil is not a command"),
            _ => self.literal(first),
        }
    }

    fn no_function(&self, arguments: &[Node], last: Option<&Value>) -> Step<()> {
        match arguments {
            [first, ..] if arguments.len() > 1 || last.is_some() => {
                self.fail(format!("can't give argument to non-function {first}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns what a constant means where any type will do.
    fn literal(&mut self, node: &'t Node) -> Step<Value> {
        self.node = node;
        match &node.kind {
            NodeKind::Bool(value) => Ok(Value::Bool(*value)),
            NodeKind::Literal(quoted) => Ok(Value::text(&*quoted.text)),
            NodeKind::Number(number) => match ideal(number) {
                Some(value) => Ok(value),
                None => self.fail(format!("{} overflows int", number.literal)),
            },
            _ => self.fail(format!(
                "can't evaluate command {}",
                quote(&node.to_string())
            )),
        }
    }

    /// Evaluates a field, chain or variable; `arguments` are those of a command, whose first is the node.
    fn fields(
        &mut self,
        dot: &Value,
        node: &'t Node,
        arguments: &'t [Node],
        mut last: Option<Value>,
    ) -> Step<Value> {
        self.node = node;
        let (receiver, names) = match &node.kind {
            NodeKind::Field(names) => (dot.clone(), &**names),
            NodeKind::Variable(names) => {
                let (name, fields) = names
                    .split_first()
                    .map_or(("", &[][..]), |(n, f)| (&**n, f));
                let found = self
                    .variables
                    .iter()
                    .rev()
                    .find(|(other, _)| *other == name);
                let Some(value) = found.map(|(_, value)| value.clone()) else {
                    return self.fail(format!("undefined variable: {name}"));
                };
                if fields.is_empty() {
                    self.no_function(arguments, last.as_ref())?;
                    return Ok(value);
                }
                (value, fields)
            }
            NodeKind::Chain { of, fields } => {
                if matches!(of.kind, NodeKind::Nil) {
                    return self.fail(format!("indirection through explicit nil in {node}"));
                }
                // As in Go, errors go on reporting what was evaluated last.
                (self.argument(dot, Param::Any, of)?, &**fields)
            }
            _ => return self.fail(format!("can't evaluate {node}")),
        };
        let mut receiver = (receiver, false);
        for (at, name) in names.iter().enumerate() {
            let is_last = at + 1 == names.len();
            let arguments = if is_last { arguments } else { &[] };
            let last = last.take_if(|_| is_last);
            receiver = self.field(dot, name, arguments, last, receiver)?;
        }
        Ok(receiver.0)
    }

    /// Evaluates one field or method; also returns whether the field's type is `interface{}`.
    fn field(
        &mut self,
        dot: &Value,
        name: &str,
        arguments: &'t [Node],
        last: Option<Value>,
        (receiver, is_interface): (Value, bool),
    ) -> Step<(Value, bool)> {
        if let Some(signature) = field::method(&receiver, name) {
            let rest = arguments.get(1..).unwrap_or_default();
            let values = self.arguments(dot, name, signature, rest, last)?;
            return Ok((field::call(&receiver, name, &values), false));
        }
        let has_arguments = last.is_some() || arguments.len() > 1;
        match field::get(&receiver, name, is_interface) {
            Found::Field(_) if has_arguments => self.fail(format!(
                "{name} has arguments but cannot be invoked as function"
            )),
            Found::Entry(_) if has_arguments => {
                self.fail(format!("{name} is not a method but has arguments"))
            }
            Found::Field(value) => Ok((value, name == "Value")),
            Found::Entry(value) => Ok((value, matches!(receiver, Value::Args(_)))),
            Found::Nothing(message) => self.fail(message),
        }
    }

    fn function(
        &mut self,
        dot: &Value,
        name: &str,
        node: &'t Node,
        arguments: &'t [Node],
        last: Option<Value>,
    ) -> Step<Value> {
        let Some(signature) = functions::signature(name) else {
            return self.fail(format!("{} is not a defined function", quote(name)));
        };
        let arguments = arguments.get(1..).unwrap_or_default();
        if name == "and" || name == "or" {
            self.check_count(name, signature, arguments.len(), last.is_some())?;
            return self.logic(dot, name == "or", arguments, last);
        }
        let callee = arguments.first().map(ToString::to_string);
        let values = self.arguments(dot, name, signature, arguments, last)?;
        let result = if name == "call" {
            Err(match values.first() {
                None | Some(Value::Invalid) => "call of nil".to_owned(),
                Some(value) => {
                    let callee = callee.unwrap_or_else(|| show(value));
                    format!("non-function {callee} of type {}", value.type_name())
                }
            })
        } else {
            functions::call(name, &values, self.around)
        };
        match result {
            Ok(value) if value.as_str().is_some_and(|text| text.len() > MAX_TEXT) => {
                self.node = node;
                self.fail(format!("exceeded maximum length of a text ({MAX_TEXT})"))
            }
            Ok(value) => Ok(value),
            Err(message) => {
                self.node = node;
                self.fail(format!("error calling {name}: {message}"))
            }
        }
    }

    /// `and` and `or`, which evaluate no more than they need.
    fn logic(
        &mut self,
        dot: &Value,
        stops_at: bool,
        arguments: &'t [Node],
        last: Option<Value>,
    ) -> Step<Value> {
        let mut value = Value::Invalid;
        for argument in arguments {
            value = self.argument(dot, Param::Reflect, argument)?;
            if value.is_true() == stops_at {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    fn check_count(&self, name: &str, signature: Signature, given: usize, piped: bool) -> Step<()> {
        let (count, fixed) = (given + usize::from(piped), signature.fixed.len());
        if signature.variadic.is_some() {
            if count < fixed {
                return self.fail(format!(
                    "wrong number of args for {name}: want at least {fixed} got {given}"
                ));
            }
        } else if count != fixed {
            return self.fail(format!(
                "wrong number of args for {name}: want {fixed} got {count}"
            ));
        }
        Ok(())
    }

    /// Evaluates the arguments of a function or method; the last one may come from the pipeline.
    fn arguments(
        &mut self,
        dot: &Value,
        name: &str,
        signature: Signature,
        arguments: &'t [Node],
        last: Option<Value>,
    ) -> Step<Vec<Value>> {
        self.check_count(name, signature, arguments.len(), last.is_some())?;
        let param = |at: usize| signature.fixed.get(at).copied().or(signature.variadic);
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for (at, argument) in arguments.iter().enumerate() {
            let param = param(at).unwrap_or(Param::Any);
            values.push(self.argument(dot, param, argument)?);
        }
        if let Some(last) = last {
            let param = param(arguments.len()).unwrap_or(Param::Any);
            values.push(self.checked(last, param)?);
        }
        Ok(values)
    }

    /// Evaluates a node as an argument of a type.
    fn argument(&mut self, dot: &Value, param: Param, node: &'t Node) -> Step<Value> {
        self.node = node;
        let value = match &node.kind {
            NodeKind::Dot => dot.clone(),
            NodeKind::Nil => match param {
                Param::Any | Param::Reflect => return Ok(Value::Invalid),
                Param::Vector => return Ok(Value::Vector([].into())),
                Param::Sample => return Ok(Value::NilSample),
                _ => return self.fail(format!("cannot assign nil to {}", param.go_type())),
            },
            NodeKind::Field(_) | NodeKind::Variable(_) | NodeKind::Chain { .. } => {
                self.fields(dot, node, &[], None)?
            }
            NodeKind::Pipe(_) => self.pipeline(dot, node)?,
            NodeKind::Identifier(name) => self.function(dot, name, node, &[], None)?,
            _ => return self.constant(param, node),
        };
        self.checked(value, param)
    }

    /// Returns a constant as an argument of a type.
    fn constant(&mut self, param: Param, node: &'t Node) -> Step<Value> {
        let int = match &node.kind {
            NodeKind::Number(number) => number.int,
            _ => None,
        };
        let (wanted, value) = match param {
            Param::Any | Param::Reflect => return self.literal(node),
            Param::String => match &node.kind {
                NodeKind::Literal(quoted) => ("", Some(Value::text(&*quoted.text))),
                _ => ("string", None),
            },
            Param::Duration => ("integer", int.map(field::duration)),
            Param::Vector | Param::Sample | Param::Time => {
                let wanted = param.go_type();
                return self.fail(format!("can't handle {node} for arg of type {wanted}"));
            }
        };
        match value {
            Some(value) => Ok(value),
            None => self.fail(format!("expected {wanted}; found {node}")),
        }
    }

    /// Checks that a value can be passed as an argument of a type.
    fn checked(&self, value: Value, param: Param) -> Step<Value> {
        match (param, value) {
            (Param::Any | Param::Reflect, value)
            | (Param::String, value @ Value::String(_))
            | (Param::Vector, value @ Value::Vector(_))
            | (Param::Sample, value @ (Value::Sample(_) | Value::NilSample))
            | (Param::Time, value @ (Value::Time(_) | Value::TimePointer(_)))
            | (Param::Duration, value @ (Value::Duration(_) | Value::DurationPointer(_))) => {
                Ok(value)
            }
            (Param::Vector, Value::Invalid) => Ok(Value::Vector([].into())),
            (Param::Sample, Value::Invalid) => Ok(Value::NilSample),
            (param, Value::Invalid) => {
                self.fail(format!("invalid value; expected {}", param.go_type()))
            }
            (param, value) => {
                let (wanted, found) = (param.go_type(), value.type_name());
                self.fail(format!(
                    "wrong type for value; expected {wanted}; got {found}"
                ))
            }
        }
    }
}

/// Returns what a number is where its type is open.
fn ideal(number: &Number) -> Option<Value> {
    let literal = &*number.literal;
    let is_hex = literal.starts_with("0x") || literal.starts_with("0X");
    let is_float = !is_hex && !literal.starts_with('\'') && literal.contains(['.', 'e', 'E']);
    match (number.float, number.int) {
        _ if number.too_large => None,
        (Some(float), _) if is_float => Some(Value::Float(float)),
        (_, int) => int.map(Value::Int),
    }
}

/// Returns the number of an iteration, in the type of the number of iterations.
fn counted(kind: &Value, at: i64) -> Value {
    match kind {
        Value::Int64(_) => Value::Int64(at),
        Value::Byte(_) => Value::Byte(u8::try_from(at).unwrap_or_default()),
        _ => Value::Int(at),
    }
}
