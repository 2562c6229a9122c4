//! Entry points for fuzzers and for the seeded mutator in the tests; no input may cause a panic.

use crate::{ParseOptions, duplicates, parse};
use narthex_model::NameScheme;

/// Parses `data` as a rule file, strictly and not.
///
/// # Panics
/// Panics when an error has no text or no place, or when the lenient reading refuses what the strict one accepts.
pub fn fuzz_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let strict = parse(&text, ParseOptions::default());
    let lenient = parse(
        &text,
        ParseOptions {
            scheme: NameScheme::Legacy,
            ignore_unknown_fields: true,
        },
    );
    if let Ok(file) = &lenient {
        let _ = duplicates(&file.groups);
    }
    match strict {
        Ok(file) => {
            for rule in file.groups.iter().flat_map(|group| &group.rules) {
                assert!(!rule.name.is_empty() && rule.place.line > 0, "{rule:?}");
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(!error.to_string().is_empty());
                assert!(
                    error.places().iter().all(|place| place.line > 0),
                    "{error:?}"
                );
            }
        }
    }
}
