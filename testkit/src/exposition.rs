//! Pages of metrics in the text format as maps, so that tests can compare them.

use std::collections::BTreeMap;

/// Values by series, written as `name{label="value",…}` with sorted labels and without empty ones.
pub type Samples = BTreeMap<String, f64>;
/// Type and help by family name.
pub type Families = BTreeMap<String, (String, String)>;

/// Writes a series as in [`Samples`].
#[must_use]
pub fn series(name: &str, labels: &[(&str, &str)]) -> String {
    let mut labels: Vec<_> = labels
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    labels.sort();
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    if labels.is_empty() {
        name.to_owned()
    } else {
        format!("{name}{{{}}}", labels.join(","))
    }
}

/// Parses text exposition as node_exporter writes it: no timestamps, one blank before the value.
///
/// # Panics
///
/// Panics on any other text.
#[must_use]
pub fn parse_text(text: &str) -> (Samples, Families) {
    let (mut samples, mut families) = (Samples::new(), Families::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            families.entry(name.to_owned()).or_default().1 = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            families.entry(name.to_owned()).or_default().0 = kind.to_owned();
        } else if !line.is_empty() && !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            samples.insert(normalized(series), value.parse().expect("a float"));
        }
    }
    (samples, families)
}

fn normalized(text: &str) -> String {
    let Some((name, rest)) = text.split_once('{') else {
        return text.to_owned();
    };
    let mut rest = rest.strip_suffix('}').expect("closed labels");
    let mut labels = Vec::new();
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("a closed quote") {
                (at, '"') => break at,
                (_, '\\') => match chars.next().expect("an escaped character").1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.trim_start_matches(','), value));
        rest = &after[end + 1..];
    }
    let labels: Vec<_> = labels
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    series(name, &labels)
}
