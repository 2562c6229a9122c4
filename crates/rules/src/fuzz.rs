//! Entry points for fuzzers and for the seeded mutator in the tests; no input may cause a panic.

use crate::{Element, ParseOptions, Scope, Template, duplicates, parse};
use narthex_model::NameScheme;
use narthex_promql::SampleValue;
use std::collections::BTreeMap;

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

/// Expands `data` as a template.
///
/// # Panics
/// Panics when an error has no text, or when a template without actions is not its own result.
pub fn fuzz_template(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let template = match Template::parse("A", &text) {
        Ok(template) => template,
        Err(error) => return assert!(!error.message.is_empty()),
    };
    let labels: BTreeMap<_, _> = [("job", "node"), ("instance", "h:1")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let query = |text: &str| -> Result<Vec<Element>, String> {
        match text {
            "none" => Ok(Vec::new()),
            "elements" => Ok(vec![(labels.clone(), SampleValue::Float(0.5)); 3]),
            _ => Err("no such query".to_owned()),
        }
    };
    let expanded = template.expand(&Scope {
        labels: &labels,
        value: &SampleValue::Float(1.5),
        external_labels: &BTreeMap::new(),
        external_url: "http://h/p",
        time_ms: 0,
        query: &query,
    });
    match expanded {
        Ok(result) if !text.contains("{{") => assert_eq!(result, text),
        Ok(_) => {}
        Err(error) => assert!(!error.message.is_empty()),
    }
}
