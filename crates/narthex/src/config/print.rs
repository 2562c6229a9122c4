//! Writes the configuration in effect as YAML, in the layout of Prometheus.
//!
//! No YAML library is used: none quotes, folds and orders as Go's does, and the tests compare with Go's text.
//!
//! **Invariant:** a secret is written as `<secret>`, a URL's password as `xxxxx`.

use super::{
    access::{Access as _, parse_period, parse_size, show_period, show_size},
    keys::{KeyKind, Section},
};
use narthex_yaml::{Node, Scalar, Value};
use std::cmp::Ordering;

const SECRET: &str = "<secret>";

/// Column from which a plain text breaks at its next space.
const WIDTH: usize = 80;

/// Longest simple key, in bytes; longer keys get a question mark and their own line.
const SIMPLE_KEY_BYTES: usize = 128;

/// Returns a filled tree as YAML.
pub(super) fn print(node: &Node, section: &Section) -> String {
    let mut printer = Printer {
        out: String::new(),
        column: 0,
        breaks: true,
        flow: false,
    };
    printer.section(node, section, 0);
    printer.out
}

struct Printer {
    out: String,
    column: usize,
    /// Whether a text may continue on the next line.
    breaks: bool,
    /// Whether inside brackets, where lines do not form blocks.
    flow: bool,
}

impl Printer {
    fn write(&mut self, text: &str) {
        self.out.push_str(text);
        match text.rsplit_once('\n') {
            Some((_, last)) => self.column = last.chars().count(),
            None => self.column += text.chars().count(),
        }
    }

    fn begin_line(&mut self, indent: usize) {
        // The first key of a list item follows its dash.
        if !self.out.is_empty() && !self.out.ends_with("- ") {
            self.break_line(indent);
        }
    }

    fn break_line(&mut self, indent: usize) {
        self.write("\n");
        self.write(&" ".repeat(indent));
    }

    fn section(&mut self, node: &Node, section: &Section, indent: usize) {
        for key in section.keys() {
            let absent = Node::new(Value::Null);
            let value = node.get(key.name).unwrap_or(&absent);
            if printable(value, key.kind, key.always) {
                self.begin_line(indent);
                self.write(key.name);
                self.write(":");
                self.value(value, key.kind, indent);
            }
        }
        if indent == 0 {
            self.write("\n");
        }
    }

    /// Writes a value after its key, which is indented by `indent`.
    fn value(&mut self, node: &Node, kind: KeyKind, indent: usize) {
        match kind {
            KeyKind::Section(section) if is_empty(node, section) => self.write(" {}"),
            KeyKind::Section(section) => self.section(node, section, indent + 2),
            KeyKind::Sections(section) => {
                for item in node.list() {
                    self.begin_line(indent);
                    self.write("- ");
                    if is_empty(item, section) {
                        self.write("{}");
                    } else {
                        self.section(item, section, indent + 2);
                    }
                }
            }
            KeyKind::Named(_) | KeyKind::Labels | KeyKind::Params | KeyKind::SecretParams => {
                for (name, item) in sorted(node) {
                    self.begin_line(indent + 2);
                    self.key(name, indent + 2);
                    self.write(":");
                    match kind {
                        KeyKind::Named(section) => self.section(item, section, indent + 4),
                        KeyKind::Labels => self.scalar(item, KeyKind::Text, indent + 4),
                        _ => self.texts(item, kind, indent + 2),
                    }
                }
            }
            KeyKind::FlowTexts => self.flow(node, indent),
            KeyKind::Texts | KeyKind::Paths | KeyKind::Secrets => self.texts(node, kind, indent),
            _ => self.scalar(node, kind, indent + 2),
        }
    }

    /// Writes a key that comes from the file.
    fn key(&mut self, name: &str, indent: usize) {
        if name.len() <= SIMPLE_KEY_BYTES && !name.contains('\n') {
            self.breaks = false;
            self.text(name, indent);
            self.breaks = true;
        } else {
            self.write("? ");
            self.text(name, indent + 2);
            self.begin_line(indent);
        }
    }

    fn texts(&mut self, node: &Node, kind: KeyKind, indent: usize) {
        let items = node.list();
        if items.is_empty() {
            self.write(" []");
        }
        for item in items {
            self.begin_line(indent);
            self.write("- ");
            if matches!(kind, KeyKind::Secrets | KeyKind::SecretParams) {
                self.write(SECRET);
            } else {
                self.text(item.as_text(), indent + 2);
            }
        }
    }

    fn flow(&mut self, node: &Node, indent: usize) {
        self.write(" [");
        self.flow = true;
        for (number, item) in node.list().iter().enumerate() {
            if number > 0 {
                self.write(",");
                if self.column > WIDTH {
                    self.break_line(indent + 2);
                } else {
                    self.write(" ");
                }
            }
            self.text(item.as_text(), indent + 2);
        }
        self.flow = false;
        self.write("]");
    }

    fn scalar(&mut self, node: &Node, kind: KeyKind, indent: usize) {
        self.write(" ");
        let (text, scalar) = (node.as_text(), node.scalar());
        match kind {
            KeyKind::Secret => self.write(SECRET),
            KeyKind::Bool => {
                let value = scalar.and_then(Scalar::boolean).unwrap_or_default();
                self.write(if value { "true" } else { "false" });
            }
            KeyKind::Count | KeyKind::Number => {
                let value = scalar.and_then(Scalar::integer).unwrap_or_default();
                self.write(&value.to_string());
            }
            KeyKind::Float => {
                let value = scalar.and_then(Scalar::float).unwrap_or_default();
                self.write(&value.to_string());
            }
            KeyKind::Period => self.write(&show_period(parse_period(text).unwrap_or_default())),
            KeyKind::Size => self.write(&show_size(parse_size(text).unwrap_or_default())),
            KeyKind::Url => self.text(&redacted(text), indent),
            KeyKind::Any => self.write("{}"),
            _ => self.text(text, indent),
        }
    }

    /// Writes a text, quoted if it would be read as something else.
    fn text(&mut self, text: &str, indent: usize) {
        if Scalar::is_ambiguous(text) || is_old_number(text) || is_time(text) {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
            return self.write(&format!("\"{escaped}\""));
        }
        let odd = text
            .chars()
            .any(|c| c.is_control() && c != '\n' || c == '\u{feff}');
        // A block would lose spaces at the end of a line.
        let blank_ends = text.contains(" \n") || text.ends_with(' ');
        if text.contains('\n') && !(self.flow || odd || blank_ends) {
            return self.block(text, indent);
        }
        if text.contains('\n') || odd {
            let quoted: String = text.chars().map(escape).collect();
            return self.folded(&format!("\"{quoted}\""), indent, 1);
        }
        if needs_quotes(text) {
            let doubled = text.replace('\'', "''");
            self.folded(&format!("'{doubled}'"), indent, 1);
        } else {
            self.folded(text, indent, 0);
        }
    }

    /// Writes words, breaking the line at single spaces beyond the width; `quotes` counts the quotes at both ends.
    fn folded(&mut self, text: &str, indent: usize, quotes: usize) {
        let letters: Vec<char> = text.chars().collect();
        let last = letters.len().saturating_sub(1 + quotes);
        let mut after_space = false;
        for (at, &letter) in letters.iter().enumerate() {
            let next_is_space = letters.get(at + 1) == Some(&' ');
            let inside = at > quotes && at < last;
            let wide = self.breaks && self.column > WIDTH;
            if letter == ' ' && !after_space && wide && inside && !next_is_space {
                self.break_line(indent);
            } else {
                self.write(letter.encode_utf8(&mut [0; 4]));
            }
            after_space = letter == ' ';
        }
    }

    /// Writes a text of several lines as a block.
    fn block(&mut self, text: &str, indent: usize) {
        let trimmed = text.trim_end_matches('\n');
        let chomping = match text.len() - trimmed.len() {
            0 => "-",
            1 => "",
            _ => "+",
        };
        let hint = if text.starts_with([' ', '\n']) {
            "2"
        } else {
            ""
        };
        self.write(&format!("|{hint}{chomping}"));
        for line in trimmed.split('\n') {
            self.write("\n");
            if !line.is_empty() {
                self.write(&" ".repeat(indent));
                self.write(line);
            }
        }
        for _ in 1..text.len() - trimmed.len() {
            self.write("\n");
        }
    }
}

fn escape(c: char) -> String {
    match c {
        '\\' => "\\\\".to_owned(),
        '"' => "\\\"".to_owned(),
        '\t' => "\\t".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\0' => "\\0".to_owned(),
        c if c.is_control() && (c as u32) < 0x100 => format!("\\x{:02X}", c as u32),
        '\u{feff}' => "\\uFEFF".to_owned(),
        c => c.to_string(),
    }
}

/// Reports whether a YAML 1.1 reader would take the text for a base-60 number.
fn is_old_number(text: &str) -> bool {
    let digits =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut parts = text.strip_prefix(['-', '+']).unwrap_or(text).split(':');
    let first = parts
        .next()
        .is_some_and(|part| digits(part) && !part.starts_with('_'));
    let mut rest = parts.peekable();
    first
        && rest.peek().is_some()
        && rest.all(|part| {
            let whole = part.split_once('.').map_or(part, |(whole, _)| whole);
            (1..=2).contains(&whole.len())
                && digits(whole)
                && whole.as_bytes().first() < Some(&b'6')
                || whole.len() == 1 && digits(whole)
        })
}

/// Reports whether a text is a date, with or without a time.
fn is_time(text: &str) -> bool {
    let digits = |part: Option<&str>, lengths: std::ops::RangeInclusive<usize>| {
        part.is_some_and(|part| {
            lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
        })
    };
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let mut parts = date.split('-');
    digits(parts.next(), 4..=4)
        && digits(parts.next(), 1..=2)
        && digits(parts.next(), 1..=2)
        && parts.next().is_none()
        && (time.is_empty() || time[1..].split(':').count() >= 3)
}

/// Reports whether a plain text would be read as markup.
fn needs_quotes(text: &str) -> bool {
    let first = text.chars().next().unwrap_or_default();
    let second = text.chars().nth(1);
    let spaced = |c: Option<char>| c.is_none_or(char::is_whitespace);
    "#,[]{}&*!|>'\"%@`".contains(first)
        || ("-?:".contains(first) && spaced(second))
        || text.starts_with("---")
        || text.starts_with("...")
        || text.starts_with(' ')
        || text.ends_with(' ')
        || text.ends_with(':')
        || text.contains(": ")
        || text.contains(" #")
}

fn sorted(node: &Node) -> Vec<(&str, &Node)> {
    let pairs = node.entries().iter();
    let mut pairs: Vec<_> = pairs.map(|(word, node)| (&*word.text, node)).collect();
    pairs.sort_by(|(a, _), (b, _)| natural_order(a, b));
    pairs
}

/// Compares names in the order of Go's writer: numbers by value, letters after everything else.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let parted = left.iter().zip(&right).position(|(a, b)| a != b);
    let Some(at) = parted else {
        return left.len().cmp(&right.len());
    };
    let (a, b) = (left.get(at).copied(), right.get(at).copied());
    let letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    match (letter(a), letter(b)) {
        (true, true) => return a.cmp(&b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let digits = |text: &[char]| -> String {
        let rest = text.get(at..).unwrap_or_default();
        rest.iter().take_while(|c| c.is_ascii_digit()).collect()
    };
    let (x, y) = (digits(&left), digits(&right));
    let earlier = left
        .iter()
        .take(at)
        .rev()
        .take_while(|c| c.is_ascii_digit());
    // A differing zero counts as part of the number around it.
    let zero = a == Some('0') || b == Some('0');
    let leading = zero && earlier.into_iter().any(|&c| c != '0');
    let value = |digits: &str| {
        let text = format!("{}{digits}", u8::from(leading));
        text.parse::<u64>().unwrap_or(u64::MAX)
    };
    value(&x)
        .cmp(&value(&y))
        .then(x.len().cmp(&y.len()))
        .then(a.cmp(&b))
}

fn printable(node: &Node, kind: KeyKind, always: bool) -> bool {
    always
        || match kind {
            KeyKind::Section(section) => !node.is_null() && !is_zero_section(node, section),
            _ => !node.is_zero(kind),
        }
}

/// Reports whether a section has nothing to print.
fn is_empty(node: &Node, section: &Section) -> bool {
    section.keys().all(|key| {
        let absent = Node::new(Value::Null);
        let value = node.get(key.name).unwrap_or(&absent);
        !printable(value, key.kind, key.always)
    })
}

/// Reports whether a section prints the same as an absent one.
fn is_zero_section(node: &Node, section: &Section) -> bool {
    section
        .keys()
        .all(|key| match (node.get(key.name), key.kind) {
            (None, _) => true,
            (Some(value), KeyKind::Section(inner)) => is_zero_section(value, inner),
            (Some(value), kind) => value.is_zero(kind),
        })
}

/// Returns the URL with its password replaced.
fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority
        .rsplit_once('@')
        .and_then(|(user, host)| Some((user.split_once(':')?.0, host)))
    {
        Some((user, host)) => format!("{scheme}://{user}:xxxxx@{host}{path}"),
        None => url.to_owned(),
    }
}
