//! Moves the plan of one instant to another, so that a query asked again and again is planned once.
//!
//! **Invariant:** a moved plan is the one that would be built for that time.

use super::{Plan, Steps};
use crate::{ast::Expr, functions::FunctionId};
use narthex_model::storage::TimeRange;

/// Reports whether the plans of `expr` for two instants differ only by the time between them.
pub(crate) fn moves_with_time(expr: &Expr) -> bool {
    expr.all(&|expr| match expr {
        Expr::Vector(selector) => selector.at.is_none(),
        Expr::Matrix(matrix) => matrix.selector.at.is_none(),
        // Its steps are aligned to multiples of their distance.
        Expr::Subquery(_) => false,
        // Their values are part of the plan.
        Expr::Call(call) => !matches!(call.function.id, FunctionId::Start | FunctionId::End),
        _ => true,
    })
}

impl Plan {
    /// Moves the plan of an instant to `time_ms`; its expression moves with time.
    pub(crate) fn move_to(&mut self, time_ms: i64) {
        let by_ms = time_ms.saturating_sub(self.steps.start_ms);
        self.steps = Steps::one(time_ms);
        let ranges = self.selectors.iter_mut().map(|one| &mut one.range);
        let of_uses = self.selector_uses.iter_mut().map(|one| &mut one.range);
        for range in ranges.chain(of_uses).chain(&mut self.finds) {
            let TimeRange { min_ms, max_ms } = *range;
            *range = TimeRange::new(min_ms.saturating_add(by_ms), max_ms.saturating_add(by_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Settings, build};

    const SETTINGS: Settings = Settings {
        max_steps: 1000,
        lookback_ms: 300_000,
        default_subquery_step_ms: 60_000,
        start_times: true,
        is_kept: true,
    };

    fn plan(expr: &Expr, time_ms: i64) -> Plan {
        build(expr, time_ms, time_ms, 0, SETTINGS).unwrap()
    }

    #[test]
    fn moved_plans_are_those_of_their_time() {
        let moving = [
            "sum by (job) (rate(a[5m] offset 3m)) / ignoring (x) sum(rate(b{c=~'d|e'}[1m]))",
            "a + a offset -1h + sum_over_time(a[1m]) > bool time() - timestamp(a)",
            "rate(a[5m] anchored) or increase(a[range() + 1m] smoothed) or b smoothed",
            "histogram_quantile(0.9, h) * hour() + step() + predict_linear(a[step() + 1h], 3600)",
            "absent(a{b='c'}) or info(a) or vector(pi())",
            "1 + 2",
        ];
        for text in moving {
            let expr = crate::parse(text).unwrap();
            assert!(moves_with_time(&expr), "{text}");
            let mut moved = plan(&expr, 1_767_225_600_123);
            for time_ms in [1_767_225_615_123, 1_767_225_599_000, 0, -5] {
                moved.move_to(time_ms);
                let built = plan(&expr, time_ms);
                assert_eq!(format!("{moved:?}"), format!("{built:?}"), "{text}");
            }
        }
        let fixed = [
            "sum(a @ 5)",
            "rate(a[1m] @ end())",
            "max_over_time(a[10m:1m])",
            "start() + 1",
            "vector(end())",
        ];
        for text in fixed {
            assert!(!moves_with_time(&crate::parse(text).unwrap()), "{text}");
        }
    }
}
