//! Plots in a terminal: lines of Braille dots, two across and four down in each character.
//!
//! **Invariant:** a plot never is wider or higher than its screen; what it leaves out, it says.

use super::{
    Screen,
    answer::{Answer, Point, Series},
    promql, sorted, table, text,
};
use narthex_model::date::rfc3339;
use std::fmt::Write as _;

/// Most series that are drawn.
const SERIES: usize = 12;
/// Rows of a plot, where there is room.
const ROWS: usize = 20;
/// Codes of colours that differ on dark and light screens.
const COLOURS: [u8; 6] = [36, 33, 35, 32, 34, 31];

/// Dots of one plot; each character belongs to the series that drew in it last.
struct Canvas {
    columns: usize,
    rows: usize,
    cells: Vec<(u8, usize)>,
}

/// Ranges of time and value.
#[derive(Clone, Copy)]
struct Bounds {
    start: f64,
    end: f64,
    low: f64,
    high: f64,
}

/// Formats a query's value; one that is not over a range as a table.
pub(super) fn answer(answer: &Answer, screen: Screen) -> String {
    let Answer::Matrix(all) = answer else {
        return table::answer(answer, screen);
    };
    let all = sorted(all.iter().collect());
    let drawn: Vec<&Series> = all
        .iter()
        .copied()
        .filter(|one| !one.points.is_empty())
        .take(SERIES)
        .collect();
    let Some(bounds) = Bounds::around(&drawn) else {
        return table::answer(answer, screen);
    };
    let sets: Vec<_> = all.iter().map(|series| &series.labels).collect();
    let (common, names) = table::factored(&sets);
    let mut out = table::heading(&common, all.len(), screen);
    out += &picture(&drawn, bounds, screen);
    for (at, series) in drawn.iter().enumerate() {
        let own = series
            .labels
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()));
        let own = own
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let name = if drawn.len() == 1 {
            String::new()
        } else {
            promql::metric(&own)
        };
        let last = series
            .points
            .last()
            .map_or(String::new(), |point| text::short(point.value));
        let _ = writeln!(out, "{} {name}  last {last}", mark(at, screen));
    }
    if all.len() > drawn.len() {
        let _ = writeln!(
            out,
            "… {} more series are not drawn",
            all.len() - drawn.len()
        );
    }
    out
}

impl Bounds {
    fn around(drawn: &[&Series]) -> Option<Self> {
        let points = || drawn.iter().flat_map(|series| &series.points);
        let finite = || {
            points()
                .map(|point| point.value)
                .filter(|value| value.is_finite())
        };
        let (low, high) = (finite().reduce(f64::min)?, finite().reduce(f64::max)?);
        let times = || points().map(|point| point.time);
        // A flat line gets room above and below.
        let room = if high > low {
            0.0
        } else {
            high.abs().max(1.0) / 10.0
        };
        Some(Self {
            start: times().reduce(f64::min)?,
            end: times().reduce(f64::max)?,
            low: low - room,
            high: high + room,
        })
    }

    /// Returns where a point is, in dots from the left and from the top.
    fn place(self, point: &Point, columns: usize, rows: usize) -> (f64, f64) {
        let across = (point.time - self.start) / (self.end - self.start).max(1e-9);
        let down = (self.high - point.value) / (self.high - self.low);
        let dots = |length: usize| (length - 1) as f64;
        (across * dots(columns * 2), down * dots(rows * 4))
    }
}

fn picture(drawn: &[&Series], bounds: Bounds, screen: Screen) -> String {
    let rows = ROWS.min(screen.rows.saturating_sub(drawn.len() + 6)).max(4);
    let label = |row: usize| {
        let part = row as f64 / (rows - 1) as f64;
        text::short(bounds.high - (bounds.high - bounds.low) * part)
    };
    // Every fourth row has a label.
    let labels: Vec<String> = (0..rows)
        .map(|row| {
            if row % 4 == 0 || row == rows - 1 {
                label(row)
            } else {
                String::new()
            }
        })
        .collect();
    let margin = labels
        .iter()
        .map(|label| label.chars().count())
        .max()
        .unwrap_or(0);
    let columns = screen.columns.saturating_sub(margin + 3).clamp(10, 200);
    let mut canvas = Canvas::new(columns, rows);
    for (at, series) in drawn.iter().enumerate() {
        canvas.draw(series, bounds, at);
    }
    let mut out = String::new();
    for (row, label) in labels.iter().enumerate() {
        let edge = if label.is_empty() { '│' } else { '┤' };
        let _ = writeln!(out, "{label:>margin$} {edge}{}", canvas.row(row, screen));
    }
    let _ = writeln!(out, "{:margin$} └{}", "", "─".repeat(columns));
    let (start, end) = (clock(bounds.start, bounds), clock(bounds.end, bounds));
    let gap = columns.saturating_sub(start.chars().count() + end.chars().count());
    let _ = writeln!(out, "{:margin$}  {start}{:gap$}{end}", "", "");
    out
}

/// Formats a time; the day only if the range has several.
fn clock(seconds: f64, bounds: Bounds) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a time in milliseconds")]
    let time = rfc3339((seconds * 1000.0) as i64);
    let part = match bounds.end - bounds.start {
        range if range > 86_400.0 => time.get(..16),
        _ => time.get(11..19),
    };
    format!("{}Z", part.unwrap_or_default().replace('T', " "))
}

fn mark(at: usize, screen: Screen) -> String {
    if screen.has_colours {
        let colour = COLOURS[at % COLOURS.len()];
        format!("\x1b[{colour}m──\x1b[0m")
    } else {
        "──".to_owned()
    }
}

impl Canvas {
    fn new(columns: usize, rows: usize) -> Self {
        Self {
            columns,
            rows,
            cells: vec![(0, 0); columns * rows],
        }
    }

    /// Draws a series as lines between its points; a gap of three steps interrupts it.
    fn draw(&mut self, series: &Series, bounds: Bounds, at: usize) {
        let steps = series
            .points
            .windows(2)
            .map(|pair| pair[1].time - pair[0].time);
        let step = steps.fold(f64::INFINITY, f64::min);
        let mut before: Option<&Point> = None;
        for point in series.points.iter().filter(|point| point.value.is_finite()) {
            let from = before.filter(|before| point.time - before.time < 3.0 * step);
            let (x, y) = bounds.place(point, self.columns, self.rows);
            let (left, top) =
                from.map_or((x, y), |from| bounds.place(from, self.columns, self.rows));
            let length = (x - left).abs().max((y - top).abs()).ceil().max(1.0);
            let mut part = 0.0;
            while part <= length {
                let share = part / length;
                self.dot(left + (x - left) * share, top + (y - top) * share, at);
                part += 1.0;
            }
            before = Some(point);
        }
    }

    fn dot(&mut self, x: f64, y: f64, at: usize) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "places are within the canvas"
        )]
        let (x, y) = (x.round().max(0.0) as usize, y.round().max(0.0) as usize);
        // Bits of a Braille character, left column then right.
        const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        let place = (y / 4).min(self.rows - 1) * self.columns + (x / 2).min(self.columns - 1);
        if let Some(cell) = self.cells.get_mut(place) {
            *cell = (cell.0 | BITS[x % 2][y % 4], at);
        }
    }

    fn row(&self, row: usize, screen: Screen) -> String {
        let mut out = String::new();
        let mut colour = None;
        for (dots, at) in &self.cells[row * self.columns..(row + 1) * self.columns] {
            let wanted =
                Some(COLOURS[at % COLOURS.len()]).filter(|_| *dots > 0 && screen.has_colours);
            if wanted != colour {
                let _ = write!(out, "\x1b[{}m", wanted.unwrap_or(0));
                colour = wanted;
            }
            out.push(match dots {
                0 => ' ',
                dots => char::from_u32(0x2800 + u32::from(*dots)).unwrap_or(' '),
            });
        }
        if colour.is_some() {
            out.push_str("\x1b[0m");
        }
        out.trim_end().to_owned()
    }
}
