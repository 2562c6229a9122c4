//! A record as one page that loads nothing: it can be mailed, archived and printed.
//!
//! **Invariant:** well-formed markup without scripts and without addresses to fetch; every text from a record is
//! escaped.

use super::{
    number::{digits, name, ratio, spread},
    plot::{Axis, Bar, Line, STYLES, bars, over_time, percentiles},
    table::{own_cost, title},
    words::compared,
};
use crate::record::{
    Course, Distribution, Quantile, Record, Run, Verdict,
    summary::{Row, Spread, rows, sound, variants},
};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// Shares whose values the tables of latencies have.
const SHARES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];

/// Returns the page of a record.
pub(crate) fn page(record: &Record) -> String {
    let mut page = Page {
        record,
        text: String::new(),
    };
    page.head();
    page.headlines();
    page.courses();
    page.distributions();
    page.figures();
    page.differences();
    page.about();
    page.text.push_str("</body>\n</html>\n");
    page.text
}

/// Returns a text that is only a text.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // What XML has no place for.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

struct Page<'a> {
    record: &'a Record,
    text: String,
}

impl Page<'_> {
    fn add(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn label(&self, subject: usize) -> &str {
        self.record.subjects.get(subject).map_or("", |s| &s.label)
    }

    fn head(&mut self) {
        let record = self.record;
        let labels: Vec<&str> = record.subjects.iter().map(|s| s.label.as_str()).collect();
        let heading = match labels.as_slice() {
            [one] => one.to_string(),
            [first, others @ .., last] if !others.is_empty() => {
                format!("{first} against {} and {last}", others.join(", "))
            }
            [first, last] => format!("{first} against {last}"),
            _ => String::new(),
        };
        let (heading, scenario) = (escape(&heading), escape(&record.scenario));
        let machine = &record.machine;
        let gb = machine.memory_bytes as f64 / 1e9;
        let repetitions = record
            .runs
            .iter()
            .map(|run| run.repetition + 1)
            .max()
            .unwrap_or(0);
        let times = match repetitions {
            0 | 1 => "measured once".to_owned(),
            n => format!("measured {n} times in alternating order"),
        };
        self.add(&format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <title>{scenario}: {heading}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>{scenario}: {heading}</h1>\n<p class=\"lead\">{}; {times}.</p>\n\
             <p class=\"lead\">{}, {} cores, {gb:.0} GB, Linux {}; {}.</p>",
            escape(&record.title),
            escape(&machine.cpu),
            machine.cores,
            escape(&machine.kernel),
            date(record.time_s)
        ));
        self.warnings();
        self.legend();
    }

    /// Says what a reader must know before believing anything.
    fn warnings(&mut self) {
        let record = self.record;
        let mut warnings = Vec::new();
        if record.tool.profile != "release" {
            warnings.push("Measured with a debug build of narthex-bench: its own cost is several times too high.".to_owned());
        }
        for (verdict, what) in [
            (
                Verdict::Refused,
                "left out, because the generator was the bottleneck",
            ),
            (
                Verdict::Noisy,
                "noisy: something else took CPU, or the generator cost more than it should",
            ),
        ] {
            let runs: Vec<&Run> = record
                .runs
                .iter()
                .filter(|run| run.verdict() == verdict)
                .collect();
            if !runs.is_empty() {
                warnings.push(format!(
                    "{} of {} runs are {what}. {}",
                    runs.len(),
                    record.runs.len(),
                    causes(&runs, verdict)
                ));
            }
        }
        for warning in warnings {
            self.add(&format!("<p class=\"warn\">{}</p>", escape(&warning)));
        }
        if !record.notes.is_empty() {
            self.add("<ul>");
            for note in &record.notes {
                self.add(&format!("<li>{}</li>", escape(note)));
            }
            self.add("</ul>");
        }
    }

    fn legend(&mut self) {
        self.add("<ul class=\"legend\">");
        for (at, subject) in self.record.subjects.iter().enumerate() {
            let (style, label, version) = (
                at % STYLES,
                escape(&subject.label),
                escape(&subject.version),
            );
            self.add(&format!(
                "<li><svg viewBox=\"0 0 34 10\" aria-hidden=\"true\"><path class=\"line s{style}\" d=\"M0 5H34\"/></svg>\
                 <strong>{label}</strong> <small>{version}</small></li>"
            ));
        }
        self.add("</ul>");
    }

    /// The figures a reader looks at first, as bars, with their ratios in words.
    fn headlines(&mut self) {
        let record = self.record;
        let mut all: Vec<(&str, Row)> = Vec::new();
        for variant in variants(record) {
            let rows = rows(record, variant).into_iter();
            all.extend(rows.filter(|row| row.is_headline).map(|row| (variant, row)));
        }
        let mut keys: Vec<String> = Vec::new();
        for (_, row) in &all {
            if !keys.contains(&row.key) {
                keys.push(row.key.clone());
            }
        }
        if keys.is_empty() {
            return;
        }
        self.add("<h2>In short</h2>");
        if record.subjects.len() > 1 {
            let first = escape(self.label(0));
            self.add(&format!(
                "<p>Below the bars: how much the others need, compared with {first}.</p>"
            ));
        }
        self.add("<div class=\"cards\">");
        for key in keys {
            let rows = || all.iter().filter(|(_, row)| row.key == key);
            let unit = rows().next().map_or("", |(_, row)| row.unit.as_str());
            self.add(&format!(
                "<section class=\"card\"><h3>{} <small>{}</small></h3>",
                escape(&key),
                escape(unit)
            ));
            let tops = rows().flat_map(|(_, row)| row.values.iter().flatten());
            let most = tops.map(|value| value.most).fold(0.0, f64::max);
            for (variant, row) in rows() {
                if !variant.is_empty() {
                    self.add(&format!("<h4>{}</h4>", escape(variant)));
                }
                self.headline(row, most);
            }
            self.add("</section>");
        }
        self.add("</div>");
    }

    fn headline(&mut self, row: &Row, most: f64) {
        let bar = |(at, value): (usize, &Option<Spread>)| {
            let value = value.as_ref()?;
            Some(Bar {
                label: self.label(at).to_owned(),
                style: at,
                value: value.median,
                spread: (value.count > 1).then_some((value.least, value.most)),
                text: digits(value.median),
            })
        };
        let drawn: Vec<Bar> = row.values.iter().enumerate().filter_map(bar).collect();
        let said: Vec<String> = row
            .ratios
            .iter()
            .enumerate()
            .filter_map(|(at, ratio)| {
                let words = compared(ratio.as_ref()?.median);
                Some(format!(
                    "<li>{}: {}</li>",
                    escape(self.label(at)),
                    escape(&words)
                ))
            })
            .collect();
        self.add(&bars(&row.key, &drawn, most));
        if !said.is_empty() {
            self.add(&format!("<ul>{}</ul>", said.concat()));
        }
    }

    /// What changed over time: a plot for each key and variant, with one scale for all variants of a key.
    fn courses(&mut self) {
        let record = self.record;
        let runs = counted(record);
        let courses = || runs.iter().flat_map(|run| &run.courses);
        let mut keys: Vec<&Course> = Vec::new();
        for course in courses() {
            if !keys.iter().any(|other| other.key == course.key) {
                keys.push(course);
            }
        }
        if keys.is_empty() {
            return;
        }
        self.add("<h2>Over time</h2>\n<p>A line is the mean, the band around it reaches from the least to the most; warm-up is part of it. Thin lines are further repetitions.</p>\n<div class=\"grid2\">");
        for Course { key, unit, .. } in keys {
            let points = courses()
                .filter(|course| course.key == *key)
                .flat_map(|course| &course.points);
            let y = Axis::of(points.clone().map(|point| point[1]), unit == "ms");
            let seconds = points.map(|point| point[0]).fold(1.0, f64::max);
            for variant in variants(record) {
                let lines = self.lines_of(key, variant);
                if lines.is_empty() {
                    continue;
                }
                let plot = over_time(key, unit, y, seconds, &lines);
                self.figure(key, variant, &plot);
            }
        }
        self.add("</div>");
    }

    fn lines_of(&self, key: &str, variant: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        for subject in 0..self.record.subjects.len() {
            for (at, run) in sound(self.record, subject, variant).enumerate() {
                let course = run.courses.iter().find(|course| course.key == key);
                lines.extend(course.map(|course| Line {
                    label: self.label(subject).to_owned(),
                    style: subject,
                    points: course.points.clone(),
                    is_faint: at > 0,
                }));
            }
        }
        lines
    }

    fn figure(&mut self, key: &str, variant: &str, plot: &str) {
        let (key, variant) = (escape(key), escape(variant));
        self.add(&format!(
            "<figure><figcaption>{key} <small>{variant}</small></figcaption>{plot}</figure>"
        ));
    }

    /// Latencies: percentiles of the first run of each subject, and tables over all runs.
    fn distributions(&mut self) {
        let record = self.record;
        let runs = counted(record);
        let all = || runs.iter().flat_map(|run| &run.distributions);
        let mut keys: Vec<&Distribution> = Vec::new();
        for distribution in all() {
            if !keys.iter().any(|other| other.key == distribution.key) {
                keys.push(distribution);
            }
        }
        if keys.is_empty() {
            return;
        }
        self.add(
            "<h2>Latencies</h2>\n<p>Counted from when a request was due, so that one that had to wait behind a slow one has its wait \
             counted too. Thin lines count from when a request was sent, which hides such waits.</p>\n<div class=\"grid2\">",
        );
        for Distribution { key, unit, .. } in &keys {
            let some = all().filter(|distribution| distribution.key == *key);
            let values = some.flat_map(|distribution| {
                distribution
                    .corrected
                    .iter()
                    .chain(&distribution.uncorrected)
            });
            let y = Axis::of(values.map(|line| line.value), true);
            for variant in variants(record) {
                let lines = self.percentile_lines(key, variant);
                if !lines.is_empty() {
                    let plot = percentiles(key, unit, y, &lines);
                    self.figure(key, variant, &plot);
                }
            }
        }
        self.add("</div>");
        for variant in variants(record) {
            self.latency_table(&keys, variant);
        }
    }

    fn percentile_lines(&self, key: &str, variant: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        for subject in 0..self.record.subjects.len() {
            let Some(found) = first_distribution(self.record, subject, variant, key) else {
                continue;
            };
            for (table, is_faint) in [(&found.uncorrected, true), (&found.corrected, false)] {
                if table.is_empty() {
                    continue;
                }
                lines.push(Line {
                    label: self.label(subject).to_owned(),
                    style: subject,
                    points: table.iter().map(|line| [line.share, line.value]).collect(),
                    is_faint,
                });
            }
        }
        lines
    }

    fn latency_table(&mut self, keys: &[&Distribution], variant: &str) {
        let record = self.record;
        let mut body = String::new();
        for Distribution { key, unit, .. } in keys {
            for subject in 0..record.subjects.len() {
                let runs = || sound(record, subject, variant);
                let of_run = |run: &Run| run.distributions.iter().find(|d| d.key == *key).cloned();
                let tables: Vec<Distribution> = runs().filter_map(of_run).collect();
                if tables.is_empty() {
                    continue;
                }
                let count: u64 = tables.iter().map(|table| table.count).sum();
                let cells = SHARES.map(|share| {
                    let values = tables
                        .iter()
                        .filter_map(|table| at(&table.corrected, share));
                    let shown = Spread::of(values).map_or("-".to_owned(), |s| spread(&s));
                    format!("<td>{}</td>", escape(&shown))
                });
                let (key, unit, label) = (escape(key), escape(unit), escape(self.label(subject)));
                let _ = write!(
                    body,
                    "<tr><td>{key}, {unit}</td><td>{label}</td><td>{count}</td>{}</tr>",
                    cells.concat()
                );
            }
        }
        if body.is_empty() {
            return;
        }
        let heads = SHARES.map(|share| format!("<th>p{}</th>", percent(share)));
        if !variant.is_empty() {
            self.add(&format!("<h3>{}</h3>", escape(variant)));
        }
        self.add(&format!(
            "<div class=\"wide\"><table><thead><tr><th>from when it was due</th><th></th><th>number</th>{}</tr></thead><tbody>{body}</tbody></table></div>",
            heads.concat()
        ));
    }

    /// All figures, a table for each variant.
    fn figures(&mut self) {
        let record = self.record;
        self.add("<h2>All figures</h2>\n<p>Medians over the repetitions with the least and the most in brackets; ratios are made within a repetition.</p>");
        for variant in variants(record) {
            if !variant.is_empty() {
                self.add(&format!("<h3>{}</h3>", escape(variant)));
            }
            let first = escape(self.label(0));
            let labels = || record.subjects.iter().map(|subject| escape(&subject.label));
            let mut table = "<div class=\"wide\"><table><thead><tr><th></th>".to_owned();
            labels().for_each(|label| table.push_str(&format!("<th>{label}</th>")));
            labels()
                .skip(1)
                .for_each(|label| table.push_str(&format!("<th>{label} / {first}</th>")));
            table.push_str("</tr></thead><tbody>");
            for row in rows(record, variant) {
                let class = if row.is_headline {
                    " class=\"head\""
                } else {
                    ""
                };
                table.push_str(&format!(
                    "<tr{class}><td>{}</td>",
                    escape(&name(&row.key, &row.unit))
                ));
                for value in &row.values {
                    table.push_str(&cell(value.as_ref().map_or("-".to_owned(), spread)));
                }
                for value in row.ratios.iter().skip(1) {
                    table.push_str(&cell(value.as_ref().map_or_else(String::new, ratio)));
                }
                table.push_str("</tr>");
            }
            table.push_str("</tbody></table></div>");
            self.add(&table);
        }
    }

    fn differences(&mut self) {
        for difference in &self.record.differences {
            let row = |tag: &str, texts: &[String]| {
                let cells = texts
                    .iter()
                    .map(|text| format!("<{tag}>{}</{tag}>", escape(text)));
                format!("<tr>{}</tr>", cells.collect::<String>())
            };
            let rows: String = difference
                .rows
                .iter()
                .map(|texts| row("td", texts))
                .collect();
            let (title, head) = (escape(&difference.title), row("th", &difference.columns));
            self.add(&format!(
                "<h2>{title}</h2>\n<div class=\"wide\"><table class=\"text\"><thead>{head}</thead><tbody>{rows}</tbody></table></div>"
            ));
        }
    }

    /// How it was measured: commands, parameters, and what measuring cost.
    fn about(&mut self) {
        let record = self.record;
        let tool = &record.tool;
        self.add("<h2>How it was measured</h2>\n<dl>");
        let mut pair = |name: &str, value: &str| {
            let (name, value) = (escape(name), escape(value));
            self.text
                .push_str(&format!("<dt>{name}</dt><dd><code>{value}</code></dd>\n"));
        };
        pair("command", &record.command);
        pair(
            "tool",
            &format!("{} {} ({})", tool.name, tool.version, tool.profile),
        );
        pair("seed", &record.seed.to_string());
        for subject in &record.subjects {
            pair(&subject.label, &subject.command);
        }
        let given = record
            .parameters
            .iter()
            .filter(|parameter| !parameter.value.is_empty());
        for parameter in given {
            pair(&parameter.name, &parameter.value);
        }
        self.add("</dl>");
        let costly: Vec<&Run> = record
            .runs
            .iter()
            .filter(|run| !run.own_costs.is_empty())
            .collect();
        if costly.is_empty() {
            return;
        }
        self.add(
            "<h2>What measuring cost</h2>\n<p>A run is left out when the generator and not the server was the bottleneck.</p>\n\
             <div class=\"wide\"><table class=\"text\"><thead><tr><th>run</th><th>cost</th><th>verdict</th></tr></thead><tbody>",
        );
        for run in costly {
            let costs: Vec<String> = run.own_costs.iter().map(own_cost).collect();
            let verdict = match run.verdict() {
                Verdict::Sound => "sound",
                Verdict::Noisy => "noisy",
                Verdict::Refused => "left out",
            };
            let (title, costs) = (escape(&title(record, run)), escape(&costs.join("; ")));
            self.add(&format!(
                "<tr><td>{title}</td><td>{costs}</td><td>{verdict}</td></tr>"
            ));
        }
        self.add("</tbody></table></div>");
    }
}

/// Says which costs were above their limits, and in how many runs.
fn causes(runs: &[&Run], verdict: Verdict) -> String {
    let mut causes: Vec<(&str, usize)> = Vec::new();
    for cost in runs.iter().flat_map(|run| &run.own_costs) {
        if cost.verdict() != verdict {
            continue;
        }
        match causes.iter_mut().find(|(key, _)| *key == cost.key) {
            Some((_, count)) => *count += 1,
            None => causes.push((&cost.key, 1)),
        }
    }
    let causes = causes.iter().map(|(key, count)| match count {
        1 => format!("{key} in one"),
        count => format!("{key} in {count}"),
    });
    format!(
        "Above the limit: {}; see \"What measuring cost\".",
        causes.collect::<Vec<_>>().join(", ")
    )
}

/// Returns the runs that were not refused.
fn counted(record: &Record) -> Vec<&Run> {
    let runs = record.runs.iter();
    runs.filter(|run| run.verdict() != Verdict::Refused)
        .collect()
}

fn cell(text: String) -> String {
    match escape(&text).split_once(" (") {
        Some((middle, spread)) => format!("<td>{middle} <small>({spread}</small></td>"),
        None => format!("<td>{}</td>", escape(&text)),
    }
}

fn first_distribution<'a>(
    record: &'a Record,
    subject: usize,
    variant: &'a str,
    key: &str,
) -> Option<&'a Distribution> {
    let mut runs = sound(record, subject, variant);
    runs.find_map(|run| run.distributions.iter().find(|d| d.key == key))
}

fn at(table: &[Quantile], share: f64) -> Option<f64> {
    let found = table.iter().find(|line| (line.share - share).abs() < 1e-9);
    found.map(|line| line.value)
}

/// Returns a share as a percentile's number, such as `99.9`.
fn percent(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the day of a time, in UTC.
fn date(time_s: u64) -> String {
    // Days to civil, Howard Hinnant's algorithm for the proleptic Gregorian calendar.
    let days = (time_s / 86_400) as i64 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::sample;

    /// Fails unless every element is closed in its order; returns the names of all.
    fn elements(page: &str) -> Vec<String> {
        let (mut open, mut all) = (Vec::new(), Vec::new());
        let body = page.strip_prefix("<!DOCTYPE html>\n").expect("a page");
        for piece in body.split('<').skip(1) {
            let (tag, text) = piece.split_once('>').expect("every tag ends");
            assert!(!text.contains('>'), "{text}");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            let name = tag
                .split([' ', '/'])
                .find(|part| !part.is_empty())
                .expect("a name");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "{name} is closed");
            } else if !tag.ends_with('/') {
                open.push(name.to_owned());
            }
            all.push(name.to_owned());
        }
        assert!(open.is_empty(), "{open:?} stay open");
        all
    }

    #[test]
    fn a_page_is_well_formed_and_loads_nothing() {
        let page = page(&sample());
        let elements = elements(&page);
        for name in ["svg", "table", "figure", "section", "dl"] {
            assert!(elements.iter().any(|element| element == name), "{name}");
        }
        for name in ["script", "link", "img", "iframe", "object", "image", "use"] {
            assert!(elements.iter().all(|element| element != name), "{name}");
        }
        for what in ["http:", "https:", "url(", "@import", "src=", "href="] {
            assert!(!page.contains(what), "{what}");
        }
        for what in [
            "In short",
            "5 times as much",
            "5x",
            "REFUSED",
            "left out",
            "2023-11-14",
            "Above the limit: first byte p99 in one; see",
        ] {
            assert_eq!(page.contains(what), what != "REFUSED", "{what}");
        }
    }

    #[test]
    fn texts_stay_texts() {
        let mut record = sample();
        record.title = "<script>alert(1)</script> & \"more\"\u{1}".to_owned();
        record.subjects[1].label = "a<b".to_owned();
        record.notes.push("x > y".to_owned());
        let page = page(&record);
        elements(&page);
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;more&quot;"));
        assert!(!page.contains("a<b") && !page.contains('\u{1}'));
    }

    #[test]
    fn a_record_without_anything_is_still_a_page() {
        let mut record = sample();
        record.runs.clear();
        record.differences.clear();
        elements(&page(&record));
        for run in &mut sample().runs {
            run.courses.clear();
            run.distributions.clear();
            record.runs.push(run.clone());
        }
        elements(&page(&record));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [0, 951_782_400, 1_700_000_000, 4_102_444_800].map(date);
        assert_eq!(
            dates,
            ["1970-01-01", "2000-02-29", "2023-11-14", "2100-01-01"]
        );
        assert_eq!([0.5, 0.999, 1.0].map(percent), ["50", "99.9", "100"]);
    }
}
