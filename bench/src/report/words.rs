//! Ratios as people say them.

use super::number::digits;

/// Says how a subject's value compares with the first one's, such as `3.4 times as much as narthex`.
pub(super) fn compared(ratio: f64, first: &str) -> String {
    match ratio {
        r if r >= 1.95 => format!("{} times as much as {first}", short(r)),
        r if r >= 1.05 => format!("{:.0} % more than {first}", (r - 1.0) * 100.0),
        r if r > 0.95 => format!("about as much as {first}"),
        r if r > 0.55 => format!("{:.0} % less than {first}", (1.0 - r) * 100.0),
        r if r > 0.0 => format!("1/{} of {first}", short(1.0 / r)),
        _ => format!("nothing, unlike {first}"),
    }
}

/// Two digits are what a ratio is good for.
fn short(ratio: f64) -> String {
    if ratio < 9.95 {
        let text = format!("{ratio:.1}");
        return text.trim_end_matches(".0").to_owned();
    }
    digits(ratio.round())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_said_as_people_say_them() {
        let said = [3.42, 2.0, 12.7, 1.2, 1.01, 0.8, 0.24, 0.0].map(|ratio| compared(ratio, "a"));
        assert_eq!(
            said,
            [
                "3.4 times as much as a",
                "2 times as much as a",
                "13 times as much as a",
                "20 % more than a",
                "about as much as a",
                "20 % less than a",
                "1/4.2 of a",
                "nothing, unlike a",
            ]
        );
    }
}
