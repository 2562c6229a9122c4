//! Parses Go's syntax and translates it for the `regex` crate.
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
//! **Invariant:** an atom's text is one unit: a following operator applies to all of it. Flags never reach the
//! output; they are resolved in each atom.

use super::{PatternError, class, cost, exact::product};

/// Deepest nesting of groups.
pub(super) const MAX_DEPTH: usize = 200;

/// Largest repetition count, nested counts multiplied.
const MAX_REPEAT: u32 = 1000;

/// Flags in effect at one place of a pattern.
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

/// A translated pattern.
pub(super) struct Translation {
    pub(super) text: String,
    /// The name of each group, the whole match first.
    pub(super) names: Vec<Option<Box<str>>>,
    /// The only texts that match as a whole, when they can be enumerated.
    pub(super) exact: Option<Vec<String>>,
    /// Whether every branch begins and ends with an anchor, so that only a whole text matches.
    pub(super) anchored: bool,
    /// Upper bound on the peak memory of compiling, in bytes.
    pub(super) cost_bytes: u64,
}

/// One unit of the output.
struct Atom {
    text: String,
    /// Product of the repetition counts of the innermost part.
    repeats: u32,
    kind: AtomKind,
    exact: Option<Vec<String>>,
    cost_bytes: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum AtomKind {
    Plain,
    /// Already repeated: needs a group around it to be repeated again.
    Repeated,
    Begin,
    End,
}

/// An open group, or the whole pattern.
///
/// Only the last atom, which a repetition may still follow, is kept separate; earlier ones are joined at once, so
/// that parsing a pattern costs little more than its text.
struct Group {
    opening: &'static str,
    /// Flags to restore after the group.
    flags: Flags,
    /// The completed branches.
    ended: Option<Atom>,
    branch: Branch,
    last: Option<Atom>,
    /// Whether every branch so far begins and ends with an anchor.
    anchored: bool,
}

/// The part of a branch read so far.
struct Branch {
    /// Its atoms as one.
    atom: Atom,
    /// Whether its first atom is a start anchor; `None` while there is no atom.
    begins: Option<bool>,
    /// Whether its last atom is an end anchor.
    ends: bool,
    /// Whether it contains anything but anchors.
    has_text: bool,
}

struct Parser<'a> {
    whole: &'a str,
    rest: &'a str,
    flags: Flags,
    outer: Vec<Group>,
    group: Group,
    names: Vec<Option<Box<str>>>,
    /// Whether the caller needs the groups: capturing costs memory and time.
    captures: bool,
    /// Bytes by which the lists of texts have outgrown the pattern.
    copied: usize,
}

/// Translates `pattern`, starting with `flags`; its groups capture if `captures` is set.
pub(super) fn translate(
    pattern: &str,
    flags: Flags,
    captures: bool,
) -> Result<Translation, PatternError> {
    let mut parser = Parser {
        whole: pattern,
        rest: pattern,
        flags,
        outer: Vec::new(),
        group: Group::new("", flags),
        names: vec![None],
        captures,
        copied: 0,
    };
    parser.run()?;
    if !parser.outer.is_empty() {
        return Err(PatternError::new("missing closing )", pattern));
    }
    let mut group = parser.group;
    group.end_branch(&mut parser.copied);
    let anchored = group.anchored;
    let whole = group.finish();
    let mut base_bytes = cost::BASE;
    if parser.names.len() > 1 {
        base_bytes += cost::captures(whole.cost_bytes);
    }
    Ok(Translation {
        text: whole.text,
        names: parser.names,
        exact: whole.exact,
        anchored,
        cost_bytes: whole.cost_bytes.saturating_add(base_bytes),
    })
}

impl Atom {
    fn new(text: impl Into<String>, cost_bytes: u64) -> Self {
        Self {
            text: text.into(),
            repeats: 1,
            kind: AtomKind::Plain,
            exact: None,
            cost_bytes,
        }
    }

    fn literal(c: char, fold: bool) -> Self {
        let escaped = regex::escape(c.encode_utf8(&mut [0; 4]));
        if fold && has_case(c) {
            return Self::new(format!("(?i:{escaped})"), cost::folded(c));
        }
        Self {
            exact: Some(vec![c.to_string()]),
            ..Self::new(escaped, cost::literal(c))
        }
    }

    fn assertion(text: &str, kind: AtomKind) -> Self {
        Self {
            kind,
            ..Self::new(text, cost::ASSERTION)
        }
    }
}

/// Reports whether `c` can differ from another character by case alone.
fn has_case(c: char) -> bool {
    // Symbols such as circled letters have case but are not letters.
    !c.is_ascii() || c.is_ascii_alphabetic()
}

impl Branch {
    fn new() -> Self {
        Self {
            atom: Atom {
                exact: Some(vec![String::new()]),
                ..Atom::new("", 0)
            },
            begins: None,
            ends: false,
            has_text: false,
        }
    }

    /// Joins an atom; `outermost` means that the branch begins and ends where the whole pattern does.
    fn join(&mut self, atom: Atom, outermost: bool, copied: &mut usize) {
        // Anchors at the ends of a whole match are redundant; elsewhere they rule out a list of texts.
        let kind = if outermost {
            atom.kind
        } else {
            AtomKind::Plain
        };
        self.begins.get_or_insert(kind == AtomKind::Begin);
        let whole = &mut self.atom;
        whole.exact = match kind {
            AtomKind::Begin if !self.has_text && !self.ends => whole.exact.take(),
            AtomKind::End => whole.exact.take(),
            _ if self.ends => None,
            _ => {
                self.has_text = true;
                let exact = whole.exact.take().zip(atom.exact.as_deref());
                exact.and_then(|(left, right)| product(left, right, copied))
            }
        };
        self.ends = kind == AtomKind::End;
        whole.repeats = whole.repeats.max(atom.repeats);
        whole.cost_bytes = whole.cost_bytes.saturating_add(atom.cost_bytes);
        whole.text.push_str(&atom.text);
    }
}

impl Group {
    fn new(opening: &'static str, flags: Flags) -> Self {
        Self {
            opening,
            flags,
            ended: None,
            branch: Branch::new(),
            last: None,
            anchored: true,
        }
    }

    /// Reports whether the group begins and ends where the whole pattern does.
    fn is_outermost(&self) -> bool {
        self.opening.is_empty()
    }

    fn push(&mut self, atom: Atom, copied: &mut usize) {
        let outermost = self.is_outermost();
        if let Some(before) = self.last.replace(atom) {
            self.branch.join(before, outermost, copied);
        }
    }

    /// Moves the current branch to the completed ones.
    fn end_branch(&mut self, copied: &mut usize) {
        let outermost = self.is_outermost();
        if let Some(last) = self.last.take() {
            self.branch.join(last, outermost, copied);
        }
        let branch = std::mem::replace(&mut self.branch, Branch::new());
        self.anchored &= branch.begins == Some(true) && branch.ends;
        let branch = branch.atom;
        let Some(ended) = &mut self.ended else {
            self.ended = Some(Atom {
                text: format!("{}{}", self.opening, branch.text),
                ..branch
            });
            return;
        };
        ended.text.push('|');
        ended.text.push_str(&branch.text);
        ended.repeats = ended.repeats.max(branch.repeats);
        ended.cost_bytes = ended
            .cost_bytes
            .saturating_add(branch.cost_bytes + cost::BRANCH);
        ended.exact = ended.exact.take().zip(branch.exact).map(|(mut all, more)| {
            all.extend(more);
            all
        });
    }

    /// Joins all branches, which must be complete, into one atom.
    fn finish(self) -> Atom {
        let mut atom = self.ended.unwrap_or_else(|| Atom::new(self.opening, 0));
        if !self.opening.is_empty() {
            atom.text.push(')');
            atom.cost_bytes = atom.cost_bytes.saturating_add(cost::GROUP);
        }
        atom
    }
}

impl<'a> Parser<'a> {
    fn run(&mut self) -> Result<(), PatternError> {
        // Start of the preceding repetition: two in a row are an error.
        let mut repetition: Option<&'a str> = None;
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeated = None;
            match c {
                '(' if before.starts_with("(?") => self.extension()?,
                '(' => {
                    self.skip(1);
                    self.open_capturing(None)?;
                }
                ')' => self.close()?,
                '|' => {
                    self.skip(1);
                    self.group.end_branch(&mut self.copied);
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
                '^' => self.anchor(1, r"\A", "(?m:^)", AtomKind::Begin),
                '$' => self.anchor(1, r"\z", "(?m:$)", AtomKind::End),
                '.' => {
                    self.skip(1);
                    let any = if self.flags.dot_newline {
                        "(?s:.)"
                    } else {
                        r"[^\n]"
                    };
                    self.push(Atom::new(any, cost::ANY));
                }
                '[' => {
                    let (class, rest) = class::bracketed(before, self.flags.fold)?;
                    self.rest = rest;
                    self.push(Atom {
                        exact: class.exact,
                        ..Atom::new(class.text, class.cost_bytes)
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
        self.group.push(atom, &mut self.copied);
    }

    fn literal(&mut self, c: char) {
        self.skip(c.len_utf8());
        self.push(Atom::literal(c, self.flags.fold));
    }

    fn anchor(&mut self, bytes: usize, text: &str, line: &str, kind: AtomKind) {
        self.skip(bytes);
        self.push(if self.flags.multiline {
            Atom::assertion(line, AtomKind::Plain)
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
        group.end_branch(&mut self.copied);
        self.flags = group.flags;
        self.push(group.finish());
        Ok(())
    }

    /// Repeats the last atom; `before` is the pattern from the operator on, `rest` the part after it.
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
        let Some(atom) = self.group.last.as_mut() else {
            let reason = "missing argument to repetition operator";
            return Err(PatternError::new(reason, whole));
        };
        if let Some(counts) = counts {
            atom.repeats = atom.repeats.saturating_mul(counts.copies());
            if atom.repeats > MAX_REPEAT {
                return Err(PatternError::new("invalid repeat count", whole));
            }
            let copies = u64::from(counts.copies()) + 1;
            atom.cost_bytes = atom.cost_bytes.saturating_mul(copies);
        }
        atom.cost_bytes = atom.cost_bytes.saturating_add(cost::REPETITION);
        if atom.kind == AtomKind::Repeated {
            atom.text = format!("(?:{})", atom.text);
        }
        atom.text.push_str(&operator);
        if lazy {
            atom.text.push('?');
        }
        atom.kind = AtomKind::Repeated;
        if operator == "?" {
            if let Some(exact) = &mut atom.exact {
                exact.push(String::new());
            }
        } else {
            atom.exact = None;
        }
        Ok(())
    }

    /// Parses a construct that begins with `(?`.
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
        self.rest = rest;
        self.open_capturing(Some(name))
    }

    fn open_capturing(&mut self, name: Option<&str>) -> Result<(), PatternError> {
        if !self.captures {
            return self.open("(?:");
        }
        self.names.push(name.map(Box::from));
        self.open("(")
    }

    /// Parses `(?flags)` or opens `(?flags:`.
    fn flag_group(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        self.skip(2);
        let mut flags = self.flags;
        let mut value = true;
        // Whether a flag followed the last sign.
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

    /// Parses an escape sequence.
    fn escape(&mut self) -> Result<(), PatternError> {
        let start = self.rest;
        let mut assertion = |text, kind| {
            self.skip(2);
            self.push(Atom::assertion(text, kind));
        };
        match start.as_bytes().get(1) {
            Some(b'A') => assertion(r"\A", AtomKind::Begin),
            Some(b'z') => assertion(r"\z", AtomKind::End),
            Some(b'b') => assertion(r"(?-u:\b)", AtomKind::Plain),
            Some(b'B') => assertion(r"(?-u:\B)", AtomKind::Plain),
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
                    self.push(Atom::new(class.text, class.cost_bytes));
                } else {
                    let (code, rest) = class::character(start)?;
                    self.rest = rest;
                    self.push(match char::from_u32(code) {
                        Some(c) => Atom::literal(c, self.flags.fold),
                        // A surrogate occurs in no text.
                        None => Atom::new(class::NOTHING, cost::ASSERTION),
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

    /// Returns how many copies there will be, by Go's count.
    fn copies(self) -> u32 {
        self.most.unwrap_or(self.least.max(1))
    }
}

/// Parses `{n}`, `{n,}` or `{n,m}` at the beginning of `text`; anything else is literal text and gives `None`.
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

/// Parses a number without leading zeros; an oversized one saturates far above the limit.
fn number(text: &str) -> Option<(u32, &str)> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}
