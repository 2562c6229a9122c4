//! Ratios as people say them.

use super::number::digits;

/// Says how a value compares with the one its ratio is to, such as `3.4 times as much`.
pub(super) fn compared(ratio: f64) -> String {
    match ratio {
        r if r >= 1.95 => format!("{} times as much", short(r)),
        r if r >= 1.05 => format!("{:.0} % more", (r - 1.0) * 100.0),
        r if r > 0.95 => "about as much".to_owned(),
        r if r > 0.55 => format!("{:.0} % less", (1.0 - r) * 100.0),
        r if r > 0.0 => format!("1/{} as much", short(1.0 / r)),
        _ => "nothing".to_owned(),
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
        let said = [3.42, 2.0, 12.7, 1.2, 1.01, 0.8, 0.24, 0.0].map(compared);
        assert_eq!(
            said,
            [
                "3.4 times as much",
                "2 times as much",
                "13 times as much",
                "20 % more",
                "about as much",
                "20 % less",
                "1/4.2 as much",
                "nothing",
            ]
        );
    }
}
