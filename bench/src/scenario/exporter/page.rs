//! Parses a page of metrics in the text format into families and series.
//!
//! **Invariant:** a line that cannot be parsed is an error with its number, never skipped.

use narthex_testkit::exposition::Line;
use std::collections::BTreeMap;

/// Prefixes of an exporter's metrics about itself.
const OWN: [&str; 7] = [
    "go_",
    "narthex_",
    "net_conntrack_listener_",
    "process_",
    "promhttp_",
    "node_scrape_collector_",
    "node_exporter_",
];

/// One page.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Page {
    pub(crate) families: BTreeMap<String, Family>,
}

/// A family of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Family {
    /// `counter`, `gauge` and so on; empty if the page has no TYPE.
    pub(crate) kind: String,
    pub(crate) help: String,
    /// Values by series: the name with its labels sorted.
    pub(crate) series: BTreeMap<String, f64>,
}

impl Family {
    /// Returns whether its values only grow.
    pub(crate) fn is_counter(&self) -> bool {
        matches!(self.kind.as_str(), "counter" | "histogram" | "summary")
    }
}

impl Page {
    /// Reads a page.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut page = Self::default();
        for (at, line) in text.lines().enumerate() {
            page.read_line(line.trim()).ok_or_else(|| {
                let start: String = line.chars().take(200).collect();
                format!("line {} does not read: {start}", at + 1)
            })?;
        }
        Ok(page)
    }

    /// Returns the number of series.
    pub(crate) fn len(&self) -> usize {
        self.families
            .values()
            .map(|family| family.series.len())
            .sum()
    }

    /// Returns whether a family is about the exporter itself.
    pub(crate) fn is_own(family: &str) -> bool {
        OWN.iter().any(|prefix| family.starts_with(prefix))
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        if let Some(comment) = line.strip_prefix('#') {
            let mut words = comment.trim_start().splitn(3, ' ');
            let keyword = words.next().unwrap_or_default();
            if matches!(keyword, "TYPE" | "HELP") {
                let family = self.families.entry(words.next()?.to_owned()).or_default();
                let text = words.next().unwrap_or_default().trim().to_owned();
                if keyword == "TYPE" {
                    family.kind = text;
                } else {
                    family.help = text;
                }
            }
            return Some(());
        }
        if line.is_empty() {
            return Some(());
        }
        let line = Line::parse(line)?;
        let value = line.value.parse().ok()?;
        // A label without a value is none.
        let labels = line.labels.iter().filter(|label| !label.value.is_empty());
        let mut labels: Vec<String> = labels
            .map(|label| format!("{}=\"{}\"", label.name, label.value))
            .collect();
        labels.sort_unstable();
        let series = format!("{}{{{}}}", line.name, labels.join(","));
        let family = self.families.entry(self.family_of(&line)).or_default();
        family.series.insert(series, value);
        Some(())
    }

    /// Returns the family of a sample: histograms and summaries have samples of other names.
    fn family_of(&self, line: &Line<'_>) -> String {
        let name = line.name;
        if self.families.contains_key(name) {
            return name.to_owned();
        }
        for suffix in ["_bucket", "_sum", "_count"] {
            if let Some(base) = name.strip_suffix(suffix)
                && let Some(family) = self.families.get(base)
                && matches!(family.kind.as_str(), "histogram" | "summary")
                && (suffix != "_bucket" || line.labels.iter().any(|label| label.name == "le"))
            {
                return base.to_owned();
            }
        }
        name.to_owned()
    }
}

/// Returns a series without the values of its labels, which may name the machine: `name{a, b}`.
pub(super) fn without_values(series: &str) -> String {
    let line = format!("{series} 0");
    let Some(line) = Line::parse(&line) else {
        return String::new();
    };
    let names: Vec<&str> = line.labels.iter().map(|label| label.name).collect();
    format!("{}{{{}}}", line.name, names.join(", "))
}

#[cfg(test)]
mod tests;
