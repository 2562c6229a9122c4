//! A record as a self-contained page: it can be mailed, archived and printed.
//!
//! Plots are drawn by uPlot, which is embedded; without scripts the tables have the same figures.
//! **Invariant:** well-formed markup that fetches nothing; every text from a record is escaped.

use super::{
    number::{compared, name, spread},
    tables,
};
use crate::record::{
    Difference, Record, Run, Verdict,
    summary::{Row, distinct, rows, sound, variants},
};
use serde_json::{Value, json};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const UPLOT: &str = include_str!("uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("uplot/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("uplot/LICENSE");

/// Number of colours and of dash styles.
const STYLES: usize = 6;

/// Returns the page of a record.
pub(crate) fn page(record: &Record) -> String {
    let mut plots = Vec::new();
    let body = [
        head(record),
        headlines(record),
        courses(record, &mut plots),
        latencies(record, &mut plots),
        figures(record),
        record.differences.iter().map(difference).collect(),
        about(record),
    ];
    let title = escape(&format!("{}: {}", record.scenario, subjects(record)));
    // Inside a script, only the element's end tag must be escaped.
    let plots = Value::from(plots).to_string().replace('<', "\\u003c");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n\
         <style>\n{UPLOT_STYLE}\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{}\
         <script type=\"application/json\" id=\"plots\">{plots}</script>\n\
         <script>\n/*\n{UPLOT_LICENSE}*/\n{UPLOT}\n{SCRIPT}</script>\n</body>\n</html>\n",
        body.concat()
    )
}

/// Escapes a text.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

fn label(record: &Record, subject: usize) -> &str {
    record.subjects.get(subject).map_or("", |s| &s.label)
}

fn subjects(record: &Record) -> String {
    let labels: Vec<&str> = record.subjects.iter().map(|s| s.label.as_str()).collect();
    match labels.as_slice() {
        [first, others @ .., last] if !others.is_empty() => {
            format!("{first} against {} and {last}", others.join(", "))
        }
        few => few.join(" against "),
    }
}

/// Returns the measurement, the machine, and what a reader must know before trusting any figure.
fn head(record: &Record) -> String {
    let machine = &record.machine;
    let repetitions = record.runs.iter().map(|run| run.repetition + 1).max();
    let times = match repetitions.unwrap_or(0) {
        0 | 1 => "measured once".to_owned(),
        n => format!("measured {n} times in alternating order"),
    };
    let mut text = format!(
        "<p class=\"lead\">{}; {times}.</p>\n<p class=\"lead\">{}, {} cores, {:.0} GB, Linux {}; \
         <time data-seconds=\"{}\"></time></p>\n",
        escape(&record.title),
        escape(&machine.cpu),
        machine.cores,
        machine.memory_bytes as f64 / 1e9,
        escape(&machine.kernel),
        record.time_s
    );
    for warning in warnings(record) {
        text.push_str(&format!("<p class=\"warn\">{}</p>\n", escape(&warning)));
    }
    let notes = record.notes.iter();
    text.push_str(&list(notes.map(|note| escape(note)), ""));
    let legend = record.subjects.iter().enumerate().map(|(at, subject)| {
        let (style, label) = (at % STYLES, escape(&subject.label));
        let version = escape(&subject.version);
        format!("<i class=\"s{style}\"></i><strong>{label}</strong> <small>{version}</small>")
    });
    text + &list(legend, " class=\"legend\"")
}

fn list(items: impl Iterator<Item = String>, class: &str) -> String {
    let items: String = items.map(|item| format!("<li>{item}</li>")).collect();
    match items.as_str() {
        "" => items,
        _ => format!("<ul{class}>{items}</ul>\n"),
    }
}

fn warnings(record: &Record) -> Vec<String> {
    let mut warnings = Vec::new();
    if record.tool.profile != "release" {
        let what =
            "Measured with a debug build of narthex-bench: its own cost is several times too high.";
        warnings.push(what.to_owned());
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
        let runs = || record.runs.iter().filter(|run| run.verdict() == verdict);
        let (count, all) = (runs().count(), record.runs.len());
        if count == 0 {
            continue;
        }
        let above = |run: &Run, key: &str| {
            let mut costs = run.own_costs.iter();
            costs.any(|cost| cost.key == key && cost.verdict() == verdict)
        };
        let costs = runs().flat_map(|run| &run.own_costs);
        let costs = costs.filter(|cost| cost.verdict() == verdict);
        let causes = distinct(costs.map(|cost| cost.key.as_str()));
        let causes = causes
            .iter()
            .map(|key| match runs().filter(|run| above(run, key)).count() {
                1 => format!("{key} in one"),
                count => format!("{key} in {count}"),
            });
        let causes: Vec<String> = causes.collect();
        warnings.push(format!(
            "{count} of {all} runs are {what}. Above the limit: {}; see \"What measuring cost\".",
            causes.join(", ")
        ));
    }
    warnings
}

/// Returns the headline figures as bars, with their ratios in words.
fn headlines(record: &Record) -> String {
    let mut all: Vec<(&str, Row)> = Vec::new();
    for variant in variants(record) {
        let rows = rows(record, variant).into_iter();
        all.extend(rows.filter(|row| row.is_headline).map(|row| (variant, row)));
    }
    let keys = distinct(all.iter().map(|(_, row)| row.key.as_str()));
    if keys.is_empty() {
        return String::new();
    }
    let mut text = "<h2>In short</h2>\n".to_owned();
    if record.subjects.len() > 1 {
        let first = escape(label(record, 0));
        text.push_str(&format!(
            "<p>Below the bars: how much the others need, compared with {first}.</p>\n"
        ));
    }
    text.push_str("<div class=\"cards\">\n");
    for key in keys {
        let rows = || all.iter().filter(|(_, row)| row.key == key);
        let unit = rows().next().map_or("", |(_, row)| &row.unit);
        let (key, unit) = (escape(key), escape(unit));
        text.push_str(&format!(
            "<section class=\"card\"><h3>{key} <small>{unit}</small></h3>\n"
        ));
        let values = rows().flat_map(|(_, row)| row.values.iter().flatten());
        let most = values
            .map(|value| value.most)
            .fold(f64::MIN_POSITIVE, f64::max);
        for (variant, row) in rows() {
            if !variant.is_empty() {
                text.push_str(&format!("<h4>{}</h4>\n", escape(variant)));
            }
            text.push_str(&bars(record, row, most));
        }
        text.push_str("</section>\n");
    }
    text + "</div>\n"
}

fn bars(record: &Record, row: &Row, most: f64) -> String {
    let mut text = String::new();
    for (at, value) in row.values.iter().enumerate() {
        let Some(value) = value else { continue };
        text.push_str(&format!(
            "<div class=\"bar\"><span>{}</span><b>{}</b><i class=\"f{}\" style=\"width: {:.1}%\"></i></div>\n",
            escape(label(record, at)),
            spread(value),
            at % STYLES,
            (value.median / most * 100.0).max(0.4)
        ));
    }
    let ratios = row.ratios.iter().enumerate();
    let said = ratios.filter_map(|(at, ratio)| {
        let words = compared(ratio.as_ref()?.median);
        Some(format!("{}: {words}", escape(label(record, at))))
    });
    text + &list(said, "")
}

/// Returns the runs that count.
fn counted(record: &Record) -> impl Iterator<Item = &Run> {
    let runs = record.runs.iter();
    runs.filter(|run| run.verdict() != Verdict::Refused)
}

/// Returns figures over time: a plot for each key and variant, with one scale for all variants of a key.
fn courses(record: &Record, plots: &mut Vec<Value>) -> String {
    let all = counted(record).flat_map(|run| &run.courses);
    let keys = distinct(all.map(|course| course.key.as_str()));
    if keys.is_empty() {
        return String::new();
    }
    let mut text =
        "<h2>Over time</h2>\n<p>Warm-up is part of it. Thin lines are further repetitions.</p>\n\
                    <div class=\"plots\">\n"
            .to_owned();
    for key in keys {
        for variant in variants(record) {
            let (mut lines, mut unit) = (Vec::new(), "");
            for subject in 0..record.subjects.len() {
                let runs = sound(record, subject, variant).enumerate();
                lines.extend(runs.filter_map(|(at, run)| {
                    let course = run.courses.iter().find(|course| course.key == key)?;
                    unit = &course.unit;
                    let mut label = label(record, subject).to_owned();
                    if at > 0 {
                        label.push_str(&format!(", {}", at + 1));
                    }
                    let points = course.points.iter().map(|p| (p[0], p[1]));
                    Some(line(label, subject, at > 0, points))
                }));
            }
            text.push_str(&plot("time", key, unit, variant, lines, plots));
        }
    }
    text + "</div>\n"
}

/// Returns latencies: percentiles of the first run of each subject, and tables over all runs.
fn latencies(record: &Record, plots: &mut Vec<Value>) -> String {
    let all = counted(record).flat_map(|run| &run.distributions);
    let keys = distinct(all.map(|distribution| distribution.key.as_str()));
    if keys.is_empty() {
        return String::new();
    }
    let mut text = "<h2>Latencies</h2>\n<p>Counted from when a request was due, so that one that had to wait behind a \
                    slow one has its wait counted too. Thin lines count from when a request was sent, which hides such \
                    waits.</p>\n<div class=\"plots\">\n"
        .to_owned();
    for key in keys {
        for variant in variants(record) {
            let (mut lines, mut unit) = (Vec::new(), "");
            for subject in 0..record.subjects.len() {
                let mut runs = sound(record, subject, variant);
                let found = runs.find_map(|run| run.distributions.iter().find(|d| d.key == key));
                let Some(found) = found else { continue };
                unit = &found.unit;
                for (table, is_faint) in [(&found.corrected, false), (&found.uncorrected, true)] {
                    let side = if is_faint { ", from sent" } else { "" };
                    let label = format!("{}{side}", label(record, subject));
                    let points = table.iter().map(|line| (line.share, line.value));
                    lines.extend(
                        (!table.is_empty()).then(|| line(label, subject, is_faint, points)),
                    );
                }
            }
            text.push_str(&plot("percentiles", key, unit, variant, lines, plots));
        }
    }
    text.push_str("</div>\n");
    for variant in variants(record) {
        let latencies = tables::latencies(record, variant);
        if !latencies.rows.is_empty() {
            text.push_str(&table(&latencies, "h3", ""));
        }
    }
    text
}

fn line(
    label: String,
    subject: usize,
    is_faint: bool,
    points: impl Iterator<Item = (f64, f64)>,
) -> Value {
    let (x, y): (Vec<f64>, Vec<f64>) = points.unzip();
    json!({ "label": label, "style": subject % STYLES, "faint": is_faint, "x": x, "y": y })
}

/// Adds a plot to those the script draws and returns its placeholder; nothing without lines.
fn plot(
    axis: &str,
    key: &str,
    unit: &str,
    variant: &str,
    lines: Vec<Value>,
    plots: &mut Vec<Value>,
) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let place = plots.len();
    plots.push(json!({ "axis": axis, "key": key, "unit": unit, "lines": lines }));
    format!(
        "<figure><figcaption>{} <small>{}</small></figcaption><div id=\"plot-{place}\"></div></figure>\n",
        escape(&name(key, unit)),
        escape(variant)
    )
}

fn figures(record: &Record) -> String {
    let mut text = "<h2>All figures</h2>\n<p>Medians over the repetitions with the least and the most in brackets; ratios \
                    are made within a repetition.</p>\n"
        .to_owned();
    for variant in variants(record) {
        text.push_str(&table(&tables::figures(record, variant), "h3", ""));
    }
    text
}

fn difference(difference: &Difference) -> String {
    table(difference, "h2", " class=\"text\"")
}

fn table(table: &Difference, heading: &str, class: &str) -> String {
    let row = |tag: &str, texts: &[String]| {
        let cell = |text: &String| match escape(text).split_once(" (") {
            Some((middle, rest)) if tag == "td" && class.is_empty() => {
                format!("<{tag}>{middle} <small>({rest}</small></{tag}>")
            }
            _ => format!("<{tag}>{}</{tag}>", escape(text)),
        };
        format!("<tr>{}</tr>\n", texts.iter().map(cell).collect::<String>())
    };
    let rows: String = table.rows.iter().map(|texts| row("td", texts)).collect();
    let title = match table.title.as_str() {
        "" => String::new(),
        title => format!("<{heading}>{}</{heading}>\n", escape(title)),
    };
    let head = row("th", &table.columns);
    format!(
        "{title}<div class=\"wide\"><table{class}><thead>{head}</thead><tbody>{rows}</tbody></table></div>\n"
    )
}

/// Returns how it was measured: commands, parameters, and the costs of measuring.
fn about(record: &Record) -> String {
    let tool = &record.tool;
    let tool = format!("{} {} ({})", tool.name, tool.version, tool.profile);
    let seed = record.seed.to_string();
    let mut pairs = vec![
        ("command", record.command.as_str()),
        ("tool", &tool),
        ("seed", &seed),
    ];
    let subjects = record.subjects.iter();
    pairs.extend(subjects.map(|subject| (subject.label.as_str(), subject.command.as_str())));
    let given = record
        .parameters
        .iter()
        .filter(|parameter| !parameter.value.is_empty());
    pairs.extend(given.map(|parameter| (parameter.name.as_str(), parameter.value.as_str())));
    let pair = |(name, value): (&str, &str)| {
        let (name, value) = (escape(name), escape(value));
        format!("<dt>{name}</dt><dd><code>{value}</code></dd>\n")
    };
    let pairs: String = pairs.into_iter().map(pair).collect();
    let costs = tables::own_costs(record).map(|(run, costs, verdict)| {
        let verdict = match verdict {
            Verdict::Sound => "sound",
            Verdict::Noisy => "noisy",
            Verdict::Refused => "left out",
        };
        vec![run, costs, verdict.to_owned()]
    });
    let costs = Difference {
        title: "What measuring cost".to_owned(),
        columns: ["run", "cost", "verdict"].map(str::to_owned).to_vec(),
        rows: costs.collect(),
    };
    let costs = if costs.rows.is_empty() {
        String::new()
    } else {
        difference(&costs)
    };
    format!("<h2>How it was measured</h2>\n<dl>\n{pairs}</dl>\n{costs}")
}

#[cfg(test)]
mod tests;
