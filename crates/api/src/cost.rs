//! What a request says about the costs of its query, and what an answer says.
//!
//! Requests may do so when the engine has limits that may change (`--enable-feature=query-cost`).

use crate::{config::Api, error::ApiError, params::Params, time::parse_duration};
use narthex_promql::{CostEstimate, QueryStats, ReadLimits};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// What a request says about costs.
pub(crate) struct CostOptions {
    /// What its query may read, if that is less than all queries may.
    pub(crate) most_read: ReadLimits,
    /// Longest time of its query.
    pub(crate) duration: Duration,
    /// Whether the limit of the time is one of costs.
    pub(crate) is_limited: bool,
    /// Whether it asks for costs.
    pub(crate) is_asked: bool,
}

impl CostOptions {
    /// Reads them from parameters.
    pub(crate) fn read(params: &Params, api: &Api) -> Result<Self, ApiError> {
        let Some(limits) = api.engine.cost_limits() else {
            return Ok(Self {
                most_read: ReadLimits::default(),
                duration: api.config.timeout,
                is_limited: false,
                is_asked: false,
            });
        };
        let all = limits.reads();
        let most_read = ReadLimits {
            series: count(params, "max_series", all.series)?,
            samples: count(params, "max_samples_read", all.samples)?,
        };
        let of_all = limits.duration();
        let ceiling = of_all.unwrap_or(api.config.timeout);
        let own = duration(params, ceiling)?;
        Ok(Self {
            most_read,
            duration: own.unwrap_or(ceiling),
            is_limited: own.or(of_all).is_some(),
            is_asked: is_asked(params)?,
        })
    }
}

/// Reads a limit that may be lower than that of all queries; 0 means no limit.
fn count(params: &Params, name: &str, ceiling: u64) -> Result<u64, ApiError> {
    let text = params.scalar(name)?;
    if text.is_empty() {
        return Ok(0);
    }
    let unread = |_| {
        let parsed = format_args!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        ApiError::bad_data(format!("error parsing {name}: {parsed}"))
    };
    let asked: u64 = text.parse().map_err(unread)?;
    if ceiling > 0 && asked > ceiling {
        return Err(above(name, asked, ceiling));
    }
    Ok(asked)
}

/// Reads `max_query_duration`; `None` if it is missing or zero.
fn duration(params: &Params, ceiling: Duration) -> Result<Option<Duration>, ApiError> {
    const NAME: &str = "max_query_duration";
    let text = params.scalar(NAME)?;
    if text.is_empty() {
        return Ok(None);
    }
    let bad = |reason: &dyn std::fmt::Display| {
        ApiError::bad_data(format!("error parsing {NAME}: {reason}"))
    };
    let ms = parse_duration(&text).map_err(|unread| bad(&unread))?;
    let Ok(asked_ms) = u64::try_from(ms) else {
        let asked = Duration::from_millis(ms.unsigned_abs());
        return Err(bad(&format_args!("must not be negative, got -{asked:?}")));
    };
    let asked = Duration::from_millis(asked_ms);
    if asked > ceiling {
        let (asked, ceiling) = (format!("{asked:?}"), format!("{ceiling:?}"));
        return Err(above(NAME, asked, ceiling));
    }
    Ok(Some(asked).filter(|asked| !asked.is_zero()))
}

fn above(name: &str, asked: impl std::fmt::Display, ceiling: impl std::fmt::Display) -> ApiError {
    let text = format!("requested {name} of {asked} exceeds the server limit of {ceiling}");
    ApiError::bad_data(text)
}

/// Reads `cost`, as Go reads a boolean.
fn is_asked(params: &Params) -> Result<bool, ApiError> {
    match &*params.scalar("cost")? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(ApiError::parameter("cost", "must be a boolean")),
    }
}

/// Returns an estimate beside what was read.
pub(crate) fn comparison(estimate: &CostEstimate, stats: &QueryStats) -> Json {
    let mut actual = json!({"seriesTouched": stats.series, "samplesRead": stats.samples_read});
    if stats.peak_samples > 0 {
        actual["peakSamples"] = stats.peak_samples.into();
    }
    json!({
        "estimated": {"seriesTouched": estimate.series, "samplesRead": estimate.samples},
        "actual": actual,
    })
}
