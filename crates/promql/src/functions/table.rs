//! The table of functions: names, argument types, result types.
//!
//! **Invariant:** sorted by name; `args` of a variadic function ends with the type of the repeatable argument.

use crate::ast::ValueType;
use ValueType::{Matrix, Scalar, String, Vector};

/// One function of the query language.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Its implementation.
    pub id: FunctionId,
    /// The types of its arguments.
    pub args: &'static [ValueType],
    /// Number of times the last argument may be given: 0 exactly once, n up to n times, −1 any number of times.
    pub variadic: i8,
    /// The type of its result.
    pub returns: ValueType,
    /// Whether Prometheus keeps it behind a feature flag.
    pub experimental: bool,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

const fn stable(
    name: &'static str,
    id: FunctionId,
    args: &'static [ValueType],
    returns: ValueType,
) -> Function {
    Function {
        name,
        id,
        args,
        variadic: 0,
        returns,
        experimental: false,
    }
}

const fn repeating(function: Function, variadic: i8) -> Function {
    Function {
        variadic,
        ..function
    }
}

const fn experimental(function: Function) -> Function {
    Function {
        experimental: true,
        ..function
    }
}

/// Identifier of an implementation.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "each is the function its name says")]
pub enum FunctionId {
    Abs,
    Absent,
    AbsentOverTime,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    AvgOverTime,
    Ceil,
    Changes,
    Clamp,
    ClampMax,
    ClampMin,
    Cos,
    Cosh,
    CountOverTime,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    DaysInMonth,
    Deg,
    Delta,
    Deriv,
    DoubleExponentialSmoothing,
    End,
    Exp,
    FirstOverTime,
    Floor,
    HistogramAvg,
    HistogramCount,
    HistogramFraction,
    HistogramQuantile,
    HistogramQuantiles,
    HistogramStddev,
    HistogramStdvar,
    HistogramSum,
    Hour,
    Idelta,
    Increase,
    Info,
    Integral,
    Irate,
    LabelJoin,
    LabelReplace,
    LastOverTime,
    Ln,
    Log10,
    Log2,
    MadOverTime,
    MaxOf,
    MaxOverTime,
    MinOf,
    MinOverTime,
    Minute,
    Month,
    Pi,
    PredictLinear,
    PresentOverTime,
    QuantileOverTime,
    Rad,
    Range,
    Rate,
    Resets,
    Round,
    Scalar,
    Sgn,
    Sin,
    Sinh,
    Sort,
    SortByLabel,
    SortByLabelDesc,
    SortDesc,
    Sqrt,
    Start,
    StartTimestamp,
    StddevOverTime,
    StdvarOverTime,
    Step,
    SumOverTime,
    Tan,
    Tanh,
    Time,
    Timestamp,
    TsOfFirstOverTime,
    TsOfLastOverTime,
    TsOfMaxOverTime,
    TsOfMinOverTime,
    Vector,
    Year,
}

use FunctionId as Id;

/// All functions, sorted by name.
pub static FUNCTIONS: &[Function] = &[
    stable("abs", Id::Abs, &[Vector], Vector),
    stable("absent", Id::Absent, &[Vector], Vector),
    stable("absent_over_time", Id::AbsentOverTime, &[Matrix], Vector),
    stable("acos", Id::Acos, &[Vector], Vector),
    stable("acosh", Id::Acosh, &[Vector], Vector),
    stable("asin", Id::Asin, &[Vector], Vector),
    stable("asinh", Id::Asinh, &[Vector], Vector),
    stable("atan", Id::Atan, &[Vector], Vector),
    stable("atanh", Id::Atanh, &[Vector], Vector),
    stable("avg_over_time", Id::AvgOverTime, &[Matrix], Vector),
    stable("ceil", Id::Ceil, &[Vector], Vector),
    stable("changes", Id::Changes, &[Matrix], Vector),
    stable("clamp", Id::Clamp, &[Vector, Scalar, Scalar], Vector),
    stable("clamp_max", Id::ClampMax, &[Vector, Scalar], Vector),
    stable("clamp_min", Id::ClampMin, &[Vector, Scalar], Vector),
    stable("cos", Id::Cos, &[Vector], Vector),
    stable("cosh", Id::Cosh, &[Vector], Vector),
    stable("count_over_time", Id::CountOverTime, &[Matrix], Vector),
    repeating(stable("day_of_month", Id::DayOfMonth, &[Vector], Vector), 1),
    repeating(stable("day_of_week", Id::DayOfWeek, &[Vector], Vector), 1),
    repeating(stable("day_of_year", Id::DayOfYear, &[Vector], Vector), 1),
    repeating(
        stable("days_in_month", Id::DaysInMonth, &[Vector], Vector),
        1,
    ),
    stable("deg", Id::Deg, &[Vector], Vector),
    stable("delta", Id::Delta, &[Matrix], Vector),
    stable("deriv", Id::Deriv, &[Matrix], Vector),
    experimental(stable(
        "double_exponential_smoothing",
        Id::DoubleExponentialSmoothing,
        &[Matrix, Scalar, Scalar],
        Vector,
    )),
    experimental(stable("end", Id::End, &[], Scalar)),
    stable("exp", Id::Exp, &[Vector], Vector),
    stable("first_over_time", Id::FirstOverTime, &[Matrix], Vector),
    stable("floor", Id::Floor, &[Vector], Vector),
    stable("histogram_avg", Id::HistogramAvg, &[Vector], Vector),
    stable("histogram_count", Id::HistogramCount, &[Vector], Vector),
    stable(
        "histogram_fraction",
        Id::HistogramFraction,
        &[Scalar, Scalar, Vector],
        Vector,
    ),
    stable(
        "histogram_quantile",
        Id::HistogramQuantile,
        &[Scalar, Vector],
        Vector,
    ),
    experimental(repeating(
        stable(
            "histogram_quantiles",
            Id::HistogramQuantiles,
            &[Vector, String, Scalar, Scalar],
            Vector,
        ),
        9,
    )),
    stable("histogram_stddev", Id::HistogramStddev, &[Vector], Vector),
    stable("histogram_stdvar", Id::HistogramStdvar, &[Vector], Vector),
    stable("histogram_sum", Id::HistogramSum, &[Vector], Vector),
    repeating(stable("hour", Id::Hour, &[Vector], Vector), 1),
    stable("idelta", Id::Idelta, &[Matrix], Vector),
    stable("increase", Id::Increase, &[Matrix], Vector),
    experimental(repeating(
        stable("info", Id::Info, &[Vector, Vector], Vector),
        1,
    )),
    experimental(repeating(
        stable("integral", Id::Integral, &[Matrix, Scalar], Vector),
        1,
    )),
    stable("irate", Id::Irate, &[Matrix], Vector),
    repeating(
        stable(
            "label_join",
            Id::LabelJoin,
            &[Vector, String, String, String],
            Vector,
        ),
        -1,
    ),
    stable(
        "label_replace",
        Id::LabelReplace,
        &[Vector, String, String, String, String],
        Vector,
    ),
    stable("last_over_time", Id::LastOverTime, &[Matrix], Vector),
    stable("ln", Id::Ln, &[Vector], Vector),
    stable("log10", Id::Log10, &[Vector], Vector),
    stable("log2", Id::Log2, &[Vector], Vector),
    experimental(stable("mad_over_time", Id::MadOverTime, &[Matrix], Vector)),
    experimental(stable("max_of", Id::MaxOf, &[Scalar, Scalar], Scalar)),
    stable("max_over_time", Id::MaxOverTime, &[Matrix], Vector),
    experimental(stable("min_of", Id::MinOf, &[Scalar, Scalar], Scalar)),
    stable("min_over_time", Id::MinOverTime, &[Matrix], Vector),
    repeating(stable("minute", Id::Minute, &[Vector], Vector), 1),
    repeating(stable("month", Id::Month, &[Vector], Vector), 1),
    stable("pi", Id::Pi, &[], Scalar),
    stable(
        "predict_linear",
        Id::PredictLinear,
        &[Matrix, Scalar],
        Vector,
    ),
    stable("present_over_time", Id::PresentOverTime, &[Matrix], Vector),
    stable(
        "quantile_over_time",
        Id::QuantileOverTime,
        &[Scalar, Matrix],
        Vector,
    ),
    stable("rad", Id::Rad, &[Vector], Vector),
    experimental(stable("range", Id::Range, &[], Scalar)),
    stable("rate", Id::Rate, &[Matrix], Vector),
    stable("resets", Id::Resets, &[Matrix], Vector),
    repeating(stable("round", Id::Round, &[Vector, Scalar], Vector), 1),
    stable("scalar", Id::Scalar, &[Vector], Scalar),
    stable("sgn", Id::Sgn, &[Vector], Vector),
    stable("sin", Id::Sin, &[Vector], Vector),
    stable("sinh", Id::Sinh, &[Vector], Vector),
    stable("sort", Id::Sort, &[Vector], Vector),
    experimental(repeating(
        stable("sort_by_label", Id::SortByLabel, &[Vector, String], Vector),
        -1,
    )),
    experimental(repeating(
        stable(
            "sort_by_label_desc",
            Id::SortByLabelDesc,
            &[Vector, String],
            Vector,
        ),
        -1,
    )),
    stable("sort_desc", Id::SortDesc, &[Vector], Vector),
    stable("sqrt", Id::Sqrt, &[Vector], Vector),
    experimental(stable("start", Id::Start, &[], Scalar)),
    experimental(stable(
        "start_timestamp",
        Id::StartTimestamp,
        &[Vector],
        Vector,
    )),
    stable("stddev_over_time", Id::StddevOverTime, &[Matrix], Vector),
    stable("stdvar_over_time", Id::StdvarOverTime, &[Matrix], Vector),
    experimental(stable("step", Id::Step, &[], Scalar)),
    stable("sum_over_time", Id::SumOverTime, &[Matrix], Vector),
    stable("tan", Id::Tan, &[Vector], Vector),
    stable("tanh", Id::Tanh, &[Vector], Vector),
    stable("time", Id::Time, &[], Scalar),
    stable("timestamp", Id::Timestamp, &[Vector], Vector),
    experimental(stable(
        "ts_of_first_over_time",
        Id::TsOfFirstOverTime,
        &[Matrix],
        Vector,
    )),
    experimental(stable(
        "ts_of_last_over_time",
        Id::TsOfLastOverTime,
        &[Matrix],
        Vector,
    )),
    experimental(stable(
        "ts_of_max_over_time",
        Id::TsOfMaxOverTime,
        &[Matrix],
        Vector,
    )),
    experimental(stable(
        "ts_of_min_over_time",
        Id::TsOfMinOverTime,
        &[Matrix],
        Vector,
    )),
    stable("vector", Id::Vector, &[Scalar], Vector),
    repeating(stable("year", Id::Year, &[Vector], Vector), 1),
];
