//! Tests of pattern semantics and errors that do not need the reference program; `tests/it` has those that do.

use super::*;

fn matcher(source: &str) -> Pattern {
    Pattern::matcher(source).unwrap()
}

fn refused(source: &str) -> String {
    Pattern::matcher(source).unwrap_err().to_string()
}

#[test]
fn classes_are_those_of_go() {
    assert!(!matcher(r"\d").is_match("٣"), "digits are ASCII");
    assert!(matcher(r"\p{Nd}").is_match("٣"));
    assert!(!matcher(r"\w").is_match("é"));
    assert!(matcher("[[a]+").is_match("[a["), "no classes in classes");
    assert!(matcher("[a&&b]+").is_match("a&b"));
    assert!(matcher(r"a\Q.*\Eb").is_match("a.*b"));
    assert!(matcher(r"(?i)k").is_match("\u{212a}"), "the Kelvin sign");
    assert!(matcher(r"\101\x41\x{41}").is_match("AAA"));
    assert!(!matcher(r"[\x{d800}]").is_match("a"));
    assert!(matcher(r"a\B.").is_match("ab"));
}

#[test]
fn refusals_are_in_the_words_of_go() {
    let error = |what: &str| format!("error parsing regexp: {what}");
    for (source, what) in [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){11}", "invalid repeat count: `{11}`"),
        ("[a", "missing closing ]: `[a`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"a\", "trailing backslash at end of expression: ``"),
        ("(?x)", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?P<a-b>c)", "invalid named capture: `(?P<a-b>`"),
    ] {
        assert_eq!(refused(source), error(what), "{source}");
    }
}

#[test]
fn bounds_are_errors_and_no_overflows_of_the_stack() {
    let deep = |depth: usize| format!("{}a{}", "(".repeat(depth), ")*".repeat(depth));
    let nested = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || matcher(&deep(200)).is_match("aaa"))
        .unwrap();
    assert!(nested.join().unwrap());
    assert!(refused(&deep(201)).contains("expression nests too deeply"));
    assert!(refused(&deep(100_000)).contains("expression nests too deeply"));
    assert!(refused(r"(?i)(\pL{500}){2}").contains("expression too large"));
}

#[test]
fn listable_patterns_are_listed() {
    let listed = |source: &str| {
        matcher(source)
            .exact()
            .map(|all| all.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(listed("a|b|a").as_deref(), Some("a b"));
    assert_eq!(
        listed("^(foo|ba[rz])-[12]$").as_deref(),
        Some("foo-1 foo-2 bar-1 bar-2 baz-1 baz-2")
    );
    assert_eq!(listed("https?").as_deref(), Some("https http"));
    assert_eq!(listed("(?i)1|2").as_deref(), Some("1 2"));
    for open in ["a.", "a*", "(?i)a", "[^a]", "a^b", r"a\b", "[a-z]", "(^a)b"] {
        assert_eq!(listed(open), None, "{open}");
    }
    let many = (0..2000).map(|i| format!("v{i}")).collect::<Vec<_>>();
    let all = matcher(&many.join("|"));
    assert_eq!(all.exact().map(<[String]>::len), Some(2000));
    assert!(all.is_match("v1999") && !all.is_match("v2000"));
}

#[test]
fn anchors_cannot_be_escaped_unseen() {
    // The text closes the surrounding group, so each half is anchored on one side only, as in Prometheus.
    let halves = Pattern::anchored("a)|(b").unwrap();
    assert!(halves.is_match("ax") && halves.is_match("xb") && !halves.is_match("xax"));
    assert!(Pattern::matcher("a)|(b").is_err());
}

#[test]
fn templates_are_filled_as_go_expands_them() {
    let pattern = Pattern::anchored(r"(?P<one>a)(b)?(?<dé>x)?");
    assert!(pattern.is_err(), "names are ASCII");
    let pattern = Pattern::anchored(r"(?P<one>a)(b)?(?<1st>c)").unwrap();
    let expand = |template: &str| pattern.expand("ac", &Template::parse(template)).unwrap();
    for (template, expected) in [
        ("$1", "a"),
        ("${one}-$2-${3}", "a--c"),
        ("$1x", ""),
        ("${1}x", "ax"),
        ("$1st", "c"),
        ("$$1", "$1"),
        ("$", "$"),
        ("${", "${"),
        ("${1", "${1"),
        ("${}", "${}"),
        ("$-", "$-"),
        ("$01", ""),
        ("$0", "ac"),
        ("$9999999999999999999999", ""),
        ("$é|", "|"),
        ("", ""),
    ] {
        assert_eq!(expand(template), expected, "{template}");
    }
    assert_eq!(pattern.expand("b", &Template::parse("x")), None);
}

#[test]
fn what_is_filled_in_is_bounded_before_it_is_made() {
    let pattern = Pattern::anchored("(.*)").unwrap();
    let template = Template::parse(&"$1".repeat(1000));
    let text = "x".repeat(1 << 20);
    assert_eq!(
        pattern.expand_up_to(&text, &template, 1 << 20),
        Err(1000 << 20)
    );
    let short = pattern.expand_up_to("ab", &template, 2000).unwrap();
    assert_eq!(short.as_deref(), Some(&*"ab".repeat(1000)));
    assert_eq!(
        Pattern::anchored("b")
            .unwrap()
            .expand_up_to("a", &template, 1),
        Ok(None)
    );
}

/// Prometheus' matchers accept scripts with an underscore, its relabelling accepts names in any case; ours accept
/// both.
#[test]
fn classes_are_found_by_any_spelling_that_some_go_takes() {
    for name in [
        "Greek",
        "greek",
        "Old_Italic",
        "OldItalic",
        "Letter",
        "uppercase-letter",
        "ASCII",
        "Assigned",
        "LC",
    ] {
        assert!(Pattern::new(&format!(r"\p{{{name}}}")).is_ok(), "{name}");
    }
    assert!(matcher(r"\p{Old_Italic}").is_match("\u{10300}"));
    for name in ["Alphabetic", "sc=Greek", "Emoji", ""] {
        assert!(Pattern::new(&format!(r"\p{{{name}}}")).is_err(), "{name}");
    }
}
