//! Reads rule files: text, tree, schema, meaning.

use crate::{decode, error::RuleError, file::RuleFile, options::ParseOptions, validate};
use std::{fs, path::Path};

/// Parses the text of a rule file.
///
/// # Errors
/// Fails with all errors of the first stage that has any: syntax, schema, meaning.
pub fn parse(text: &str, options: ParseOptions) -> Result<RuleFile, Vec<RuleError>> {
    let document =
        narthex_yaml::read_all_keys(text).map_err(|error| vec![RuleError::Yaml(error)])?;
    let groups = decode::groups(&document.root, options.ignore_unknown_fields)?;
    let groups = validate::groups(groups, options)?;
    let mut warnings = Vec::new();
    if document.more {
        warnings.push(
            "Multiple document yaml rules files are not supported, only the first document is processed"
                .to_owned(),
        );
    }
    Ok(RuleFile { groups, warnings })
}

/// Reads and parses a rule file.
///
/// # Errors
/// As [`parse`], and when the file cannot be read or is not UTF-8.
pub fn load(path: &Path, options: ParseOptions) -> Result<RuleFile, Vec<RuleError>> {
    let text = fs::read_to_string(path).map_err(|error| vec![RuleError::Read(error)])?;
    parse(&text, options)
}
