//! Plots as SVG: lines over time, percentiles, bars.
//!
//! Colours are classes `s0`, `s1`, … of the page's style, which knows light, dark and paper; lines differ in their
//! dashes too, so that they can be told apart without colour. **Invariant:** every axis has a unit and begins at zero
//! unless it is logarithmic and says so; every text is escaped.

use super::{html::escape, number::digits};

/// Size of a plot; the page scales it to its width.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 250.0;
/// Room around the axes.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 118.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 38.0;
/// Height of a line of text.
const TEXT: f64 = 14.0;
/// Most points of a line: neighbouring readings are drawn as their mean within a band from least to most.
const MOST_POINTS: usize = 120;

/// One line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) label: String,
    /// Which colour and dashes.
    pub(super) style: usize,
    pub(super) points: Vec<[f64; 2]>,
    /// Thinner and without a label: another repetition, or the less important of two.
    pub(super) is_faint: bool,
}

/// What an axis shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    least: f64,
    most: f64,
    is_log: bool,
}

impl Axis {
    /// Returns an axis for values that are not negative: from zero, or logarithmic when `can_be_log` and they differ by
    /// more than a factor of thirty.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone, can_be_log: bool) -> Self {
        let most = values.clone().fold(0.0, f64::max);
        let positive = values.filter(|value| *value > 0.0);
        let least = positive.fold(f64::INFINITY, f64::min);
        if can_be_log && least * 30.0 < most {
            return Self {
                least: 10f64.powf(least.log10().floor()),
                most: 10f64.powf(most.log10().ceil()),
                is_log: true,
            };
        }
        let most = if most > 0.0 { most } else { 1.0 };
        let step = step(most);
        Self {
            least: 0.0,
            most: (most / step).ceil() * step,
            is_log: false,
        }
    }

    /// Returns where a value lies, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let place = if self.is_log {
            (value.max(self.least) / self.least).log10() / (self.most / self.least).log10()
        } else {
            value / self.most
        };
        place.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let decades = (self.most / self.least).log10().round() as i32;
            return (0..=decades).map(|n| self.least * 10f64.powi(n)).collect();
        }
        let step = step(self.most);
        let count = (self.most / step).round() as u32;
        (0..=count).map(|n| f64::from(n) * step).collect()
    }

    /// Returns what is written behind the unit.
    fn remark(&self) -> &'static str {
        if self.is_log { " (logarithmic)" } else { "" }
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten that divides `most` into about five.
fn step(most: f64) -> f64 {
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// Returns a plot over time in seconds.
pub(super) fn over_time(name: &str, unit: &str, y: Axis, seconds: f64, lines: &[Line]) -> String {
    let (scale, time_unit) = match seconds {
        s if s > 3.0 * 3600.0 => (3600.0, "hours"),
        s if s > 180.0 => (60.0, "minutes"),
        _ => (1.0, "seconds"),
    };
    let x = Axis {
        least: 0.0,
        most: (seconds / scale).max(1e-9),
        is_log: false,
    };
    let ticks: Vec<(f64, String)> = x
        .ticks()
        .into_iter()
        .map(|at| (x.place(at), digits(at)))
        .collect();
    let mut plot = Plot::new(name, unit, y);
    plot.x_ticks(&ticks, &format!("{time_unit} since the start"));
    for line in lines {
        let mut scaled = line.clone();
        scaled
            .points
            .iter_mut()
            .for_each(|point| point[0] = x.place(point[0] / scale));
        plot.line(&scaled);
    }
    plot.labels(lines);
    plot.end()
}

/// Returns a plot of percentiles: shares to the right, each nine as wide as the one before.
pub(super) fn percentiles(name: &str, unit: &str, y: Axis, lines: &[Line]) -> String {
    let shares = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point[0]);
    let largest = shares.filter(|share| *share < 1.0).fold(0.9, f64::max);
    let nines = |share: f64| -(1.0 - share).log10();
    // The largest value of all stands half a nine behind the last share.
    let end = nines(largest) + 0.5;
    let place = |share: f64| {
        if share >= 1.0 {
            1.0
        } else {
            nines(share) / end
        }
    };
    let mut ticks: Vec<(f64, String)> = [
        (0.0, "0"),
        (0.5, "50"),
        (0.9, "90"),
        (0.99, "99"),
        (0.999, "99.9"),
        (0.9999, "99.99"),
        (0.99999, "99.999"),
    ]
    .into_iter()
    .filter(|(share, _)| *share <= largest)
    .map(|(share, text)| (place(share), text.to_owned()))
    .collect();
    ticks.push((1.0, "100".to_owned()));
    let mut plot = Plot::new(name, unit, y);
    plot.x_ticks(&ticks, "% of requests that took no longer");
    for line in lines {
        let mut scaled = line.clone();
        scaled
            .points
            .iter_mut()
            .for_each(|point| point[0] = place(point[0]));
        plot.line(&scaled);
    }
    plot.labels(lines);
    plot.end()
}

/// One bar: what it is called, its value, the spread behind it, and what is written at its end.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) style: usize,
    pub(super) value: f64,
    pub(super) spread: Option<(f64, f64)>,
    pub(super) text: String,
}

/// Returns horizontal bars from zero; one of the length `most` takes all the room there is.
pub(super) fn bars(name: &str, bars: &[Bar], most: f64) -> String {
    const ROW: f64 = 34.0;
    const ROOM: f64 = 400.0;
    let most = most.max(f64::MIN_POSITIVE);
    let height = ROW * bars.len() as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {ROOM} {height}\" role=\"img\" aria-label=\"{}\">",
        escape(name)
    );
    for (at, bar) in bars.iter().enumerate() {
        let y = at as f64 * ROW;
        let width = (bar.value / most * ROOM).max(1.5);
        let (label, text, style) = (escape(&bar.label), escape(&bar.text), bar.style % STYLES);
        svg.push_str(&format!(
            "<text x=\"0\" y=\"{:.1}\">{label}</text><text class=\"end\" x=\"{ROOM}\" y=\"{:.1}\">{text}</text>\
             <rect class=\"bar f{style}\" x=\"0\" y=\"{:.1}\" width=\"{width:.1}\" height=\"10\"/>",
            y + 13.0,
            y + 13.0,
            y + 18.0
        ));
        if let Some((least, most_of_all)) = bar.spread {
            let (from, to) = (least / most * ROOM, most_of_all / most * ROOM);
            let middle = y + 23.0;
            svg.push_str(&format!(
                "<path class=\"whisker\" d=\"M{from:.1} {:.1}v8M{from:.1} {middle:.1}H{to:.1}M{to:.1} {:.1}v8\"/>",
                middle - 4.0,
                middle - 4.0
            ));
        }
    }
    svg.push_str("</svg>");
    svg
}

/// How many colours and dashes there are.
pub(super) const STYLES: usize = 6;

/// A plot being drawn.
struct Plot {
    svg: String,
    y: Axis,
}

impl Plot {
    fn new(name: &str, unit: &str, y: Axis) -> Self {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(name)
        );
        let right = WIDTH - RIGHT;
        for tick in y.ticks() {
            let at = y_of(y.place(tick));
            svg.push_str(&format!(
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                axis_text(tick)
            ));
        }
        let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
        svg.push_str(&format!(
            "<text class=\"mid\" transform=\"translate(13 {middle:.1}) rotate(-90)\">{}{}</text>",
            escape(unit),
            y.remark()
        ));
        Self { svg, y }
    }

    fn x_ticks(&mut self, ticks: &[(f64, String)], name: &str) {
        let base = HEIGHT - BOTTOM;
        for (place, text) in ticks {
            let at = x_of(*place);
            self.svg.push_str(&format!(
                "<path class=\"axis\" d=\"M{at:.1} {base}v4\"/><text class=\"mid\" x=\"{at:.1}\" y=\"{:.1}\">{text}</text>",
                base + 16.0
            ));
        }
        let right = WIDTH - RIGHT;
        let middle = (LEFT + right) / 2.0;
        self.svg.push_str(&format!(
            "<path class=\"axis\" d=\"M{LEFT} {base}H{right}\"/><text class=\"mid\" x=\"{middle:.1}\" y=\"{:.1}\">{name}</text>",
            HEIGHT - 5.0
        ));
    }

    /// Draws a line whose x is a place on the axis already.
    fn line(&mut self, line: &Line) {
        let style = line.style % STYLES;
        let bins = binned(&line.points);
        if bins.len() < line.points.len() && !line.is_faint {
            let upper = bins.iter().map(|bin| (bin.x, bin.most));
            let lower = bins.iter().rev().map(|bin| (bin.x, bin.least));
            let path = self.path(upper.chain(lower));
            self.svg
                .push_str(&format!("<path class=\"band f{style}\" d=\"{path}z\"/>"));
        }
        if let [bin] = bins.as_slice() {
            let (x, y) = (x_of(bin.x), y_of(self.y.place(bin.mean)));
            self.svg.push_str(&format!(
                "<circle class=\"f{style}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"
            ));
        }
        let path = self.path(bins.iter().map(|bin| (bin.x, bin.mean)));
        let faint = if line.is_faint { " faint" } else { "" };
        self.svg.push_str(&format!(
            "<path class=\"line s{style}{faint}\" d=\"{path}\"/>"
        ));
    }

    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (at, (x, y)) in points.enumerate() {
            let letter = if at == 0 { 'M' } else { 'L' };
            let (x, y) = (x_of(x), y_of(self.y.place(y)));
            path.push_str(&format!("{letter}{x:.1} {y:.1}"));
        }
        path
    }

    /// Writes each line's name at its end, below each other where they would meet.
    fn labels(&mut self, lines: &[Line]) {
        let named = lines.iter().filter(|line| !line.is_faint);
        let mut ends: Vec<(f64, &Line)> = named
            .filter_map(|line| {
                let bins = binned(&line.points);
                Some((y_of(self.y.place(bins.last()?.mean)), line))
            })
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut above = f64::NEG_INFINITY;
        for (y, _) in &mut ends {
            *y = y.max(above + TEXT);
            above = *y;
        }
        // What was pushed below the axis moves up with whatever is above it.
        let mut below = HEIGHT - BOTTOM + TEXT;
        for (y, _) in ends.iter_mut().rev() {
            *y = y.min(below - TEXT);
            below = *y;
        }
        let x = WIDTH - RIGHT + 6.0;
        for (y, line) in ends {
            let (label, style) = (escape(&line.label), line.style % STYLES);
            self.svg.push_str(&format!(
                "<text class=\"t{style}\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>",
                y + 4.0
            ));
        }
    }

    fn end(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// Neighbouring points in one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bin {
    x: f64,
    least: f64,
    mean: f64,
    most: f64,
}

fn binned(points: &[[f64; 2]]) -> Vec<Bin> {
    let each = points.len().div_ceil(MOST_POINTS).max(1);
    let bin = |some: &[[f64; 2]]| {
        let count = some.len() as f64;
        let values = || some.iter().map(|point| point[1]);
        Bin {
            x: some.iter().map(|point| point[0]).sum::<f64>() / count,
            least: values().fold(f64::INFINITY, f64::min),
            mean: values().sum::<f64>() / count,
            most: values().fold(0.0, f64::max),
        }
    };
    points.chunks(each).map(bin).collect()
}

fn x_of(place: f64) -> f64 {
    LEFT + place * (WIDTH - LEFT - RIGHT)
}

fn y_of(place: f64) -> f64 {
    HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)
}

/// Returns a tick's number: round ones need no more digits than they have.
fn axis_text(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_ticks_from_zero() {
        let axis = |values: &[f64], log| Axis::of(values.iter().copied(), log);
        assert_eq!(
            axis(&[3.0, 9.1], false).ticks(),
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        );
        assert_eq!(
            axis(&[0.013], false)
                .ticks()
                .last()
                .copied()
                .map(axis_text)
                .unwrap(),
            "0.015"
        );
        assert_eq!(axis(&[], false).ticks().last(), Some(&1.0));
        assert_eq!(axis(&[100.0], false).most, 100.0);
        let log = axis(&[0.5, 70.0], true);
        assert_eq!(
            log.ticks().into_iter().map(axis_text).collect::<Vec<_>>(),
            ["0.1", "1", "10", "100"]
        );
        assert_eq!(
            (log.place(0.1), log.place(100.0), log.place(0.0)),
            (0.0, 1.0, 0.0)
        );
        assert!(!axis(&[5.0, 70.0], true).is_log);
    }

    #[test]
    fn many_points_are_drawn_as_a_band_that_keeps_the_extremes() {
        let points: Vec<[f64; 2]> = (0..1000)
            .map(|n| [f64::from(n), f64::from(n % 10)])
            .collect();
        let bins = binned(&points);
        assert!(bins.len() <= MOST_POINTS);
        assert!(bins.iter().any(|bin| bin.most == 9.0) && bins.iter().any(|bin| bin.least == 0.0));
        assert_eq!(binned(&points[..50]).len(), 50);
        assert!(binned(&[]).is_empty());
    }

    #[test]
    fn labels_do_not_lie_on_each_other() {
        let line = |label: &str, style| Line {
            label: label.to_owned(),
            style,
            points: vec![[0.0, 0.1], [9.0, 0.1]],
            is_faint: false,
        };
        let lines = [line("a<b", 0), line("b", 1), line("c", 2)];
        let svg = over_time("x", "MB", Axis::of([10.0].into_iter(), false), 10.0, &lines);
        let y = |label: &str| -> f64 {
            let text = svg.split(&format!("\">{label}</text>")).next().unwrap();
            text.rsplit("y=\"").next().unwrap().parse().unwrap()
        };
        let ys = [y("a&lt;b"), y("b"), y("c")];
        assert!(
            ys.windows(2).all(|pair| pair[1] - pair[0] >= TEXT),
            "{ys:?}"
        );
        assert!(ys[2] <= HEIGHT - BOTTOM + TEXT);
    }
}
