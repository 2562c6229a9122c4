//! The labels that all lines of a body have in common.
//!
//! Programs that write their pod, node or version into every line repeat it for every series. Labels common to all
//! lines belong to the origin: stored there they cost once what they otherwise cost for every series.
//!
//! **Invariant:** only the text matters. What is found in a malformed body means nothing: parsing it fails.

use super::lex::{Cursor, Dialect, Memo, is_metric_byte, skip_other};
use memchr::memmem::Finder;
use narthex_model::{Label, LabelSet, METRIC_NAME};

/// Common properties of a body's lines.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CommonLabels {
    /// Labels that every line has, with the same values; never the metric name.
    pub labels: LabelSet,
    /// Sample lines.
    pub lines: usize,
    /// Runs of lines with the same metric name.
    pub names: usize,
}

/// Finds the labels that every sample line of `body` has.
///
/// Stops at the first line that leaves nothing in common, so an ordinary page costs a few lines. A line that spells
/// the remaining labels like the lines before is searched, not parsed; comments are not read at all.
pub(crate) fn common_labels(body: &[u8], dialect: Dialect) -> CommonLabels {
    let mut cursor = Cursor::new(body, 0, dialect);
    let mut memo = Memo::default();
    let mut common: Vec<Label> = Vec::new();
    let mut spellings: Vec<Spelling> = Vec::new();
    let mut name: Vec<u8> = Vec::new();
    let (mut lines, mut names) = (0, 0);
    while let Some(byte) = cursor.peek() {
        if byte == b'#' {
            cursor.skip_line();
            continue;
        }
        let plain = plain_line(cursor.rest());
        if let Some(line) = plain.filter(|line| have_all(line, &mut spellings)) {
            let len = name_len(line, &name);
            if line.get(..len) != Some(&name) {
                names += 1;
                name.clear();
                name.extend_from_slice(&line[..len]);
            }
            lines += 1;
            cursor.at += line.len() + 1;
            continue;
        }
        match skip_other(&mut cursor, byte) {
            Ok(Some(_)) => continue,
            Ok(None) if cursor.read_series(&mut memo).is_ok() => {}
            _ => return CommonLabels::default(),
        }
        if lines == 0 {
            let own = memo.labels().filter(|label| label.name() != METRIC_NAME);
            common.extend(own.filter(|label| !label.value().is_empty()).cloned());
        } else {
            common.retain(|label| memo.labels().any(|other| other == label));
        }
        if common.is_empty() {
            return CommonLabels::default();
        }
        if spellings.len() != common.len() {
            let all: Option<_> = common.iter().map(Spelling::new).collect();
            spellings = all.unwrap_or_default();
        }
        let named = memo.labels().find(|label| label.name() == METRIC_NAME);
        let named = named.map_or(&b""[..], |label| label.value().as_bytes());
        if named != name {
            names += 1;
            name = named.to_vec();
        }
        lines += 1;
        cursor.skip_line();
    }
    CommonLabels {
        labels: LabelSet::from_labels(common),
        lines,
        names,
    }
}

/// Returns the first line of `rest`, without its end, if it begins with a metric name and has nothing but labels, a
/// value and a time after it: text after those may look like labels.
fn plain_line(rest: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr2(b'\n', b'#', rest)?;
    let line = rest.get(..end)?;
    let is_plain = rest.get(end) == Some(&b'\n') && is_metric_byte(*line.first()?);
    is_plain.then_some(line)
}

/// Reports whether a plain line has all these labels, in this spelling.
fn have_all(line: &[u8], labels: &mut [Spelling]) -> bool {
    !labels.is_empty() && labels.iter_mut().all(|label| label.is_in(line))
}

/// Returns the length of a plain line's metric name, which probably is `last`.
fn name_len(line: &[u8], last: &[u8]) -> usize {
    let goes_on = |len: usize| line.get(len).copied().is_some_and(is_metric_byte);
    if line.starts_with(last) && !goes_on(last.len()) {
        return last.len();
    }
    line.iter()
        .position(|byte| !is_metric_byte(*byte))
        .unwrap_or(line.len())
}

/// Usual spelling of a label in a line.
struct Spelling {
    text: Finder<'static>,
    /// Offset in the line before.
    at: usize,
}

impl Spelling {
    /// Returns a label's spelling, unless its text could also be the end of one string and the start of another.
    fn new(label: &Label) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        if !label.name().bytes().all(is_plain) || !label.value().bytes().all(is_plain) {
            return None;
        }
        let text = format!("{}=\"{}\"", label.name(), label.value());
        Some(Self {
            text: Finder::new(text.as_bytes()).into_owned(),
            at: 0,
        })
    }

    fn is_in(&mut self, line: &[u8]) -> bool {
        let text = self.text.needle();
        let is_label = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| line.get(at));
            let behind = line.get(at + text.len());
            matches!(before, Some(b'{' | b',' | b' ')) && matches!(behind, Some(b',' | b'}' | b' '))
        };
        // Lines of one family mostly have it at the same offset.
        let rest = line.get(self.at..).unwrap_or_default();
        if rest.starts_with(text) && is_label(self.at) {
            return true;
        }
        let found = self.text.find_iter(line).find(|at| is_label(*at));
        self.at = found.unwrap_or(self.at);
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(body: &str) -> (String, usize, usize) {
        let found = common_labels(body.as_bytes(), Dialect::Text);
        (found.labels.to_string(), found.lines, found.names)
    }

    #[test]
    fn what_every_line_has_is_found() {
        let body = "# TYPE a counter\na{pod=\"p\",code=\"200\",node=\"n\"} 1\na{code=\"500\",node=\"n\",pod=\"p\"} 2\n\
            b{node=\"n\",pod=\"p\"} 3 # {trace=\"x\"} 4\n";
        assert_eq!(common(body), ("{node=\"n\", pod=\"p\"}".into(), 3, 2));
    }

    #[test]
    fn one_line_without_a_label_is_enough() {
        assert_eq!(common("a{pod=\"p\"} 1\nb 2\n"), ("{}".into(), 0, 0));
        assert_eq!(
            common("a{pod=\"p\"} 1\nb{pod=\"\"} 2\n"),
            ("{}".into(), 0, 0)
        );
        assert_eq!(
            common("a{pod=\"p\"} 1\nb{pod=\"q\"} 2\n"),
            ("{}".into(), 0, 0)
        );
    }

    /// Lines are usually searched for labels, so text that only looks like a label must not count.
    #[test]
    fn labels_are_found_however_they_are_spelled_and_nowhere_else() {
        let all =
            |second: &str| common(&format!("a{{pod=\"p\"}} 1\n{second}\nc{{pod=\"p\"}} 3\n")).0;
        for other in [
            "b{x=\"y\", pod=\"p\" } 2",
            "b{pod = \"p\"} 2",
            "{\"b\",pod=\"p\"} 2",
        ] {
            assert_eq!(all(other), "{pod=\"p\"}", "{other}");
        }
        for none in [
            "b{xpod=\"p\"} 2",
            "b{x=\"pod=\\\"p\\\"\"} 2",
            "b{x=\"1\"} 2 # {pod=\"p\"} 1",
            "b{pod=\"pq\"} 2",
        ] {
            assert_eq!(all(none), "{}", "{none}");
        }
        assert_eq!(
            common("a{x=\",y=\"} 1\na{z=\"x=\",y=\",x=\"\"} 1\n").0,
            "{}"
        );
    }

    /// A label is expected at its offset in the line before.
    #[test]
    fn labels_are_found_wherever_they_move() {
        let body = "a{pod=\"p\",code=\"200\"} 1\na{code=\"200\",pod=\"p\"} 2\na{code=\"2000\",pod=\"p\"} 3\n\
            a_long{x=\"1\",pod=\"p\"} 4\na{pod=\"p\"} 5\n";
        assert_eq!(common(body), ("{pod=\"p\"}".into(), 5, 3));
        // At the same offset, but of another label.
        let other =
            "a{xxx=\"1\",pod=\"p\"} 1\na{xxx=\"1\",pod=\"p\"} 2\na{xxx=\"1\"_pod=\"p\"} 3\n";
        assert_eq!(common(other).0, "{xxx=\"1\"}");
    }

    #[test]
    fn a_faulty_body_has_nothing_in_common() {
        assert_eq!(
            common("a{pod=\"p\"} 1\nb{pod=\"p} 2\n"),
            ("{}".into(), 0, 0)
        );
        assert_eq!(common(""), ("{}".into(), 0, 0));
    }
}
