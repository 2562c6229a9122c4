//! The table of functions: names, argument types, result types.
//!
//! **Invariant:** sorted by name; `args` of a variadic function ends with the type of the repeatable argument.

use crate::ast::ValueType;

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

/// Declares the functions and their identifiers: for each one its status, its name, its identifier with the types of its
/// arguments and how often the last may be given if that is not once, and the type of its result.
macro_rules! functions {
    ($($status:ident $name:literal $id:ident($($arg:ident),* $(; $variadic:literal)?) -> $returns:ident;)*) => {
        /// Identifier of an implementation.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[expect(missing_docs, reason = "each is the function its name says")]
        pub enum FunctionId {
            $($id,)*
        }

        /// All functions, sorted by name.
        pub static FUNCTIONS: &[Function] = &[
            $(Function {
                name: $name,
                id: FunctionId::$id,
                args: &[$(ValueType::$arg),*],
                variadic: 0 $(+ $variadic)?,
                returns: ValueType::$returns,
                experimental: functions!(@is_experimental $status),
            },)*
        ];
    };
    (@is_experimental stable) => { false };
    (@is_experimental experimental) => { true };
}

functions! {
    stable "abs" Abs(Vector) -> Vector;
    stable "absent" Absent(Vector) -> Vector;
    stable "absent_over_time" AbsentOverTime(Matrix) -> Vector;
    stable "acos" Acos(Vector) -> Vector;
    stable "acosh" Acosh(Vector) -> Vector;
    stable "asin" Asin(Vector) -> Vector;
    stable "asinh" Asinh(Vector) -> Vector;
    stable "atan" Atan(Vector) -> Vector;
    stable "atanh" Atanh(Vector) -> Vector;
    stable "avg_over_time" AvgOverTime(Matrix) -> Vector;
    stable "ceil" Ceil(Vector) -> Vector;
    stable "changes" Changes(Matrix) -> Vector;
    stable "clamp" Clamp(Vector, Scalar, Scalar) -> Vector;
    stable "clamp_max" ClampMax(Vector, Scalar) -> Vector;
    stable "clamp_min" ClampMin(Vector, Scalar) -> Vector;
    stable "cos" Cos(Vector) -> Vector;
    stable "cosh" Cosh(Vector) -> Vector;
    stable "count_over_time" CountOverTime(Matrix) -> Vector;
    stable "day_of_month" DayOfMonth(Vector; 1) -> Vector;
    stable "day_of_week" DayOfWeek(Vector; 1) -> Vector;
    stable "day_of_year" DayOfYear(Vector; 1) -> Vector;
    stable "days_in_month" DaysInMonth(Vector; 1) -> Vector;
    stable "deg" Deg(Vector) -> Vector;
    stable "delta" Delta(Matrix) -> Vector;
    stable "deriv" Deriv(Matrix) -> Vector;
    experimental "double_exponential_smoothing" DoubleExponentialSmoothing(Matrix, Scalar, Scalar) -> Vector;
    experimental "end" End() -> Scalar;
    stable "exp" Exp(Vector) -> Vector;
    stable "first_over_time" FirstOverTime(Matrix) -> Vector;
    stable "floor" Floor(Vector) -> Vector;
    stable "histogram_avg" HistogramAvg(Vector) -> Vector;
    stable "histogram_count" HistogramCount(Vector) -> Vector;
    stable "histogram_fraction" HistogramFraction(Scalar, Scalar, Vector) -> Vector;
    stable "histogram_quantile" HistogramQuantile(Scalar, Vector) -> Vector;
    experimental "histogram_quantiles" HistogramQuantiles(Vector, String, Scalar, Scalar; 9) -> Vector;
    stable "histogram_stddev" HistogramStddev(Vector) -> Vector;
    stable "histogram_stdvar" HistogramStdvar(Vector) -> Vector;
    stable "histogram_sum" HistogramSum(Vector) -> Vector;
    stable "hour" Hour(Vector; 1) -> Vector;
    stable "idelta" Idelta(Matrix) -> Vector;
    stable "increase" Increase(Matrix) -> Vector;
    experimental "info" Info(Vector, Vector; 1) -> Vector;
    experimental "integral" Integral(Matrix, Scalar; 1) -> Vector;
    stable "irate" Irate(Matrix) -> Vector;
    stable "label_join" LabelJoin(Vector, String, String, String; -1) -> Vector;
    stable "label_replace" LabelReplace(Vector, String, String, String, String) -> Vector;
    stable "last_over_time" LastOverTime(Matrix) -> Vector;
    stable "ln" Ln(Vector) -> Vector;
    stable "log10" Log10(Vector) -> Vector;
    stable "log2" Log2(Vector) -> Vector;
    experimental "mad_over_time" MadOverTime(Matrix) -> Vector;
    experimental "max_of" MaxOf(Scalar, Scalar) -> Scalar;
    stable "max_over_time" MaxOverTime(Matrix) -> Vector;
    experimental "min_of" MinOf(Scalar, Scalar) -> Scalar;
    stable "min_over_time" MinOverTime(Matrix) -> Vector;
    stable "minute" Minute(Vector; 1) -> Vector;
    stable "month" Month(Vector; 1) -> Vector;
    stable "pi" Pi() -> Scalar;
    stable "predict_linear" PredictLinear(Matrix, Scalar) -> Vector;
    stable "present_over_time" PresentOverTime(Matrix) -> Vector;
    stable "quantile_over_time" QuantileOverTime(Scalar, Matrix) -> Vector;
    stable "rad" Rad(Vector) -> Vector;
    experimental "range" Range() -> Scalar;
    stable "rate" Rate(Matrix) -> Vector;
    stable "resets" Resets(Matrix) -> Vector;
    stable "round" Round(Vector, Scalar; 1) -> Vector;
    stable "scalar" Scalar(Vector) -> Scalar;
    stable "sgn" Sgn(Vector) -> Vector;
    stable "sin" Sin(Vector) -> Vector;
    stable "sinh" Sinh(Vector) -> Vector;
    stable "sort" Sort(Vector) -> Vector;
    experimental "sort_by_label" SortByLabel(Vector, String; -1) -> Vector;
    experimental "sort_by_label_desc" SortByLabelDesc(Vector, String; -1) -> Vector;
    stable "sort_desc" SortDesc(Vector) -> Vector;
    stable "sqrt" Sqrt(Vector) -> Vector;
    experimental "start" Start() -> Scalar;
    experimental "start_timestamp" StartTimestamp(Vector) -> Vector;
    stable "stddev_over_time" StddevOverTime(Matrix) -> Vector;
    stable "stdvar_over_time" StdvarOverTime(Matrix) -> Vector;
    experimental "step" Step() -> Scalar;
    stable "sum_over_time" SumOverTime(Matrix) -> Vector;
    stable "tan" Tan(Vector) -> Vector;
    stable "tanh" Tanh(Vector) -> Vector;
    stable "time" Time() -> Scalar;
    stable "timestamp" Timestamp(Vector) -> Vector;
    experimental "ts_of_first_over_time" TsOfFirstOverTime(Matrix) -> Vector;
    experimental "ts_of_last_over_time" TsOfLastOverTime(Matrix) -> Vector;
    experimental "ts_of_max_over_time" TsOfMaxOverTime(Matrix) -> Vector;
    experimental "ts_of_min_over_time" TsOfMinOverTime(Matrix) -> Vector;
    stable "vector" Vector(Scalar) -> Vector;
    stable "year" Year(Vector; 1) -> Vector;
}
