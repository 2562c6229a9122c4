//! A scenario in a file: the flags of its command as keys, and kinds of server that no preset knows.
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
//! **Invariant:** every key is one somebody reads; what is wrong is said with file, line and column.

use super::{
    Kind,
    cli::usage,
    error::BenchError,
    yaml::{self, Node, Wrong},
};
use std::{fs, path::Path};

/// Longest file.
const MAX_BYTES: u64 = 1 << 20;

/// What a file says.
#[derive(Debug)]
pub(crate) struct ScenarioFile {
    /// Which scenario it is about.
    pub(crate) scenario: String,
    /// Where that stands.
    pub(crate) place: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) kinds: Vec<Kind>,
}

/// One key.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Its place, such as `storage.yml:3:1`.
    pub(crate) place: String,
    /// Its values and their places.
    pub(crate) values: Vec<(String, String)>,
}

impl ScenarioFile {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, BenchError> {
        let read = || {
            if fs::metadata(path)?.len() > MAX_BYTES {
                return Err(std::io::Error::other("longer than a scenario can be"));
            }
            fs::read_to_string(path)
        };
        let text = read().map_err(|e| usage(format!("{}: {e}", path.display())))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a text, which errors call `file`.
    pub(crate) fn parse(text: &str, file: &str) -> Result<Self, BenchError> {
        Self::of(text, file).map_err(|wrong| {
            let Wrong { line, column, what } = wrong;
            usage(format!("{file}:{line}:{column}: {what}"))
        })
    }

    fn of(text: &str, file: &str) -> Result<Self, Wrong> {
        let missing = |line, column| Wrong {
            line,
            column,
            what: "`scenario: NAME` is missing".to_owned(),
        };
        let root = yaml::read(text)?.ok_or_else(|| missing(1, 1))?;
        let place = |node: &Node| format!("{file}:{}:{}", node.line, node.column);
        let mut scenario = None;
        let (mut entries, mut kinds) = (Vec::new(), Vec::new());
        for (key, node) in root.pairs()? {
            match key.text()? {
                "scenario" => scenario = Some((node.text()?.to_owned(), place(node))),
                "servers" => {
                    for item in node.items()? {
                        kinds.push(kind(item)?);
                    }
                }
                name => {
                    let value = |item: &Node| Ok((item.text()?.to_owned(), place(item)));
                    entries.push(Entry {
                        name: name.to_owned(),
                        place: place(key),
                        values: node.items()?.iter().map(value).collect::<Result<_, _>>()?,
                    });
                }
            }
        }
        let (scenario, place) = scenario.ok_or_else(|| missing(root.line, root.column))?;
        Ok(Self {
            scenario,
            place,
            entries,
            kinds,
        })
    }
}

/// Reads one item of `servers`.
fn kind(node: &Node) -> Result<Kind, Wrong> {
    let mut kind = Kind::default();
    for (key, value) in node.pairs()? {
        let texts = || {
            let texts = value
                .items()?
                .iter()
                .map(|item| item.text().map(str::to_owned));
            texts.collect::<Result<Vec<_>, _>>()
        };
        match key.text()? {
            "name" => value.text()?.clone_into(&mut kind.name),
            "program" => value.text()?.clone_into(&mut kind.program),
            "package" => value.text()?.clone_into(&mut kind.package),
            "arguments" => kind.arguments = texts()?,
            "version" => kind.version = texts()?,
            "config" => value.text()?.clone_into(&mut kind.config),
            "url" => value.text()?.clone_into(&mut kind.url),
            "ready" => value.text()?.clone_into(&mut kind.ready),
            other => return Err(key.wrong(format!("a server has no {other:?}"))),
        }
    }
    if kind.name.is_empty() || kind.name.contains(['=', '@', '/']) {
        return Err(node.wrong("a server needs a `name` without =, @ and /"));
    }
    if kind.program.is_empty() {
        kind.program.clone_from(&kind.name);
    }
    const HERE: [&str; 3] = [
        "http://{listen}",
        "http://127.0.0.1:{port}",
        "http://localhost:{port}",
    ];
    let is_here = |start: &str| {
        let rest = kind.url.strip_prefix(start);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if !HERE.iter().any(|start| is_here(start)) {
        return Err(node
            .wrong("a server's `url` begins with http://{listen}: only this machine is measured"));
    }
    if !kind.ready.starts_with('/') {
        return Err(node.wrong("a server needs `ready`: a path that answers 200 when it is"));
    }
    Ok(kind)
}

/// Feeds arbitrary bytes to the reader.
#[cfg(test)]
pub(crate) fn try_scenario(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Err(error) = ScenarioFile::parse(text, "f.yml")
    {
        assert!(error.to_string().starts_with("f.yml:"), "{error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "# A comment.\nscenario: storage\ntargets: 7\nserver:\n  - narthex\n  - mine\n\
        servers:\n  - name: mine\n    arguments: [\"-c={config}\", -v]\n    config: |\n      a: 1\n      {scrape}\n\
        \x20   ready: /ok\n";

    #[test]
    fn a_file_has_flags_and_kinds_of_server() {
        let file = ScenarioFile::parse(WHOLE, "x.yml").unwrap();
        assert_eq!(file.scenario, "storage");
        assert_eq!(
            file.entries[0].values,
            [("7".to_owned(), "x.yml:3:10".to_owned())]
        );
        assert_eq!(file.entries[1].values.len(), 2);
        let kind = &file.kinds[0];
        assert_eq!(
            (kind.name.as_str(), kind.program.as_str()),
            ("mine", "mine")
        );
        assert_eq!(kind.arguments, ["-c={config}", "-v"]);
        assert_eq!(kind.config, "a: 1\n{scrape}\n");
        assert_eq!(kind.url, "http://{listen}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, reason) in [
            ("", "x.yml:1:1: `scenario: NAME` is missing"),
            ("targets: 7\n", "x.yml:1:1: `scenario: NAME` is missing"),
            (
                "- a\n",
                "x.yml:1:1: a mapping belongs here: `key: value` lines",
            ),
            (
                "a: 1\nb: 2\na: 3\n",
                "x.yml:3:1: \"a\" is already set in line 1",
            ),
            (
                "scenario: x\ntargets: {a: 1}\n",
                "x.yml:2:10: a list belongs here",
            ),
            ("scenario: [x]\n", "x.yml:1:11: a single value belongs here"),
            (
                "scenario: x\nservers:\n  - name: a\n    redy: /x\n",
                "x.yml:4:5: a server has no \"redy\"",
            ),
            (
                "scenario: x\nservers:\n  - ready: /x\n",
                "x.yml:3:5: a server needs a `name` without =, @ and /",
            ),
            (
                "scenario: x\nservers:\n  - name: a\n    ready: /x\n    url: http://example.org\n",
                "x.yml:3:5: a server's `url` begins with http://{listen}: only this machine is measured",
            ),
            ("scenario: x\n---\na: 1\n", "x.yml:3:1: a second document"),
        ] {
            let error = ScenarioFile::parse(text, "x.yml").unwrap_err();
            assert_eq!(error.to_string(), reason, "{text:?}");
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm() {
        let mutator = narthex_testkit::mutate::Mutator::new(5);
        mutator.run(&[WHOLE.as_bytes()], 5_000, try_scenario);
    }
}
