//! Reads Go's syntax and writes what the `regex` crate takes for the same.
//!
//! ```text
//! regexp   = branch { "|" branch }
//! branch   = { item }
//! item     = atom [ repeat ]
//! repeat   = ( "*" | "+" | "?" | "{" n [ "," [ m ] ] "}" ) [ "?" ]
//! atom     = literal | "." | "^" | "$" | class | escape | group
//! group    = "(" regexp ")" | "(?P<name>" regexp ")" | "(?" flags ":" regexp ")" | "(?" flags ")"
//! ```
//!
//! **Invariant:** an atom's text is one unit: what follows it applies to all of it. Flags never reach the output, each
//! atom says what it means under them.

use super::{PatternError, class, exact::product};

/// Deepest nesting of groups.
pub(super) const MAX_DEPTH: usize = 200;

/// Most repetitions of one thing, nested ones multiplied.
const MAX_REPEAT: u32 = 1000;

/// What flags mean at one place of a pattern.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    /// `i`: letters match either case.
    pub(super) fold: bool,
    /// `m`: `^` and `$` match at lines.
    pub(super) multiline: bool,
    /// `s`: `.` matches newlines.
    pub(super) dot_newline: bool,
    /// `U`: repetitions are lazy, and greedy with `?`.
    pub(super) lazy: bool,
}

/// A pattern in the other syntax.
pub(super) struct Translation {
    pub(super) text: String,
    /// The name of each group, the whole match first.
    pub(super) names: Vec<Option<Box<str>>>,
    /// The only texts that match as a whole, when they can be listed.
    pub(super) exact: Option<Vec<String>>,
    /// Whether every branch begins and ends with an anchor, so that only a whole text matches.
    pub(super) anchored: bool,
}

/// One unit of the output.
struct Atom {
    text: String,
    /// How often the innermost thing in it is repeated.
    repeats: u32,
    kind: Kind,
    exact: Option<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    /// Already repeated: needs a group around it to be repeated again.
    Repeated,
    Begin,
    End,
}

/// A group that is open, or the whole pattern.
struct Group {
    opening: &'static str,
    /// The flags to return to behind it.
    flags: Flags,
    branches: Vec<Atom>,
    branch: Vec<Atom>,
    /// Whether every branch so far begins and ends with an anchor.
    anchored: bool,
}

struct Parser<'a> {
    whole: &'a str,
    rest: &'a str,
    flags: Flags,
    outer: Vec<Group>,
    group: Group,
    names: Vec<Option<Box<str>>>,
}

/// Translates `pattern`, which begins under `flags`.
pub(super) fn translate(pattern: &str, flags: Flags) -> Result<Translation, PatternError> {
    let mut parser = Parser {
        whole: pattern,
        rest: pattern,
        flags,
        outer: Vec::new(),
        group: Group::new("", flags),
        names: vec![None],
    };
    parser.run()?;
    if !parser.outer.is_empty() {
        return Err(PatternError::new("missing closing )", pattern));
    }
    let mut group = parser.group;
    group.end_branch(true);
    let anchored = group.anchored;
    let whole = group.finish();
    Ok(Translation {
        text: whole.text,
        names: parser.names,
        exact: whole.exact,
        anchored,
    })
}

impl Atom {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            repeats: 1,
            kind: Kind::Plain,
            exact: None,
        }
    }

    fn literal(c: char, fold: bool) -> Self {
        let escaped = regex::escape(c.encode_utf8(&mut [0; 4]));
        if fold && has_case(c) {
            return Self::new(format!("(?i:{escaped})"));
        }
        Self {
            exact: Some(vec![c.to_string()]),
            ..Self::new(escaped)
        }
    }

    fn assertion(text: &str, kind: Kind) -> Self {
        Self {
            kind,
            ..Self::new(text)
        }
    }
}

/// Reports whether `c` can differ from another character by case alone.
fn has_case(c: char) -> bool {
    // Symbols such as circled letters have case and are no letters.
    !c.is_ascii() || c.is_ascii_alphabetic()
}

impl Group {
    fn new(opening: &'static str, flags: Flags) -> Self {
        Self {
            opening,
            flags,
            branches: Vec::new(),
            branch: Vec::new(),
            anchored: true,
        }
    }

    /// Makes one atom of the branch; `outermost` when the branch begins and ends where the whole pattern does.
    fn end_branch(&mut self, outermost: bool) {
        let branch = std::mem::take(&mut self.branch);
        let mut listed: &[Atom] = &branch;
        if outermost {
            self.anchored &= branch.first().is_some_and(|atom| atom.kind == Kind::Begin)
                && branch.last().is_some_and(|atom| atom.kind == Kind::End);
            // Anchors at the ends of a whole match say nothing.
            while let [first, tail @ ..] = listed
                && first.kind == Kind::Begin
            {
                listed = tail;
            }
            while let [head @ .., last] = listed
                && last.kind == Kind::End
            {
                listed = head;
            }
        }
        let mut exact = Some(vec![String::new()]);
        for atom in listed {
            exact = exact
                .zip(atom.exact.as_ref())
                .and_then(|(left, right)| product(left, right));
        }
        let repeats = branch.iter().map(|atom| atom.repeats).max().unwrap_or(1);
        let text = branch.into_iter().map(|atom| atom.text).collect::<String>();
        self.branches.push(Atom {
            text,
            repeats,
            kind: Kind::Plain,
            exact,
        });
    }

    /// Makes one atom of all branches.
    fn finish(self) -> Atom {
        let mut text = self.opening.to_owned();
        let mut exact = Some(Vec::new());
        let mut repeats = 1;
        for (number, branch) in self.branches.into_iter().enumerate() {
            if number > 0 {
                text.push('|');
            }
            text.push_str(&branch.text);
            repeats = repeats.max(branch.repeats);
            exact = exact.zip(branch.exact).map(|(mut all, more)| {
                all.extend(more);
                all
            });
        }
        if !self.opening.is_empty() {
            text.push(')');
        }
        Atom {
            text,
            repeats,
            kind: Kind::Plain,
            exact,
        }
    }
}

impl<'a> Parser<'a> {
    fn run(&mut self) -> Result<(), PatternError> {
        // Where the repetition before this place begins: two of them in a row are an error.
        let mut repetition: Option<&'a str> = None;
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeated = None;
            match c {
                '(' if before.starts_with("(?") => self.extension()?,
                '(' => {
                    self.names.push(None);
                    self.skip(1);
                    self.open("(")?;
                }
                ')' => self.close()?,
                '|' => {
                    self.skip(1);
                    let outermost = self.outer.is_empty();
                    self.group.end_branch(outermost);
                }
                '*' | '+' | '?' => {
                    self.skip(1);
                    self.repeat(before, repetition, None)?;
                    repeated = Some(before);
                }
                '{' => match counts(before) {
                    None => self.literal('{'),
                    Some((counts, rest)) => {
                        self.rest = rest;
                        self.repeat(before, repetition, Some(counts))?;
                        repeated = Some(before);
                    }
                },
                '^' => self.anchor(1, r"\A", "(?m:^)", Kind::Begin),
                '$' => self.anchor(1, r"\z", "(?m:$)", Kind::End),
                '.' => {
                    self.skip(1);
                    self.push(Atom::new(if self.flags.dot_newline {
                        "(?s:.)"
                    } else {
                        r"[^\n]"
                    }));
                }
                '[' => {
                    let (class, rest) = class::bracketed(before, self.flags.fold)?;
                    self.rest = rest;
                    self.push(Atom {
                        exact: class.exact,
                        ..Atom::new(class.text)
                    });
                }
                '\\' => self.escape()?,
                c => self.literal(c),
            }
            repetition = repeated;
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn push(&mut self, atom: Atom) {
        self.group.branch.push(atom);
    }

    fn literal(&mut self, c: char) {
        self.skip(c.len_utf8());
        self.push(Atom::literal(c, self.flags.fold));
    }

    fn anchor(&mut self, bytes: usize, text: &str, line: &str, kind: Kind) {
        self.skip(bytes);
        self.push(if self.flags.multiline {
            Atom::assertion(line, Kind::Plain)
        } else {
            Atom::assertion(text, kind)
        });
    }

    fn open(&mut self, opening: &'static str) -> Result<(), PatternError> {
        if self.outer.len() >= MAX_DEPTH {
            return Err(PatternError::new("expression nests too deeply", self.whole));
        }
        let group = Group::new(opening, self.flags);
        self.outer.push(std::mem::replace(&mut self.group, group));
        Ok(())
    }

    fn close(&mut self) -> Result<(), PatternError> {
        let Some(outer) = self.outer.pop() else {
            return Err(PatternError::new("unexpected )", self.whole));
        };
        self.skip(1);
        let mut group = std::mem::replace(&mut self.group, outer);
        group.end_branch(false);
        self.flags = group.flags;
        self.push(group.finish());
        Ok(())
    }

    /// Repeats the last atom; `before` is the pattern from the operator on, which `rest` is behind.
    fn repeat(
        &mut self,
        before: &'a str,
        previous: Option<&'a str>,
        counts: Option<Counts>,
    ) -> Result<(), PatternError> {
        let behind = self.rest;
        let from_to = |from: &'a str| &from[..from.len() - behind.len()];
        let operator = from_to(before);
        if counts.is_some_and(|counts| !counts.are_valid()) {
            return Err(PatternError::new("invalid repeat count", operator));
        }
        let lazy = match self.rest.strip_prefix('?') {
            Some(rest) => {
                self.rest = rest;
                !self.flags.lazy
            }
            None => self.flags.lazy,
        };
        let quoted = |from: &'a str| &from[..from.len() - self.rest.len()];
        if let Some(previous) = previous {
            let reason = "invalid nested repetition operator";
            return Err(PatternError::new(reason, quoted(previous)));
        }
        let (operator, whole) = (operator.to_owned(), quoted(before));
        let Some(atom) = self.group.branch.last_mut() else {
            let reason = "missing argument to repetition operator";
            return Err(PatternError::new(reason, whole));
        };
        if let Some(counts) = counts {
            atom.repeats = atom.repeats.saturating_mul(counts.copies());
            if atom.repeats > MAX_REPEAT {
                return Err(PatternError::new("invalid repeat count", whole));
            }
        }
        if atom.kind == Kind::Repeated {
            atom.text = format!("(?:{})", atom.text);
        }
        atom.text.push_str(&operator);
        if lazy {
            atom.text.push('?');
        }
        atom.kind = Kind::Repeated;
        if operator == "?" {
            if let Some(exact) = &mut atom.exact {
                exact.push(String::new());
            }
        } else {
            atom.exact = None;
        }
        Ok(())
    }

    /// Reads what begins with `(?`.
    fn extension(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        let named = if start.len() > 4 && start.starts_with("(?P<") {
            start.get(4..)
        } else if start.len() > 3 && start.starts_with("(?<") {
            start.get(3..)
        } else {
            None
        };
        let Some(named) = named else {
            return self.flag_group();
        };
        let reason = "invalid named capture";
        let Some((name, rest)) = named.split_once('>') else {
            return Err(PatternError::new(reason, start));
        };
        let valid = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        if !valid {
            let quoted = &start[..start.len() - rest.len()];
            return Err(PatternError::new(reason, quoted));
        }
        self.names.push(Some(name.into()));
        self.rest = rest;
        self.open("(")
    }

    /// Reads `(?flags)` or opens `(?flags:`.
    fn flag_group(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        self.skip(2);
        let mut flags = self.flags;
        let mut value = true;
        // Whether a flag came behind the last sign.
        let mut seen = false;
        while let Some(c) = self.rest.chars().next() {
            self.skip(c.len_utf8());
            match c {
                'i' => flags.fold = value,
                'm' => flags.multiline = value,
                's' => flags.dot_newline = value,
                'U' => flags.lazy = value,
                '-' if value => {
                    value = false;
                    seen = false;
                    continue;
                }
                ':' | ')' if value || seen => {
                    if c == ':' {
                        self.open("(?:")?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            seen = true;
        }
        let quoted = &start[..start.len() - self.rest.len()];
        Err(PatternError::new(
            "invalid or unsupported Perl syntax",
            quoted,
        ))
    }

    /// Reads what begins with a backslash.
    fn escape(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        match start.as_bytes().get(1) {
            Some(b'A') => {
                self.skip(2);
                self.push(Atom::assertion(r"\A", Kind::Begin));
            }
            Some(b'z') => {
                self.skip(2);
                self.push(Atom::assertion(r"\z", Kind::End));
            }
            Some(b'b') => {
                self.skip(2);
                self.push(Atom::new(r"(?-u:\b)"));
            }
            Some(b'B') => {
                self.skip(2);
                self.push(Atom::new(r"(?-u:\B)"));
            }
            Some(b'C') => return Err(PatternError::new("invalid escape sequence", r"\C")),
            Some(b'Q') => {
                let quoted = start.get(2..).unwrap_or_default();
                let (text, rest) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                for c in text.chars() {
                    self.push(Atom::literal(c, self.flags.fold));
                }
                self.rest = rest;
            }
            _ => {
                if let Some((class, rest)) = class::escaped(start, self.flags.fold)? {
                    self.rest = rest;
                    self.push(Atom::new(class));
                } else {
                    let (code, rest) = class::character(start)?;
                    self.rest = rest;
                    self.push(match char::from_u32(code) {
                        Some(c) => Atom::literal(c, self.flags.fold),
                        // A surrogate: no text holds one.
                        None => Atom::new(class::NOTHING),
                    });
                }
            }
        }
        Ok(())
    }
}

/// The numbers of `{2,5}`.
#[derive(Clone, Copy)]
struct Counts {
    least: u32,
    /// `None` for `{2,}`.
    most: Option<u32>,
}

impl Counts {
    fn are_valid(self) -> bool {
        let most = self.most.unwrap_or(self.least);
        self.least <= MAX_REPEAT && most <= MAX_REPEAT && self.least <= most
    }

    /// Returns how many copies of a thing there will be, as Go counts them.
    fn copies(self) -> u32 {
        self.most.unwrap_or(self.least.max(1))
    }
}

/// Reads `{n}`, `{n,}` or `{n,m}` at the beginning of `text`; `None` when it is something else, which is text.
fn counts(text: &str) -> Option<(Counts, &str)> {
    let (least, rest) = number(text.strip_prefix('{')?)?;
    let (most, rest) = match rest.strip_prefix(',') {
        None => (Some(least), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => {
            let (most, rest) = number(rest)?;
            (Some(most), rest)
        }
    };
    let rest = rest.strip_prefix('}')?;
    Some((Counts { least, most }, rest))
}

/// Reads a number without leading zeros; one too large stays far too large.
fn number(text: &str) -> Option<(u32, &str)> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}
