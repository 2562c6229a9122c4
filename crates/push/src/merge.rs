//! Merges pages of several sources into the body of one push.
//!
//! **Invariant:** the first source that has a series or a family keeps it: no series is in the body twice, and no family
//! has two types. What is left out is said.

use crate::{
    decode::{self, Allowed},
    error::PushError,
    family::{self, Shape},
    grouping::Grouping,
    registry::type_name,
    text::{GroupLabels, Text},
};
use narthex_expfmt::{Escaping, Format};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// What is done with the timestamps of samples.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Timestamps {
    /// A source with timestamps is refused.
    #[default]
    Refuse,
    /// They are removed.
    Strip,
    /// They are kept.
    Keep,
}

/// Pages merged so far.
#[derive(Debug)]
pub struct Merge {
    grouping: Grouping,
    timestamps: Timestamps,
    families: BTreeMap<Arc<str>, Family>,
    series: usize,
}

#[derive(Debug)]
struct Family {
    shape: Arc<Shape>,
    pieces: Vec<family::Family>,
    known: HashSet<u128>,
}

/// What became of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// Series taken over.
    pub series: usize,
    /// Series left out because an earlier source has them.
    pub duplicates: usize,
    /// Families left out because an earlier source has them with another type, described.
    pub conflicts: Vec<String>,
}

impl Merge {
    /// Returns an empty merge for a group, whose labels series lose; the grouping may be without labels.
    #[must_use]
    pub fn new(grouping: Grouping, timestamps: Timestamps) -> Self {
        Self {
            grouping,
            timestamps,
            families: BTreeMap::new(),
            series: 0,
        }
    }

    /// Adds a page, whose format is found by its content.
    ///
    /// # Errors
    /// Returns what is wrong with the page; then nothing of it is taken over.
    pub fn add(&mut self, page: &[u8]) -> Result<Merged, PushError> {
        let allowed = Allowed {
            utf8_names: true,
            timestamps: self.timestamps != Timestamps::Refuse,
        };
        let format = Format::sniff(page);
        let families = decode::decode_once(format, page, &self.grouping, allowed)?;
        let mut merged = Merged::default();
        for mut family in families {
            if self.timestamps == Timestamps::Strip {
                family.numbers.times_ms.clear();
            }
            self.add_family(family, &mut merged);
        }
        self.series += merged.series;
        Ok(merged)
    }

    fn add_family(&mut self, family: family::Family, merged: &mut Merged) {
        let shape = &family.shape;
        let known = self
            .families
            .entry(Arc::clone(&shape.name))
            .or_insert_with(|| Family {
                shape: Arc::clone(shape),
                pieces: Vec::new(),
                known: HashSet::new(),
            });
        if known.shape.metric_type != shape.metric_type {
            let words = [shape.metric_type, known.shape.metric_type].map(type_name);
            let [is, was] = words.map(str::to_ascii_lowercase);
            let name = &shape.name;
            merged
                .conflicts
                .push(format!("{name} is a {is} here and a {was} before"));
            return;
        }
        if known.shape.help.is_empty() && !shape.help.is_empty() {
            known.shape = Arc::clone(shape);
        }
        let is_new: Vec<bool> = shape
            .metrics
            .iter()
            .map(|metric| known.known.insert(metric.labels.hash().bits()))
            .collect();
        let kept = if is_new.contains(&false) {
            family.view().filtered(|metric, _| is_new[metric])
        } else {
            family
        };
        merged.series += kept.shape.parts.len();
        merged.duplicates += is_new.iter().filter(|is_new| !**is_new).count();
        if !kept.shape.metrics.is_empty() {
            known.pieces.push(kept);
        }
    }

    /// Returns the number of series.
    #[must_use]
    pub fn series(&self) -> usize {
        self.series
    }

    /// Renders the body in the text format.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let nobody = GroupLabels::new(&Grouping::new(Vec::new()), Escaping::AllowUtf8);
        let mut out = Vec::new();
        for family in self
            .families
            .values()
            .filter(|family| !family.pieces.is_empty())
        {
            family::write_head(&mut out, &family.shape, Escaping::AllowUtf8);
            for piece in &family.pieces {
                let text = Text::new(&piece.shape, &[], Escaping::AllowUtf8);
                text.write(&mut out, piece.view(), &nobody);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(timestamps: Timestamps, pages: &[&str]) -> (String, Vec<Result<Merged, String>>) {
        let grouping = Grouping::new(vec![("job".to_owned(), "j".to_owned())]);
        let mut merge = Merge::new(grouping, timestamps);
        let each = pages.iter().map(|page| merge.add(page.as_bytes()));
        let each = each.map(|merged| merged.map_err(|error| error.to_string()));
        let each = each.collect();
        (String::from_utf8(merge.render()).unwrap(), each)
    }

    fn taken(series: usize, duplicates: usize) -> Result<Merged, String> {
        Ok(Merged {
            series,
            duplicates,
            conflicts: Vec::new(),
        })
    }

    #[test]
    fn families_of_all_pages_stand_together() {
        let histogram = |k: u32| {
            format!(
                "# TYPE h histogram\nh_bucket{{k=\"{k}\",le=\"1\"}} 1\nh_bucket{{k=\"{k}\",le=\"+Inf\"}} 2\nh_sum{{k=\"{k}\"}} 3\nh_count{{k=\"{k}\"}} 2\n"
            )
        };
        let first = format!("m 1\n{}", histogram(1));
        let second = format!("{}# HELP m Help.\nm{{b=\"\\\"\\\\\"}} -2\n", histogram(2));
        let open = "# TYPE c counter\nc_total 1\n# EOF\n";
        let (text, each) = merged(Timestamps::Refuse, &[&first, &second, open]);
        assert_eq!(each, [taken(5, 0), taken(5, 0), taken(1, 0)]);
        assert_eq!(
            text,
            format!(
                "# TYPE c_total counter\nc_total 1\n{}{}# HELP m Help.\n# TYPE m untyped\nm 1\nm{{b=\"\\\"\\\\\"}} -2\n",
                histogram(1),
                histogram(2).trim_start_matches("# TYPE h histogram\n"),
            )
        );
        // What is rendered is a page with the same content.
        let (again, each) = merged(Timestamps::Refuse, &[&text]);
        assert_eq!((again, each), (text, vec![taken(11, 0)]));
    }

    #[test]
    fn the_first_page_keeps_a_series_and_a_family() {
        let pages = [
            "# TYPE m gauge\nm 1\nm{k=\"1\"} 2\n",
            // The label is the group's, so that this is the same series.
            "# TYPE m gauge\nm{job=\"x\"} 3\nm{k=\"2\"} 4\n",
            "# TYPE m counter\nm{k=\"3\"} 5\nn 6\n",
            "m 7",
            "n 8\nn 9\n",
        ];
        let (text, each) = merged(Timestamps::Refuse, &pages);
        assert_eq!(
            text,
            "# TYPE m gauge\nm 1\nm{k=\"1\"} 2\nm{k=\"2\"} 4\n# TYPE n untyped\nn 6\n"
        );
        assert_eq!(each[..2], [taken(2, 0), taken(1, 1)]);
        assert_eq!(
            each[2].as_ref().unwrap().conflicts,
            ["m is a counter here and a gauge before"]
        );
        let half = "text format parsing error in line 1: unexpected end of input stream";
        assert_eq!(each[3], Err(half.to_owned()));
        assert!(each[4].as_ref().unwrap_err().contains("collected before"));
    }

    #[test]
    fn timestamps_are_refused_stripped_or_kept() {
        let pages = ["m 1 5\nn 2\nm{k=\"1\"} 3 6\n", "m 9 9\nm{k=\"2\"} 4 7\n"];
        let (text, each) = merged(Timestamps::Refuse, &pages);
        assert!(
            text.is_empty() && each.iter().all(Result::is_err),
            "{each:?}"
        );
        let (text, _) = merged(Timestamps::Strip, &pages);
        assert_eq!(
            text.matches(" 5\n").count() + text.matches(" 7\n").count(),
            0,
            "{text}"
        );
        let (text, _) = merged(Timestamps::Keep, &pages);
        assert_eq!(
            text,
            "# TYPE m untyped\nm 1 5\nm{k=\"1\"} 3 6\nm{k=\"2\"} 4 7\n# TYPE n untyped\nn 2\n"
        );
    }
}
