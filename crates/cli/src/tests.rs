//! Checks everything that a declaration yields.

use crate::{Call, Command, GoDuration, List, Program, Surroundings, UsageError, Value, flags};
use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

flags! {
    /// Options of `a b`.
    #[derive(Debug)]
    pub(crate) struct Options {
        /// How long. A second sentence
        /// on a second line.
        timeout: Duration = "query.timeout", default("2m");
        /// Where to.
        addresses: Vec<String> = "web.listen-address", default("x:1");
        /// Names.
        names: List = "names";
        /// Be quick.
        is_fast: bool = "fast", default("true");
        /// The level.
        level: Option<String> = "log.level", offers(&["debug", "info"]);
        /// A file.
        file: Option<PathBuf> = "config.file";
        /// A secret.
        secret: u64 = "secret", default("7"), hidden();
        /// First.
        first: String = "first", positional();
        /// Others.
        others: Option<PathBuf> = "others", positional();
        ..values
    }
    without effect {
        "it is idle" => "idle": String;
    }
    refused {
        "it is bad" => "bad": bool;
    }
}

static PROGRAM: Program<Options> = Program {
    name: "narthex",
    version: "1.2.3",
    about: "A program.",
    commands: &[Command {
        name: "a b",
        called_as: &["old"],
        about: "Does it.",
        flags: &[Options::FLAGS],
        read: Options::from_values,
    }],
    topics: &[],
    tool: "tool",
};

fn call(line: &[&str]) -> Result<Call<Options>, UsageError> {
    let arguments: Vec<OsString> = line.iter().map(OsString::from).collect();
    let read = |path: &Path| match path.to_str() {
        Some("f") => Ok(b"# comment\n--names=c\r\n\n@g\n".to_vec()),
        Some("g") => Ok(b"--fast=false\nlast one\n".to_vec()),
        Some("loop") => Ok(b"@loop\n@loop\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    PROGRAM.call(&arguments, Surroundings { read: &read })
}

fn options(line: &[&str]) -> Options {
    match call(&[&["narthex", "a", "b"], line].concat()).unwrap() {
        Call::Run(options) => options,
        Call::Print(text) => panic!("{text}"),
    }
}

fn printed(line: &[&str]) -> String {
    match call(&[&["narthex"], line].concat()).unwrap() {
        Call::Print(text) => text,
        Call::Run(options) => panic!("{options:?}"),
    }
}

fn refused(line: &[&str]) -> String {
    let line = [&["narthex"], line].concat();
    call(&line).unwrap_err().to_string()
}

#[test]
fn values_have_their_types() {
    let line = ["--names=a,b", "--no-fast", "x", "--names", "c", "--level-x"];
    let found = options(&line[..5]);
    assert_eq!(found.names.0, ["a", "b", "c"]);
    assert_eq!(found.addresses, ["x:1"]);
    assert!(!found.is_fast);
    assert_eq!((found.level, found.file, found.secret), (None, None, 7));
    assert_eq!((found.first.as_str(), found.others), ("x", None));
    let found = options(&[
        "--web.listen-address=a",
        "-web.listen-address",
        "b",
        "--",
        "-x",
        "@f",
    ]);
    assert_eq!(found.addresses, ["a", "b"]);
    assert_eq!(found.first, "-x");
    assert_eq!(found.others, Some("@f".into()));
    assert!(refused(&["a", "b", "--level-x"]).starts_with("unknown long flag '--level-x'"));
}

#[test]
fn the_line_goes_before_the_default() {
    assert_eq!(options(&["x"]).timeout, Duration::from_secs(120));
    let found = options(&["x", "--query.timeout=1m"]);
    assert_eq!(found.timeout, Duration::from_secs(60));
    assert_eq!(options(&["x", "--idle=1"]).values.without_effect.len(), 1);
}

#[test]
fn lines_of_files_are_arguments() {
    let found = options(&["--names=a", "@f", "--names=d"]);
    assert_eq!(found.names.0, ["a", "c", "d"]);
    assert_eq!(found.first, "last one");
    assert!(!found.is_fast);
    assert!(refused(&["a", "b", "@none"]).starts_with("failed to read arguments from \"none\""));
    assert_eq!(
        refused(&["a", "b", "@loop"]),
        "too many files of arguments, or of more than 1 MiB in all"
    );
}

#[test]
fn what_is_missing_or_too_much_is_named() {
    for (line, text) in [
        (&["a", "b"][..], "required argument 'first' not provided"),
        (&["a", "b", "1", "2", "3"], "unexpected \"3\""),
        (
            &["a", "b", "--names", "--fast"],
            "expected argument for flag '--names'",
        ),
        (
            &["a", "b", "--bad"],
            "flag '--bad' is not supported: it is bad",
        ),
        (
            &["a", "b", "--fast=maybe", "x"],
            "flag '--fast': not true or false: \"maybe\"",
        ),
        (&["a", "c"], "unknown command \"a c\""),
        (
            &["completion", "csh"],
            "flag 'completion': not bash, zsh or fish: \"csh\"",
        ),
    ] {
        assert_eq!(refused(line), text);
    }
}

/// `promtool test --junit=report.xml rules tests.yml` is how its help says it.
#[test]
fn flags_may_stand_between_the_words_of_a_command() {
    let found = |line: &[&str]| match call(&[&["narthex"], line].concat()).unwrap() {
        Call::Run(options) => format!("{options:?}"),
        Call::Print(text) => panic!("{text}"),
    };
    let usual = found(&["a", "b", "--names=x", "--no-fast", "y"]);
    assert_eq!(found(&["a", "--names=x", "b", "--no-fast", "y"]), usual);
    assert_eq!(found(&["a", "--names", "x", "--no-fast", "b", "y"]), usual);
    assert_eq!(refused(&["a", "--", "b", "y"]), "unknown command \"a\"");
}

#[test]
fn help_shows_what_it_is_asked_for() {
    let short = printed(&["a", "b", "--help"]);
    assert_eq!(
        short,
        "usage: narthex a b [<flags>] <first> [<others>]\n\nDoes it.\n\nArguments:\n  <first>\n      First.\n  \
         [<others>]\n      Others.\n\nFlags:\n  --query.timeout=2m\n      How long. A second sentence on a second line.\n  \
         --web.listen-address=x:1 ...\n      Where to.\n  --names=TEXT ...\n      Names.\n  \
         --[no-]fast\n      Be quick.\n  --log.level=TEXT\n      The level.\n  --config.file=FILE\n      A file.\n\n\
         Accepted without effect:\n  --idle: it is idle\n\nRefused:\n  --bad: it is bad\n"
    );
    assert!(printed(&["a", "b", "--help-long"]).contains("--secret=7"));
    assert!(printed(&["--help-long"]).contains("--secret=7"));
    assert_eq!(
        printed(&["help", "a", "b"]),
        printed(&["a", "b", "--help-long"])
    );
    assert_eq!(
        printed(&["a", "b", "--version"]),
        "narthex, version 1.2.3\n"
    );
    assert!(
        printed(&[]).contains("  a b                     Does it. (also when called as old)\n")
    );
    assert!(matches!(call(&["/bin/old", "x"]), Ok(Call::Run(_))));
}

#[test]
fn the_first_word_of_a_command_lists_what_may_follow() {
    let list = "usage: narthex a <subcommand> [<flags>]\n\nSubcommands:\n  a b [<flags>] <first> [<others>]\n      \
                Does it.\n";
    for line in [&["a"][..], &["a", "--help"], &["help", "a"]] {
        assert_eq!(printed(line), list, "{line:?}");
    }
    assert!(matches!(call(&["tool", "a"]), Ok(Call::Print(text)) if text == list));
    assert_eq!(refused(&["b"]), "unknown command \"b\"");
    assert_eq!(refused(&["a", "--fast"]), "unknown command \"a\"");
}

#[test]
fn manual_pages_escape_what_roff_reads() {
    let page = printed(&["man", "a", "b"]);
    assert_eq!(page, printed(&["a", "b", "--help-man"]));
    assert!(page.starts_with(".TH \"NARTHEX\\-A\\-B\" 1"), "{page}");
    assert!(
        page.contains("\n.TP\n.B \\-\\-query.timeout=2m\nHow long."),
        "{page}"
    );
    assert!(printed(&["man"]).contains(".SH COMMANDS\n.TP\n.B a b\nDoes it.\n"));
}

#[test]
fn candidates_follow_what_is_written() {
    let found = |words: &[&str]| {
        let line = [&["completion", "words"], words].concat();
        let text = printed(&line);
        let names = text
            .lines()
            .map(|line| line.split('\t').next().unwrap_or(""));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found(&[""]), ["a", "help", "man", "completion"]);
    assert_eq!(found(&["a", ""]), ["b"]);
    assert_eq!(found(&["completion", "z"]), ["zsh"]);
    assert_eq!(found(&["a", "b", "--n"]), ["--names=", "--no-fast"]);
    assert_eq!(
        found(&["a", "b", "--no-fast", "--log.level=x", "--n"]),
        ["--names="]
    );
    assert_eq!(found(&["a", "b", "--log.level=d"]), ["--log.level=debug"]);
    assert_eq!(found(&["a", "b", "--log.level", "i"]), ["info"]);
    assert_eq!(found(&["a", "b", "--config.file=/x"]), [":files"]);
    assert_eq!(found(&["a", "b", "--b"]), [""; 0]);
    assert_eq!(found(&["man", "a", ""]), ["b"]);
    assert_eq!(found(&["@f"]), [""; 0]);
}

#[test]
fn go_durations_are_sums() {
    let parse = |text: &str| {
        GoDuration::parse(OsStr::new(text))
            .map(|parsed| parsed.0)
            .ok()
    };
    for (text, ms) in [
        ("1m0.5s", 60_500),
        ("250ms", 250),
        ("0", 0),
        ("1h1m", 3_660_000),
    ] {
        assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
    }
    for text in ["", "5", "5d", "1.2.3s", "-1s", "9999999h"] {
        assert_eq!(parse(text), None, "{text}");
    }
}

flags! {
    /// Options with a letter.
    #[derive(Debug, PartialEq)]
    pub(crate) struct Lettered {
        /// The form.
        form: Option<String> = "form", short("o");
        /// Whether to be loud.
        loud: bool = "loud";
        /// The rest.
        rest: Option<String> = "rest", positional();
    }
}

#[test]
fn letters_stand_for_names() {
    let read = |line: &[&str]| {
        let arguments: Vec<OsString> = line.iter().map(OsString::from).collect();
        let values = crate::Values::parse(&[Lettered::FLAGS], &arguments, Surroundings::process());
        let read = Lettered::from_values(values?)?;
        Ok::<_, UsageError>((read.form.unwrap_or_default(), read.rest.unwrap_or_default()))
    };
    let expected = ("json".to_owned(), "x".to_owned());
    for line in [
        &["-o", "json", "x"][..],
        &["-ojson", "x"],
        &["-o=json", "x"],
        &["x", "--form=json"],
        &["--form", "json", "x"],
    ] {
        assert_eq!(read(line).unwrap(), expected, "{line:?}");
    }
    for line in [
        &["--ojson"][..],
        &["-o"],
        &["-ojson", "-o", "csv"],
        &["-lx"],
    ] {
        assert!(read(line).is_err(), "{line:?}");
    }
    assert_eq!(Lettered::FLAGS[0].usage(), "-o, --form=TEXT");
}
