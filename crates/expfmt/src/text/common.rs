//! The labels that all lines of a body have in common.
//!
//! Programs that write their pod, node or version into every line repeat it for every series. What all lines share
//! belongs to the origin, and stored there it costs once what it costs for every series otherwise.
//!
//! **Invariant:** looks at the text alone; a body with a fault has nothing in common.

use super::{
    Dialect,
    lex::{Cursor, Memo},
    pass::skip_other,
};
use narthex_model::{Label, LabelSet, METRIC_NAME};

/// What the lines of a body have in common.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CommonLabels {
    /// The labels that every line has, with the same values; the metric name is never among them.
    pub labels: LabelSet,
    /// Sample lines.
    pub lines: usize,
    /// Runs of lines with the same metric name.
    pub names: usize,
}

/// Finds the labels that every sample line of `body` has.
///
/// Stops at the first line after which nothing is left in common, so an ordinary page costs a few lines.
pub(crate) fn common_labels(body: &[u8], dialect: Dialect) -> CommonLabels {
    let mut cursor = Cursor::new(body, 0, dialect);
    let mut memo = Memo::default();
    let mut common: Vec<Label> = Vec::new();
    let mut name: Option<Label> = None;
    let (mut lines, mut names) = (0, 0);
    while let Some(byte) = cursor.peek() {
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
        let named = memo.labels().find(|label| label.name() == METRIC_NAME);
        if named != name.as_ref() {
            names += 1;
            name = named.cloned();
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

    #[test]
    fn a_faulty_body_has_nothing_in_common() {
        assert_eq!(
            common("a{pod=\"p\"} 1\nb{pod=\"p} 2\n"),
            ("{}".into(), 0, 0)
        );
        assert_eq!(common(""), ("{}".into(), 0, 0));
    }
}
