//! Fuzz targets: plain functions over untrusted bytes.

use crate::{params::Params, time};
use narthex_model::storage::{Budget, Context};

/// Parses bytes as a form, and its values as times, durations, limits and selectors.
pub fn fuzz_params(data: &[u8]) {
    let Ok(params) = Params::of_text(&String::from_utf8_lossy(data), 1000) else {
        return;
    };
    for name in ["start", "end", "time"] {
        // Only panics matter; errors are fine.
        let _ = params.time_or(name, 0);
    }
    let _ = (params.duration("step"), params.limit(), params.range());
    let _ = params.metadata_limit("limit");
    let ctx = Context {
        budget: Budget::new("the form", 8 << 20),
        ..Context::unlimited()
    };
    for text in params.all("match[]") {
        let _ = narthex_promql::parse_selector_within(&text, &ctx.clone().into());
    }
    assert_eq!(ctx.budget.used_bytes(), 0, "what was parsed is given back");
    let text = String::from_utf8_lossy(data);
    if let Some(time_ms) = time::parse_time(&text) {
        assert!(time_ms.abs() <= time::MAX_TIME_MS);
    }
    let _ = time::parse_duration(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::mutate::Mutator;

    #[test]
    fn mutated_forms_are_read_or_refused() {
        let corpus: [&[u8]; 4] = [
            b"query=up%7Ba%3D%22b%22%7D&start=1.5&end=2024-02-29T00:00:00.5%2B01:00&step=5m",
            b"match[]=%7Ba%3D~%22b.*%22%7D&limit=10&match%5B%5D=up",
            b"2024-02-29T01:30:00.123456-01:30",
            b"1h30m",
        ];
        Mutator::new(0xf0a1).run(&corpus, 10_000, fuzz_params);
    }
}
