//! Go's `fmt`: `Sprint`, `Sprintln` and `Sprintf`.
//!
//! **Invariant:** what is printed is what Go prints, mistakes in a format included. Not implemented, and reported as bad
//! verbs: `%b` and `%x` of floats, and Go syntax (`%#v`) of maps and structs.

use super::{
    number::float,
    time::{month_name, weekday_name},
    value::{Labels, Value},
};
use narthex_promql::fmt::{quote, quote_char};
use std::fmt::Write as _;

/// Longest width and precision, as in Go.
const MAX_WIDTH: usize = 1_000_000;

/// What stands between `%` and the verb.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    plus: bool,
    /// `%+v`: names of fields instead of signs.
    names: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

impl Flags {
    /// Returns the flags for padding with blanks.
    fn with_blanks(mut self) -> Self {
        self.zero = false;
        self
    }
}

/// Prints a value as `{{ }}` does: pointers are followed, and what is nothing says so.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::Invalid => "<no value>".to_owned(),
        value => verb(value, 'v', Flags::default(), true),
    }
}

/// Prints like `fmt.Sprint`: a space between two operands unless one is a string.
pub(super) fn sprint(values: &[Value], follow: bool) -> String {
    let mut out = String::new();
    let mut after_text = true;
    for value in values {
        let text = value.as_str().is_some();
        if !out.is_empty() && !text && !after_text {
            out.push(' ');
        }
        after_text = text;
        out.push_str(&verb(value, 'v', Flags::default(), follow));
    }
    out
}

/// Prints like `fmt.Sprintln`.
pub(super) fn sprintln(values: &[Value]) -> String {
    values.iter().map(plain).collect::<Vec<_>>().join(" ") + "\n"
}

/// Prints a value with `%v`.
fn plain(value: &Value) -> String {
    verb(value, 'v', Flags::default(), false)
}

/// Prints like `fmt.Sprintf`.
pub(super) fn sprintf(format: &str, values: &[Value]) -> String {
    let mut printer = Printer {
        values,
        next: 0,
        reordered: false,
        good_index: true,
    };
    let (mut out, mut rest) = (String::new(), format);
    while let Some((text, behind)) = rest.split_once('%') {
        out.push_str(text);
        rest = printer.directive(&mut out, behind);
        if out.len() > MAX_WIDTH {
            // Longer than any value may be: the caller refuses it.
            return out;
        }
    }
    out.push_str(rest);
    if !printer.reordered && printer.next < values.len() {
        let extra = values.iter().skip(printer.next).map(|value| match value {
            Value::Invalid => "<nil>".to_owned(),
            value => format!("{}={}", value.type_name(), plain(value)),
        });
        let extra = extra.collect::<Vec<_>>().join(", ");
        let _ = write!(out, "%!(EXTRA {extra})");
    }
    out
}

struct Printer<'a> {
    values: &'a [Value],
    next: usize,
    /// Whether an index such as `[1]` was used.
    reordered: bool,
    good_index: bool,
}

impl<'a> Printer<'a> {
    /// Prints what a `%` before `rest` asks for; returns the text behind.
    fn directive<'f>(&mut self, out: &mut String, mut rest: &'f str) -> &'f str {
        let mut flags = Flags::default();
        self.good_index = true;
        while let Some(c) = rest.chars().next() {
            match c {
                '#' => flags.sharp = true,
                '0' => flags.zero = true,
                '+' => flags.plus = true,
                '-' => flags.minus = true,
                ' ' => flags.space = true,
                _ => break,
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        let mut indexed;
        (rest, indexed) = self.index(rest);
        if let Some(behind) = rest.strip_prefix('*') {
            rest = behind;
            match self.star() {
                Some(width) => {
                    flags.minus |= width < 0;
                    flags.width = usize::try_from(width.unsigned_abs()).ok();
                }
                None => out.push_str("%!(BADWIDTH)"),
            }
            indexed = false;
        } else {
            (flags.width, rest) = digits(rest);
            self.good_index &= !(indexed && flags.width.is_some());
        }
        if let Some(behind) = rest.strip_prefix('.') {
            self.good_index &= !indexed;
            (rest, indexed) = self.index(behind);
            if let Some(behind) = rest.strip_prefix('*') {
                rest = behind;
                flags.precision = self
                    .star()
                    .and_then(|precision| usize::try_from(precision).ok());
                if flags.precision.is_none() {
                    out.push_str("%!(BADPREC)");
                }
                indexed = false;
            } else {
                let (precision, behind) = digits(rest);
                flags.precision = Some(precision.unwrap_or_default());
                rest = behind;
            }
        }
        if !indexed {
            (rest, _) = self.index(rest);
        }
        let mut chars = rest.chars();
        let Some(letter) = chars.next() else {
            out.push_str("%!(NOVERB)");
            return "";
        };
        self.print(out, letter, flags);
        chars.as_str()
    }

    fn print(&mut self, out: &mut String, letter: char, mut flags: Flags) {
        if letter == '%' {
            out.push('%');
            return;
        }
        if !self.good_index {
            let _ = write!(out, "%!{letter}(BADINDEX)");
            return;
        }
        let Some(value) = self.values.get(self.next) else {
            let _ = write!(out, "%!{letter}(MISSING)");
            return;
        };
        self.next += 1;
        flags.zero &= !flags.minus;
        if letter == 'v' {
            flags.names = std::mem::take(&mut flags.plus);
        }
        out.push_str(&verb(value, letter, flags, false));
    }

    /// Reads an index such as `[2]`; returns the text behind, and whether there was one.
    fn index<'f>(&mut self, rest: &'f str) -> (&'f str, bool) {
        let Some(inner) = rest.strip_prefix('[') else {
            return (rest, false);
        };
        self.reordered = true;
        let Some((number, behind)) = inner.split_once(']') else {
            self.good_index = false;
            return (inner, false);
        };
        match number.parse::<usize>() {
            Ok(number) if (1..=self.values.len()).contains(&number) => self.next = number - 1,
            _ => self.good_index = false,
        }
        (behind, true)
    }

    /// Returns the number that a `*` stands for.
    fn star(&mut self) -> Option<i64> {
        let value = self.values.get(self.next).and_then(Value::whole);
        self.next = (self.next + 1).min(self.values.len());
        let bound = i64::try_from(MAX_WIDTH).unwrap_or(i64::MAX);
        value.filter(|value| value.abs() <= bound)
    }
}

/// Reads a number; one beyond the bound counts as none.
fn digits(text: &str) -> (Option<usize>, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = text.get(..text.len() - rest.len()).unwrap_or_default();
    (
        digits.parse().ok().filter(|number| *number <= MAX_WIDTH),
        rest,
    )
}

/// Prints one value.
fn verb(value: &Value, letter: char, flags: Flags, follow: bool) -> String {
    if letter == 'T' {
        return pad(value.type_name(), flags);
    }
    let printed = match value {
        Value::Invalid if letter == 'v' => Some(pad("<nil>", flags)),
        Value::Invalid => return format!("%!{letter}(<nil>)"),
        Value::NilSample if letter == 'v' => Some(pad("<nil>", flags)),
        Value::Bool(value) => matches!(letter, 't' | 'v').then(|| pad(&value.to_string(), flags)),
        Value::Float(value) => float_verb(*value, letter, flags),
        Value::String(value) | Value::Html(value) => text_verb(value, letter, flags),
        value => match named(value).filter(|_| "vsxXq".contains(letter)) {
            Some(name) => text_verb(&name, letter, flags),
            None => match value.whole() {
                Some(whole) => whole_verb(whole, letter, flags),
                None => return compound(value, letter, flags, follow),
            },
        },
    };
    printed.unwrap_or_else(|| {
        let shown = verb(value, 'v', flags, false);
        format!("%!{letter}({}={shown})", value.type_name())
    })
}

/// Returns what the value's `String` method gives.
fn named(value: &Value) -> Option<String> {
    Some(match value {
        Value::Time(time) | Value::TimePointer(time) => time.show(),
        Value::Duration(duration) | Value::DurationPointer(duration) => duration.show(),
        Value::Histogram(histogram) => histogram.to_string(),
        Value::Month(month) => month_name(*month).to_owned(),
        Value::Weekday(day) => weekday_name(*day).to_owned(),
        _ => return None,
    })
}

fn compound(value: &Value, letter: char, flags: Flags, follow: bool) -> String {
    let inner = |value: &Value| verb(value, letter, flags, false);
    let map = |pairs: &mut dyn Iterator<Item = (&String, Value)>| {
        let pairs = pairs
            .map(|(name, value)| format!("{}:{}", inner(&Value::text(&**name)), inner(&value)));
        format!("map[{}]", pairs.collect::<Vec<_>>().join(" "))
    };
    let labels = |labels: &Labels| {
        let mut pairs = labels
            .iter()
            .map(|(name, value)| (name, Value::text(&**value)));
        map(&mut pairs)
    };
    let field = |name: &str| {
        if flags.names {
            format!("{name}:")
        } else {
            String::new()
        }
    };
    match value {
        Value::Labels(map) => labels(map),
        Value::Args(args) => map(&mut args.iter().map(|(name, value)| (name, value.clone()))),
        // Go prints the addresses of the elements.
        Value::Vector(samples) => {
            format!("[{}]", vec!["0xc000000000"; samples.len()].join(" "))
        }
        Value::Sample(sample) => {
            let sign = if follow { "" } else { "&" };
            let (labels, value) = (labels(&sample.labels), inner(&sample.value));
            format!(
                "{sign}{{{}{labels} {}{value}}}",
                field("Labels"),
                field("Value")
            )
        }
        Value::Data(data) => format!(
            "{{{}{} {}{} {}{} {}{}}}",
            field("Labels"),
            labels(&data.labels),
            field("ExternalLabels"),
            labels(&data.external_labels),
            field("ExternalURL"),
            inner(&Value::String(data.external_url.clone())),
            field("Value"),
            inner(&data.value),
        ),
        other => format!("%!{letter}({})", other.type_name()),
    }
}

fn float_verb(value: f64, letter: char, flags: Flags) -> Option<String> {
    let (kind, default) = match letter {
        'v' | 'g' | 'G' => ('g', None),
        'e' | 'E' => ('e', Some(6)),
        'f' | 'F' => ('f', Some(6)),
        _ => return None,
    };
    let mut text = float(value, kind, flags.precision.or(default));
    if letter.is_ascii_uppercase() && value.is_finite() {
        text = text.to_ascii_uppercase();
    }
    if value.is_nan() {
        let sign = if flags.plus {
            "+"
        } else if flags.space {
            " "
        } else {
            ""
        };
        text.insert_str(0, sign);
    } else if !text.starts_with(['-', '+']) && (flags.plus || flags.space) {
        text.insert(0, if flags.plus { '+' } else { ' ' });
    } else if value == f64::INFINITY && flags.space && !flags.plus {
        text.replace_range(..1, " ");
    }
    let zero = flags.zero && value.is_finite();
    Some(pad_number(&text, Flags { zero, ..flags }))
}

fn whole_verb(value: i64, letter: char, flags: Flags) -> Option<String> {
    let magnitude = value.unsigned_abs();
    let digits = match letter {
        'v' | 'd' => magnitude.to_string(),
        'b' => format!("{magnitude:b}"),
        'o' => format!("{}{magnitude:o}", if flags.sharp { "0" } else { "" }),
        'O' => format!("0o{magnitude:o}"),
        'x' => format!("{}{magnitude:x}", if flags.sharp { "0x" } else { "" }),
        'X' => format!("{}{magnitude:X}", if flags.sharp { "0X" } else { "" }),
        'c' | 'q' | 'U' => {
            let c = u32::try_from(value)
                .ok()
                .and_then(char::from_u32)
                .unwrap_or('\u{fffd}');
            let text = match letter {
                'c' => c.to_string(),
                'q' => quote_char(Some(c)),
                _ => format!("U+{:04X}", u32::from(c)),
            };
            return Some(pad(&text, flags));
        }
        _ => return None,
    };
    let sign = match (value < 0, flags.plus, flags.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    let Some(precision) = flags.precision else {
        return Some(pad_number(&format!("{sign}{digits}"), flags));
    };
    let digits = if precision == 0 && value == 0 {
        String::new()
    } else {
        digits
    };
    let zeros = "0".repeat(missing(&digits, precision));
    let padded = format!("{sign}{zeros}{digits}");
    Some(pad(&padded, flags.with_blanks()))
}

fn text_verb(text: &str, letter: char, flags: Flags) -> Option<String> {
    let cut: String = match flags.precision {
        Some(precision) if letter != 'x' && letter != 'X' => text.chars().take(precision).collect(),
        _ => text.to_owned(),
    };
    let printed = match letter {
        'v' if flags.sharp => quote(&cut),
        'v' | 's' => cut,
        'q' if flags.sharp && !cut.contains('`') => format!("`{cut}`"),
        'q' if flags.plus => ascii_quote(&cut),
        'q' => quote(&cut),
        'x' | 'X' => {
            let bytes = cut.as_bytes();
            let bytes = bytes.get(..flags.precision.unwrap_or(usize::MAX).min(bytes.len()));
            let separator = if flags.space { " " } else { "" };
            let hex = bytes
                .unwrap_or_default()
                .iter()
                .map(|byte| format!("{byte:02x}"));
            let hex = hex.collect::<Vec<_>>().join(separator);
            if letter == 'X' {
                hex.to_ascii_uppercase()
            } else {
                hex
            }
        }
        _ => return None,
    };
    Some(pad(&printed, flags))
}

/// Quotes with escapes for all that is not ASCII.
fn ascii_quote(text: &str) -> String {
    let mut out = String::new();
    for c in quote(text).chars() {
        let _ = match u32::from(c) {
            0..0x80 => out.write_char(c),
            code @ 0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
            code => write!(out, "\\U{code:08x}"),
        };
    }
    out
}

/// Pads a number: zeros go behind the sign.
fn pad_number(text: &str, flags: Flags) -> String {
    let width = flags.width.unwrap_or_default();
    if !flags.zero || flags.minus || text.len() >= width {
        return pad(text, flags.with_blanks());
    }
    let (sign, digits) = match text.strip_prefix(['-', '+', ' ']) {
        Some(digits) => (text.get(..1).unwrap_or_default(), digits),
        None => ("", text),
    };
    let zeros = "0".repeat(missing(text, width));
    format!("{sign}{zeros}{digits}")
}

fn pad(text: &str, flags: Flags) -> String {
    let missing = missing(text, flags.width.unwrap_or_default());
    match (flags.minus, flags.zero) {
        (true, _) => format!("{text}{}", " ".repeat(missing)),
        (_, true) => format!("{}{text}", "0".repeat(missing)),
        _ => format!("{}{text}", " ".repeat(missing)),
    }
}

/// Returns how many characters a text lacks to be so wide; Rust's own formats end at 65,535.
fn missing(text: &str, width: usize) -> usize {
    width.saturating_sub(text.chars().count())
}
