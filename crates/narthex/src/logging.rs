//! Log lines, in logfmt or JSON, on standard error.

use std::fmt;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::LevelFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

/// Starts logging for the whole process.
///
/// # Errors
/// Fails on an unknown level or format; returns the flag and the reason.
pub(crate) fn start(level: &str, format: &str) -> Result<(), (&'static str, String)> {
    let level = match level {
        "debug" => LevelFilter::DEBUG,
        "info" => LevelFilter::INFO,
        "warn" => LevelFilter::WARN,
        "error" => LevelFilter::ERROR,
        other => {
            let reason = format!("unrecognized {other:?}: one of debug, info, warn, error");
            return Err(("log.level", reason));
        }
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        // Otherwise a line that cannot be written, as on a full disk, is reported with `eprintln!`, which then panics.
        .log_internal_errors(false);
    let outcome = match format {
        "logfmt" => builder.event_format(Logfmt).try_init(),
        "json" => builder.json().flatten_event(true).try_init(),
        other => {
            let reason = format!("unrecognized {other:?}: one of logfmt, json");
            return Err(("log.format", reason));
        }
    };
    // A second start in one process (tests) keeps the first one's settings.
    drop(outcome);
    narthex_net::log_panics();
    Ok(())
}

/// `time=… level=… msg="…" key=value`.
struct Logfmt;

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("time=")?;
        SystemTime.format_time(&mut writer)?;
        let level = match *event.metadata().level() {
            Level::ERROR => "ERROR",
            Level::WARN => "WARN",
            Level::INFO => "INFO",
            Level::DEBUG => "DEBUG",
            Level::TRACE => "TRACE",
        };
        write!(writer, " level={level}")?;
        let mut fields = Fields {
            writer: &mut writer,
            outcome: Ok(()),
        };
        event.record(&mut fields);
        fields.outcome?;
        writeln!(writer)
    }
}

struct Fields<'a, 'b> {
    writer: &'a mut Writer<'b>,
    outcome: fmt::Result,
}

impl Fields<'_, '_> {
    fn write(&mut self, field: &Field, value: &str) {
        if self.outcome.is_err() {
            return;
        }
        let name = if field.name() == "message" {
            "msg"
        } else {
            field.name()
        };
        let plain = !value.is_empty()
            && value
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"\"=\\".contains(&byte));
        self.outcome = if plain {
            write!(self.writer, " {name}={value}")
        } else {
            write!(self.writer, " {name}={value:?}")
        };
    }
}

impl Visit for Fields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, &format!("{value:?}"));
    }
}
