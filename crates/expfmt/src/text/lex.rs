//! Parsing of single lines of the line formats.
//!
//! ```text
//! LINE     := COMMENT | SAMPLE
//! COMMENT  := '#' ( ' HELP ' NAME ' ' TEXT | ' TYPE ' NAME ' ' TYPE | TEXT ) '\n'
//! SAMPLE   := SERIES BLANK VALUE ( BLANK TIMESTAMP )? '\n'
//! SERIES   := NAME LABELS? | LABELS
//! LABELS   := '{' ( LABEL ( ','? LABEL )* ','? )? '}'
//! LABEL    := NAME '=' STRING | STRING '=' STRING | STRING      (a lone string is the metric name)
//! ```
//!
//! OpenMetrics has exactly one blank for BLANK and none elsewhere, no blank lines, commas between labels, and
//!
//! ```text
//! COMMENT  := '# HELP ' NAME ' ' TEXT '\n' | '# TYPE ' NAME ' ' TYPE '\n' | '# UNIT ' NAME ' ' TEXT '\n'
//! SAMPLE   := SERIES ' ' VALUE ( ' ' TIMESTAMP )? EXEMPLAR? '\n'
//! EXEMPLAR := ' # ' LABELS ' ' VALUE ( ' ' TIMESTAMP )?
//! END      := '# EOF' '\n'?
//! ```
//!
//! **Invariant:** never reads outside the body; an error has the offset of the byte concerned.

use crate::{
    error::{ParseError, ParseErrorKind},
    number,
};
use narthex_model::{Exemplar, Label, LabelSet, METRIC_NAME, MetricType};
use std::{borrow::Cow, collections::HashSet, ops::Range};

/// Up to this many labels of a series are compared with each other; more are looked up.
const FEW_LABELS: usize = 64;

/// Line format of a body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Dialect {
    /// Blanks and comments anywhere, times in milliseconds.
    #[default]
    Text,
    /// Single blanks, exemplars, units, times in seconds, an end mark.
    OpenMetrics,
}

/// A comment line with a meaning.
pub(crate) enum Comment<'a> {
    Help(Cow<'a, str>, String),
    Type(Cow<'a, str>, MetricType),
    Unit(Cow<'a, str>, String),
    /// The end mark, with nothing after it.
    Eof,
    Other,
}

/// The part of a line after its series.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub(crate) value: f64,
    pub(crate) time_ms: Option<i64>,
    /// The exemplar's text, from its brace to the end of the line.
    pub(crate) exemplar: Option<Range<usize>>,
    /// Offset after the line's newline.
    pub(crate) end: usize,
}

/// Labels of the previous line, with the positions of their text in the same body.
#[derive(Default)]
pub(crate) struct Memo {
    labels: Vec<(Label, Range<usize>)>,
}

impl Memo {
    /// Returns the labels of the series read last, in the order of its text.
    pub(super) fn labels(&self) -> impl Iterator<Item = &Label> {
        self.labels.iter().map(|(label, _)| label)
    }

    /// Returns the labels without a value in the series read last.
    pub(super) fn blank(&self) -> impl Iterator<Item = Label> {
        let labels = self.labels();
        labels.filter(|label| label.value().is_empty()).cloned()
    }

    /// Returns the length of the text of label `at` when `rest` begins with the same text.
    fn same(&self, at: usize, rest: &[u8], body: &[u8]) -> Option<usize> {
        let (_, span) = self.labels.get(at)?;
        let text = body.get(span.clone())?;
        let ends = match rest.get(text.len()) {
            // A metric name is compared in full, a label including the byte after it.
            None => at == 0,
            Some(next) => text.last() == Some(&b'"') && matches!(next, b',' | b'}'),
        };
        (ends && rest.starts_with(text)).then_some(text.len())
    }

    fn set_label(&mut self, at: usize, label: Label, span: Range<usize>) {
        match self.labels.get_mut(at) {
            Some(entry) => *entry = (label, span),
            None => self.labels.push((label, span)),
        }
    }
}

pub(crate) struct Cursor<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) at: usize,
    dialect: Dialect,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(body: &'a [u8], at: usize, dialect: Dialect) -> Self {
        Self { body, at, dialect }
    }

    pub(super) fn is_openmetrics(&self) -> bool {
        self.dialect == Dialect::OpenMetrics
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    /// Skips the blanks between a series and its value: all of them, or OpenMetrics' single one.
    pub(crate) fn skip_to_value(&mut self) {
        if !self.is_openmetrics() {
            self.skip_blanks();
        } else if self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Skips blanks where the dialect allows them.
    fn skip_free_blanks(&mut self) {
        if !self.is_openmetrics() {
            self.skip_blanks();
        }
    }

    /// Advances to the beginning of the next line.
    pub(super) fn skip_line(&mut self) {
        let rest = self.rest();
        self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
    }

    /// Returns the bytes from here on.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.body.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    pub(crate) fn error(&self, kind: ParseErrorKind) -> ParseError {
        ParseError::at(self.body, self.at, kind)
    }

    pub(crate) fn expected(&self, what: &'static str) -> ParseError {
        if self.at >= self.body.len() {
            return self.error(ParseErrorKind::UnexpectedEnd);
        }
        self.error(ParseErrorKind::Expected {
            what,
            found: excerpt(self.rest_of_line()),
        })
    }

    pub(super) fn rest_of_line(&self) -> &'a [u8] {
        let rest = self.rest();
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        &rest[..end]
    }

    fn expect_byte(&mut self, byte: u8, what: &'static str) -> Result<(), ParseError> {
        if self.peek() != Some(byte) {
            return Err(self.expected(what));
        }
        self.at += 1;
        Ok(())
    }

    fn text(&self, from: usize, to: usize) -> Result<&'a str, ParseError> {
        let bytes = self.body.get(from..to).unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|error| {
            ParseError::at(
                self.body,
                from + error.valid_up_to(),
                ParseErrorKind::NotUtf8,
            )
        })
    }

    /// Reads the rest of a comment line, from after the `#` to after the newline.
    pub(crate) fn comment(&mut self) -> Result<Comment<'a>, ParseError> {
        if self.is_openmetrics() {
            return self.strict_comment();
        }
        let line = self.rest_of_line();
        let end = self.at + line.len();
        let next = end + usize::from(end < self.body.len());
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let mut words = Cursor::new(&self.body[..end], self.at, self.dialect);
        words.skip_blanks();
        let keyword_from = words.at;
        while words.peek().is_some_and(|byte| !blank(&byte)) {
            words.at += 1;
        }
        let keyword = &self.body[keyword_from..words.at];
        // The keyword must be between blanks: `#HELP` and a lone `# HELP` are ordinary comments.
        let between_blanks = keyword_from > self.at && words.peek().is_some();
        let known = between_blanks && matches!(keyword, b"HELP" | b"TYPE");
        if !known {
            self.at = next;
            return Ok(Comment::Other);
        }
        words.skip_blanks();
        let name = words.family_name()?;
        words.skip_blanks();
        let comment = if keyword == b"HELP" {
            Comment::Help(name, unescape_help(self.text(words.at, end)?))
        } else {
            let word = self.text(words.at, end)?.trim_end_matches([' ', '\t']);
            let metric_type = match word {
                "counter" | "gauge" | "histogram" | "summary" | "untyped" => {
                    MetricType::from_name(word)
                }
                _ => None,
            };
            Comment::Type(name, metric_type.ok_or_else(|| words.bad_type(word))?)
        };
        self.at = next;
        Ok(comment)
    }

    /// Reads the rest of an OpenMetrics comment line.
    fn strict_comment(&mut self) -> Result<Comment<'a>, ParseError> {
        let rest = self.rest();
        if let Some(behind) = rest.strip_prefix(b" EOF") {
            let newline = usize::from(behind.first() == Some(&b'\n'));
            self.at += 4 + newline;
            if self.at < self.body.len() {
                return Err(self.error(ParseErrorKind::BehindEof));
            }
            return Ok(Comment::Eof);
        }
        let keyword = match rest.get(..6) {
            Some(keyword @ (b" HELP " | b" TYPE " | b" UNIT ")) => keyword,
            _ => return Err(self.expected("\" HELP \", \" TYPE \", \" UNIT \" or \" EOF\"")),
        };
        self.at += keyword.len();
        let name = self.family_name()?;
        self.expect_byte(b' ', "a blank after the metric name")?;
        let (from, end) = (self.at, self.at + self.rest_of_line().len());
        if end >= self.body.len() {
            return Err(ParseError::at(self.body, end, ParseErrorKind::MissingEof));
        }
        let text = self.text(from, end)?;
        let comment = match keyword {
            b" HELP " => Comment::Help(name, unescape(text)),
            b" UNIT " => {
                let fits = name
                    .strip_suffix(text)
                    .is_some_and(|before| before.ends_with('_'));
                if !text.is_empty() && !fits {
                    let (unit, family) = (text.to_owned(), name.into_owned());
                    return Err(self.error(ParseErrorKind::Unit { unit, family }));
                }
                Comment::Unit(name, text.to_owned())
            }
            _ => {
                let known = MetricType::from_name(text).filter(|_| text != "untyped");
                Comment::Type(name, known.ok_or_else(|| self.bad_type(text))?)
            }
        };
        self.at = end + 1;
        Ok(comment)
    }

    fn bad_type(&self, word: &str) -> ParseError {
        let word = excerpt(word.as_bytes());
        self.error(ParseErrorKind::MetricType { word })
    }

    fn family_name(&mut self) -> Result<Cow<'a, str>, ParseError> {
        if self.peek() == Some(b'"') {
            return self.string();
        }
        let from = self.at;
        while self.peek().is_some_and(is_metric_byte) {
            self.at += 1;
        }
        if from == self.at || self.body[from].is_ascii_digit() {
            self.at = from;
            return Err(self.expected("a metric name"));
        }
        Ok(Cow::Borrowed(self.text(from, self.at)?))
    }

    /// Reads a series' name and labels, up to the blank or value after them.
    ///
    /// Text at the same position as equal text of the previous line needs no look-up: `memo` has its label.
    pub(crate) fn series(&mut self, memo: &mut Memo) -> Result<LabelSet, ParseError> {
        self.read_series(memo)?;
        Ok(LabelSet::from_labels(memo.labels().cloned()))
    }

    /// Reads a series' name and labels into `memo`, like `series`.
    pub(super) fn read_series(&mut self, memo: &mut Memo) -> Result<(), ParseError> {
        let mut count = 0;
        let from = self.at;
        while self.peek().is_some_and(is_metric_byte) {
            self.at += 1;
        }
        if self.at > from {
            if self.body[from].is_ascii_digit() {
                self.at = from;
                return Err(self.expected("a metric name"));
            }
            if memo.same(0, &self.body[from..self.at], self.body).is_none() {
                let label = Label::new(METRIC_NAME, self.text(from, self.at)?);
                memo.set_label(0, label, from..self.at);
            }
            count = 1;
        } else if self.peek() != Some(b'{') {
            return Err(self.expected("a metric name"));
        }
        let after_name = self.at;
        self.skip_free_blanks();
        if self.peek() == Some(b'{') {
            self.at += 1;
            self.label_list(memo, &mut count, true)?;
        } else {
            self.at = after_name;
        }
        memo.labels.truncate(count);
        let is_name = |(label, _): &(Label, Range<usize>)| {
            label.name() == METRIC_NAME && !label.value().is_empty()
        };
        if !memo.labels.iter().any(is_name) {
            self.at = from;
            return Err(self.error(ParseErrorKind::NoMetricName));
        }
        Ok(())
    }

    fn label_list(
        &mut self,
        memo: &mut Memo,
        count: &mut usize,
        may_name: bool,
    ) -> Result<(), ParseError> {
        let mut seen: Option<HashSet<String>> = None;
        loop {
            self.skip_free_blanks();
            if self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(());
            }
            let from = self.at;
            match memo.same(*count, &self.body[from..], self.body) {
                Some(len) => self.at += len,
                None => {
                    let label = self.label(may_name)?;
                    memo.set_label(*count, label, from..self.at);
                }
            }
            let (label, _) = &memo.labels[*count];
            let before = &memo.labels[..*count];
            let twice = if *count < FEW_LABELS {
                before.iter().any(|(other, _)| other.same_name(label))
            } else {
                let owned = |label: &Label| label.name().to_owned();
                let seen = seen
                    .get_or_insert_with(|| before.iter().map(|(label, _)| owned(label)).collect());
                !seen.insert(owned(label))
            };
            if twice {
                let name = label.name().to_owned();
                self.at = from;
                return Err(self.error(ParseErrorKind::DuplicateLabel { name }));
            }
            *count += 1;
            self.skip_free_blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {}
                // The text format does not require commas.
                Some(byte) if !self.is_openmetrics() && starts_label(byte) => {}
                _ => return Err(self.expected("',' or '}' after a label")),
            }
        }
    }

    fn label(&mut self, may_name: bool) -> Result<Label, ParseError> {
        let name = if self.peek() == Some(b'"') {
            let from = self.at;
            let name = self.string()?;
            self.skip_free_blanks();
            if may_name && matches!(self.peek(), Some(b',' | b'}')) {
                return Ok(Label::new(METRIC_NAME, &name));
            }
            if name.is_empty() {
                self.at = from;
                return Err(self.expected("a label name"));
            }
            name
        } else {
            let from = self.at;
            while self
                .peek()
                .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            {
                self.at += 1;
            }
            if self.at == from || self.body[from].is_ascii_digit() {
                self.at = from;
                return Err(self.expected("a label name"));
            }
            Cow::Borrowed(self.text(from, self.at)?)
        };
        self.skip_free_blanks();
        self.expect_byte(b'=', "'=' after a label name")?;
        self.skip_free_blanks();
        if self.peek() != Some(b'"') {
            return Err(self.expected("a quoted label value"));
        }
        let value = self.string()?;
        Ok(Label::new(&name, &value))
    }

    /// Reads a quoted string with the escapes `\\`, `\"` and `\n`; an unknown escape is kept as it is.
    fn string(&mut self) -> Result<Cow<'a, str>, ParseError> {
        let from = self.at + 1;
        let mut at = from;
        loop {
            let rest = self.body.get(at..).unwrap_or_default();
            let Some(found) = memchr::memchr3(b'"', b'\\', b'\n', rest) else {
                self.at = self.body.len();
                return Err(self.error(ParseErrorKind::UnexpectedEnd));
            };
            at += found;
            match self.body[at] {
                b'"' => break,
                b'\\' => at += 2,
                // In the text format a string may continue on the next line.
                _ if !self.is_openmetrics() => at += 1,
                _ => {
                    self.at = at;
                    return Err(self.error(ParseErrorKind::Expected {
                        what: "a closing quote before the end of the line",
                        found: "\n".into(),
                    }));
                }
            }
        }
        let text = self.text(from, at)?;
        self.at = at + 1;
        Ok(if text.contains('\\') {
            Cow::Owned(unescape(text))
        } else {
            Cow::Borrowed(text)
        })
    }

    /// Reads a series' value and the rest of the line, including the newline.
    ///
    /// Blanks before the value must already be skipped.
    pub(crate) fn tail(&mut self) -> Result<Tail, ParseError> {
        if self.is_openmetrics() {
            return self.strict_tail();
        }
        self.skip_blanks();
        let value = self.value()?;
        self.skip_blanks();
        let time_from = self.at;
        let word = self.word();
        let time_ms = match word {
            [] => None,
            _ => Some(number::read_timestamp(word).ok_or_else(|| self.bad_time(time_from, word))?),
        };
        self.skip_blanks();
        // The last line may lack its newline.
        if self.at < self.body.len() {
            self.expect_byte(b'\n', "the end of the line")?;
        }
        Ok(Tail {
            value,
            time_ms,
            exemplar: None,
            end: self.at,
        })
    }

    fn strict_tail(&mut self) -> Result<Tail, ParseError> {
        let blank_before = self.at > 0 && self.body.get(self.at - 1) == Some(&b' ');
        if !blank_before {
            return Err(self.expected("a blank before the value"));
        }
        let value = self.value()?;
        let mut tail = Tail {
            value,
            time_ms: None,
            exemplar: None,
            end: 0,
        };
        if self.peek() == Some(b' ') && !self.rest_of_line().starts_with(b" # {") {
            tail.time_ms = Some(self.seconds()?);
        }
        if self.rest_of_line().starts_with(b" # {") {
            self.at += 3;
            let end = self.at + self.rest_of_line().len();
            tail.exemplar = Some(self.at..end);
            self.at = end;
        }
        if self.at >= self.body.len() {
            return Err(self.error(ParseErrorKind::MissingEof));
        }
        self.expect_byte(b'\n', "the end of the line")?;
        tail.end = self.at;
        Ok(tail)
    }

    /// Reads a blank and a time in seconds.
    fn seconds(&mut self) -> Result<i64, ParseError> {
        self.at += 1;
        let from = self.at;
        let word = self.strict_word();
        number::read_seconds(word).ok_or_else(|| self.bad_time(from, word))
    }

    fn bad_time(&self, from: usize, word: &[u8]) -> ParseError {
        let text = excerpt(word);
        ParseError::at(self.body, from, ParseErrorKind::Timestamp { text })
    }

    fn value(&mut self) -> Result<f64, ParseError> {
        let from = self.at;
        let word = if self.is_openmetrics() {
            self.strict_word()
        } else {
            self.word()
        };
        number::read(word).ok_or_else(|| {
            if word.is_empty() {
                return self.expected("a value");
            }
            let text = excerpt(word);
            ParseError::at(self.body, from, ParseErrorKind::Number { text })
        })
    }

    fn strict_word(&mut self) -> &'a [u8] {
        let from = self.at;
        while self
            .peek()
            .is_some_and(|byte| !matches!(byte, b' ' | b'\n'))
        {
            self.at += 1;
        }
        &self.body[from..self.at]
    }

    fn word(&mut self) -> &'a [u8] {
        let from = self.at;
        while self
            .peek()
            .is_some_and(|byte| !matches!(byte, b' ' | b'\t' | b'\n'))
        {
            self.at += 1;
        }
        &self.body[from..self.at]
    }
}

/// Reads the exemplar at `span` of an OpenMetrics body.
pub(crate) fn exemplar(body: &[u8], span: Range<usize>) -> Result<Exemplar, ParseError> {
    let mut cursor = Cursor::new(&body[..span.end], span.start + 1, Dialect::OpenMetrics);
    let mut memo = Memo::default();
    let mut count = 0;
    cursor.label_list(&mut memo, &mut count, false)?;
    memo.labels.truncate(count);
    cursor.expect_byte(b' ', "a blank before the exemplar's value")?;
    let value = cursor.value()?;
    let time_ms = match cursor.peek() {
        None => None,
        Some(b' ') => Some(cursor.seconds()?),
        Some(_) => return Err(cursor.expected("a blank or the end of the line")),
    };
    if cursor.at < span.end {
        return Err(cursor.expected("the end of the line"));
    }
    Ok(Exemplar {
        labels: LabelSet::from_labels(memo.labels.into_iter().map(|(label, _)| label)),
        value,
        time_ms,
    })
}

/// Reports whether a label can begin with this byte.
fn starts_label(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'"')
}

/// Skips a blank or comment line; `None` when a sample line starts here.
pub(super) fn skip_other<'b>(
    cursor: &mut Cursor<'b>,
    first: u8,
) -> Result<Option<Comment<'b>>, ParseError> {
    match first {
        b'#' => {
            cursor.at += 1;
            cursor.comment().map(Some)
        }
        b'\n' | b' ' | b'\t' if cursor.is_openmetrics() => {
            Err(cursor.expected("a metric name, '{' or '#'"))
        }
        b'\n' => {
            cursor.at += 1;
            Ok(Some(Comment::Other))
        }
        b' ' | b'\t' => {
            cursor.skip_blanks();
            Ok(Some(Comment::Other))
        }
        _ => Ok(None),
    }
}

pub(super) fn is_metric_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':'
}

/// Returns the value of a label without its escapes; an unknown escape stays as it is.
#[must_use]
pub fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some(other @ ('\\' | '"')) => plain.push(other),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}

/// Unescapes a HELP text, which escapes the backslash and the newline but not the quote.
fn unescape_help(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('n')) => {
                plain.push('\n');
                chars.next();
            }
            ('\\', Some('\\')) => {
                plain.push('\\');
                chars.next();
            }
            (c, _) => plain.push(c),
        }
    }
    plain
}

/// Shortens bytes for an error message.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    if bytes.len() > LONGEST {
        format!("{text}…")
    } else {
        text.into_owned()
    }
}
