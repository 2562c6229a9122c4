//! Dispatch of functions over ranges.

use super::{
    FunctionId, integral, over_histograms, over_time, rate, regression, resets, smoothing,
    window::{NoteSink, OverCall, Place, Window},
};
use crate::{error::QueryError, eval::Value, notes::Note};

/// Computes a function's value for one window.
pub(crate) fn apply(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Result<Option<Value>, QueryError> {
    use FunctionId as F;
    let floats = &window.floats;
    Ok(match call.function {
        F::Rate | F::Increase | F::Delta => rate::extrapolated(call, window, at, note),
        F::Irate | F::Idelta => rate::instant(call, window, at, note),
        F::Resets => resets::resets(call, window, at),
        F::Changes => resets::changes(call, window, at),
        F::SumOverTime | F::AvgOverTime if window.is_mixed() => {
            note(Note::mixed_floats_histograms(&at.metric_name(), call.span));
            None
        }
        F::SumOverTime | F::AvgOverTime if floats.is_empty() => {
            over_histograms::fold(call, window, at, note)
        }
        F::SumOverTime => Some(Value::Float(over_time::sum(floats.values))),
        F::AvgOverTime => Some(Value::Float(over_time::average(floats.values))),
        F::CountOverTime => Some(Value::Float(over_time::count(
            floats.len() + window.histograms.len(),
        ))),
        F::PresentOverTime | F::AbsentOverTime => Some(Value::Float(1.0)),
        F::FirstOverTime => over_time::first(window),
        F::LastOverTime => over_time::last(window),
        F::TsOfFirstOverTime => over_time::time_of_first(window),
        F::TsOfLastOverTime => over_time::time_of_last(window),
        F::Deriv | F::PredictLinear => regression::linear(call, window, at, note),
        F::DoubleExponentialSmoothing => smoothing::double_exponential(call, window, at, note)?,
        _ => {
            if floats.is_empty() {
                return Ok(None);
            }
            let quantile = at.arg(0);
            if call.function == F::QuantileOverTime && !(0.0..=1.0).contains(&quantile) {
                note(Note::invalid_quantile(quantile, call.first_span));
            }
            if !window.histograms.is_empty() {
                // Prometheus points at the first argument, which for a quantile is the quantile.
                note(Note::histogram_ignored_in_range(
                    &at.metric_name(),
                    call.first_span,
                ));
            }
            let value = match call.function {
                F::Integral => integral::integral(call, floats, at, note),
                F::MinOverTime => over_time::extreme(floats, |x, best| x < best).1,
                F::MaxOverTime => over_time::extreme(floats, |x, best| x > best).1,
                F::TsOfMinOverTime => over_time::extreme(floats, |x, best| x <= best).0,
                F::TsOfMaxOverTime => over_time::extreme(floats, |x, best| x >= best).0,
                F::StddevOverTime => over_time::variance(floats.values).sqrt(),
                F::StdvarOverTime => over_time::variance(floats.values),
                F::QuantileOverTime => {
                    super::quantile::quantile(quantile, &mut floats.values.to_vec())
                }
                F::MadOverTime => over_time::median_deviation(floats.values),
                other => return Err(QueryError::Execution(format!("{other:?} takes no range"))),
            };
            Some(Value::Float(value))
        }
    })
}
