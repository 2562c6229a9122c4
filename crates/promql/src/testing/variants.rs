//! Variants of a query: all selectors pinned with `@`, at other evaluation times.
//!
//! **Invariant:** every variant has the same result as the original at its own time.

use crate::{
    ast::{At, Expr},
    plan::depends_on_time,
};

/// Returns the pinned query and its evaluation times, or `None` if its result depends on the evaluation time.
pub(super) fn pinned(query: &str, time_ms: i64) -> Result<Option<(String, Vec<i64>)>, String> {
    let mut expr =
        crate::parse_with(query, super::reference_options().parse).map_err(|e| e.to_string())?;
    let mut depends = false;
    pin(&mut expr, time_ms, false, &mut depends);
    if depends {
        return Ok(None);
    }
    let times = if time_ms == 0 {
        vec![-1000, 0, 1000]
    } else {
        vec![-10 * time_ms, 0, time_ms / 5, time_ms, 10 * time_ms]
    };
    Ok(Some((expr.to_string(), times)))
}

/// Pins selectors, except below a subquery that is pinned itself.
fn pin(expr: &mut Expr, time_ms: i64, below_pinned: bool, depends: &mut bool) {
    let set = |at: &mut Option<At>| {
        if !below_pinned && !matches!(at, Some(At::Time(_))) {
            *at = Some(At::Time(time_ms));
        }
    };
    let mut pinned_here = below_pinned;
    match expr {
        Expr::Vector(v) => set(&mut v.at),
        Expr::Matrix(m) => set(&mut m.selector.at),
        Expr::Subquery(s) => {
            set(&mut s.at);
            pinned_here |= matches!(s.at, Some(At::Time(_)));
        }
        Expr::Call(c) if !below_pinned => *depends |= depends_on_time(c.function.id),
        _ => {}
    }
    for child in expr.children_mut() {
        pin(child, time_ms, pinned_here, depends);
    }
}
