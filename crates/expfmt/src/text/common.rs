//! The labels that all lines of a body have in common.
//!
//! Programs that write their pod, node or version into every line repeat it for every series. Labels common to all
//! lines belong to the origin: stored there they cost once what they otherwise cost for every series.
//!
//! **Invariant:** only the text matters; a malformed body has no common labels.

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
/// the remaining labels like the lines before is searched, not parsed.
pub(crate) fn common_labels(body: &[u8], dialect: Dialect) -> CommonLabels {
    let mut cursor = Cursor::new(body, 0, dialect);
    let mut memo = Memo::default();
    let mut common: Vec<Label> = Vec::new();
    let mut spellings: Vec<Spelling> = Vec::new();
    let mut name: Vec<u8> = Vec::new();
    let (mut lines, mut names) = (0, 0);
    while let Some(byte) = cursor.peek() {
        let named = if let Some(named) = named_with(cursor.rest_of_line(), &spellings) {
            named
        } else {
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
            named.map_or(&b""[..], |label| label.value().as_bytes())
        };
        if named != name {
            names += 1;
            name.clear();
            name.extend_from_slice(named);
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

/// Usual spelling of a label in a line.
struct Spelling(Finder<'static>);

impl Spelling {
    /// Returns a label's spelling, unless its text could also be the end of one string and the start of another.
    fn new(label: &Label) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        if !label.name().bytes().all(is_plain) || !label.value().bytes().all(is_plain) {
            return None;
        }
        let text = format!("{}=\"{}\"", label.name(), label.value());
        Some(Self(Finder::new(text.as_bytes()).into_owned()))
    }

    fn is_in(&self, line: &[u8]) -> bool {
        self.0.find_iter(line).any(|at| {
            let before = at.checked_sub(1).and_then(|at| line.get(at));
            let behind = line.get(at + self.0.needle().len());
            matches!(before, Some(b'{' | b',' | b' ')) && matches!(behind, Some(b',' | b'}' | b' '))
        })
    }
}

/// Returns the metric name of a line with all labels in their usual spelling; `None` if it must be parsed.
fn named_with<'a>(line: &'a [u8], labels: &[Spelling]) -> Option<&'a [u8]> {
    // Text after a value may look like labels.
    let is_plain =
        line.first().is_some_and(|first| is_metric_byte(*first)) && !line.contains(&b'#');
    if labels.is_empty() || !is_plain || !labels.iter().all(|label| label.is_in(line)) {
        return None;
    }
    let len = line.iter().position(|byte| !is_metric_byte(*byte))?;
    line.get(..len)
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

    #[test]
    fn a_faulty_body_has_nothing_in_common() {
        assert_eq!(
            common("a{pod=\"p\"} 1\nb{pod=\"p} 2\n"),
            ("{}".into(), 0, 0)
        );
        assert_eq!(common(""), ("{}".into(), 0, 0));
    }
}
