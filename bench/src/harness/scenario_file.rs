//! A scenario in a file: the flags of its command as keys, and further kinds of server.
//!
//! ```yaml
//! scenario: storage
//! targets: 100
//! server: [narthex, prometheus]
//! servers:
//!   - name: mine
//!     program: mine-server
//!     arguments: ["--config={config}", "--data={data}", "--listen={listen}"]
//!     config: "{scrape}"
//!     url: http://{listen}
//!     ready: /ready
//! ```
//!
//! **Invariant:** unknown keys are rejected; errors name file, line and column.

use super::{ServerKind, error::BenchError, yaml};
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{Location, Spanned};
use std::{fmt, path::Path};

/// Contents of a file.
#[derive(Debug)]
pub(crate) struct ScenarioFile {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// Position of that name.
    pub(crate) place: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) kinds: Vec<ServerKind>,
}

/// A key with its values.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Its position, such as `storage.yml:3:1`.
    pub(crate) place: String,
    /// Its values and their positions.
    pub(crate) values: Vec<(String, String)>,
}

impl ScenarioFile {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, BenchError> {
        let name = path.display().to_string();
        let text = yaml::read_file(path).map_err(|e| BenchError::Usage(format!("{name}: {e}")))?;
        Self::parse(&text, &name)
    }

    /// Parses a text, which errors call `file`.
    pub(crate) fn parse(text: &str, file: &str) -> Result<Self, BenchError> {
        let document: Document = yaml::parse(text, file)?;
        let Some(scenario) = document.scenario else {
            let what = "`scenario: NAME` is missing";
            return Err(BenchError::Usage(format!("{file}:1:1: {what}")));
        };
        for server in &document.servers {
            let wrong = |what| Err(yaml::wrong(file, server.referenced, what));
            server.value.check().or_else(wrong)?;
        }
        let entry = |(name, texts): (Spanned<String>, Spanned<Texts>)| {
            let value = |(text, at): (String, Option<Location>)| {
                (text, yaml::place(file, at.unwrap_or(texts.referenced)))
            };
            Entry {
                name: name.value,
                place: yaml::place(file, name.referenced),
                values: texts.value.0.into_iter().map(value).collect(),
            }
        };
        Ok(Self {
            scenario: scenario.value,
            place: yaml::place(file, scenario.referenced),
            entries: document.entries.into_iter().map(entry).collect(),
            kinds: document
                .servers
                .into_iter()
                .map(|server| server.value)
                .collect(),
        })
    }
}

/// A file's document.
#[derive(Default)]
struct Document {
    scenario: Option<Spanned<String>>,
    servers: Vec<Spanned<ServerKind>>,
    entries: Vec<(Spanned<String>, Spanned<Texts>)>,
}

/// A value, or a list of values, each with its position.
struct Texts(Vec<(String, Option<Location>)>);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> de::Visitor<'de> for Keys {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`key: value` lines")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut keys: A) -> Result<Document, A::Error> {
                let mut document = Document::default();
                while let Some(key) = keys.next_key::<Spanned<String>>()? {
                    match key.value.as_str() {
                        "scenario" => document.scenario = Some(keys.next_value()?),
                        "servers" => document.servers = keys.next_value()?,
                        _ => document.entries.push((key, keys.next_value()?)),
                    }
                }
                Ok(document)
            }
        }
        from.deserialize_map(Keys)
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> de::Visitor<'de> for OneOrMany {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or a list of values")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(item) = items.next_element::<Spanned<String>>()? {
                    texts.push((item.value, Some(item.referenced)));
                }
                Ok(Texts(texts))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![(text.to_owned(), None)]))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Texts, E> {
                self.visit_str(&value.to_string())
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Texts, E> {
                self.visit_str(&value.to_string())
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Texts, E> {
                self.visit_str(&value.to_string())
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Texts, E> {
                self.visit_str(&value.to_string())
            }
        }
        from.deserialize_any(OneOrMany)
    }
}

#[cfg(test)]
mod tests;
