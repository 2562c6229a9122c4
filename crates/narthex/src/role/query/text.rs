//! Texts that all formats share, and progress.

use super::source::Source;
use narthex_model::sync::Whole as _;
use narthex_promql::fmt::parse_number;
use serde_json::Value as Json;
use std::{
    io::Write,
    sync::{
        Mutex,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

/// Time after which progress is shown.
const PATIENCE: Duration = Duration::from_millis(700);
/// Returns to the line's start and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Parses a sample's value.
pub(in crate::role) fn number(text: &str) -> Option<f64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    Some(sign * parse_number(digits).ok()?)
}

/// Formats milliseconds as seconds.
pub(in crate::role) fn seconds(ms: i64) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    let ms = ms.unsigned_abs();
    format!("{sign}{}.{:03}", ms / 1000, ms % 1000)
}

/// Formats JSON as one line.
pub(super) fn json_line(value: &Json) -> String {
    format!("{value}\n")
}

/// Formats a time as Prometheus' model does: seconds without needless decimals.
pub(super) fn time(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a number for people: at most four digits that matter, and a unit of thousands.
pub(super) fn short(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() || magnitude == 0.0 {
        return narthex_promql::fmt::float_f(value);
    }
    if !(1e-3..1e18).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    let units = [
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
    ];
    let (scale, unit) = units
        .into_iter()
        .find(|(scale, _)| magnitude >= *scale)
        .unwrap_or((1.0, ""));
    let scaled = value / scale;
    let decimals = match scaled.abs() {
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        x if x >= 0.1 => 3,
        x if x >= 0.01 => 4,
        _ => 5,
    };
    let text = format!("{scaled:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

/// Shows on a terminal that something takes long.
pub(super) struct Progress<'a> {
    out: Mutex<&'a mut (dyn Write + Send)>,
    is_terminal: bool,
    begun: Instant,
    part: String,
}

impl<'a> Progress<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), is_terminal: bool) -> Self {
        Self {
            out: Mutex::new(out),
            is_terminal,
            begun: Instant::now(),
            part: String::new(),
        }
    }

    /// Names the part of the range that is asked for next.
    pub(super) fn part(&mut self, part: i64, of: i64) {
        self.part = format!(" part {part} of {of},");
    }

    /// Asks, and shows how long it takes.
    pub(super) fn ask(
        &self,
        source: &mut Source,
        path: &str,
        form: &[(&str, String)],
        warnings: &mut Vec<String>,
    ) -> Result<Json, String> {
        if !self.is_terminal {
            return source.ask(path, form, warnings);
        }
        let (done, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut pause = PATIENCE;
                while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    pause = Duration::from_millis(200);
                    let seconds = self.begun.elapsed().as_secs_f64();
                    self.write(&format!("{CLEAR}asking:{} {seconds:.1} s", self.part));
                }
            });
            let answer = source.ask(path, form, warnings);
            drop(done);
            answer
        })
    }

    /// Removes what is shown.
    pub(super) fn clear(&mut self) {
        if self.is_terminal && self.begun.elapsed() >= PATIENCE {
            self.write(CLEAR);
        }
    }

    fn write(&self, text: &str) {
        // Half a line of progress is written over by the next.
        let mut out = self.out.lock().whole();
        // What cannot be shown is no loss.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}
