//! Tests of parsing, printing and error messages.

use super::*;
use crate::ast::ValueType;

fn printed(query: &str) -> String {
    parse(query).map_or_else(|e| panic!("{query}: {e}"), |e| e.to_string())
}

fn error(query: &str) -> String {
    parse(query).expect_err(query).to_string()
}

#[test]
fn prints_what_prometheus_prints() {
    for (query, text) in [
        ("sum(a)by(b,c)", "sum by (b, c) (a)"),
        ("sum without()(a)", "sum without () (a)"),
        ("topk by (\"a.b\") (1, x)", "topk by (\"a.b\") (1, x)"),
        ("a+on(x)group_left b", "a + on (x) group_left () b"),
        (
            "a * fill_left(1) fill_right(-Inf) b",
            "a * fill_left (1) fill_right (-Inf) b",
        ),
        ("a and ignoring(b) c", "a and ignoring (b) c"),
        ("{\"foo.bar\",x!~\"y\"}", "{__name__=\"foo.bar\",x!~\"y\"}"),
        ("foo{}", "foo"),
        ("x[5m:] offset -1h @ 3", "x[5m:] @ 3.000 offset -1h"),
        ("x[300] anchored", "x[5m] anchored"),
        (
            "x offset (5m + step()) @ end()",
            "x @ end() offset (5m + step())",
        ),
        ("x[max_of(1m,step()*2):1m]", "x[max_of(1m, step() * 2):1m]"),
        ("-a^2*b", "-a ^ 2 * b"),
        ("0x1F + 1h + 010 - .5e3", "31 + 1h + 8 - 500"),
        ("h </ 5 >/ bool_metric", "h </ 5 >/ bool_metric"),
        ("'it\\'s'", "\"it's\""),
        ("start + end(foo)", "start + end(foo)"),
    ] {
        if query == "start + end(foo)" {
            assert_eq!(
                error(query),
                "1:9: parse error: expected 0 argument(s) in call to \"end\", got 1"
            );
            continue;
        }
        assert_eq!(printed(query), text);
        assert_eq!(printed(text), text, "printing is stable");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn says_what_prometheus_says() {
    for (query, text) in [
        (
            "",
            "unknown position: parse error: no expression found in input",
        ),
        (
            "foo offset 5m baz",
            "1:15: parse error: unexpected identifier \"baz\"",
        ),
        (
            "sum(foo bar)",
            "1:9: parse error: unexpected identifier \"bar\" in aggregation",
        ),
        (
            "sum by foo",
            "1:8: parse error: unexpected identifier \"foo\" in grouping opts, expected \"(\"",
        ),
        (
            "foo[5m+]",
            "1:8: parse error: unexpected \"]\" in subquery or range selector, expected number, duration, step(), or range()",
        ),
        (
            "foo{a=}",
            "1:7: parse error: unexpected \"}\" in label matching, expected string",
        ),
        (
            "foo{a \"b\"}",
            "1:7: parse error: unexpected string \"\\\"b\\\"\" in label matching, expected label matching operator",
        ),
        (
            "1 == 1",
            "1:3: parse error: comparisons between scalars must use BOOL modifier",
        ),
        (
            "foo + bool bar",
            "1:5: parse error: bool modifier can only be used on comparison operators",
        ),
        (
            "rate(foo)",
            "1:6: parse error: expected type range vector in call to function \"rate\", got instant vector",
        ),
        (
            "nope(foo)",
            "1:1: parse error: unknown function with name \"nope\"",
        ),
        (
            "{}",
            "1:1: parse error: vector selector must contain at least one non-empty matcher",
        ),
        ("(foo", "1:5: parse error: unclosed left parenthesis"),
        ("foo\n  $", "2:3: parse error: unexpected character: '$'"),
        (
            "\"\\q\"",
            "1:1: parse error: unknown escape sequence U+0071 'q'",
        ),
        (
            "foo[5y1hs]",
            "1:5: parse error: unknown unit \"hs\" in duration \"5y1hs\"",
        ),
        (
            "foo @ 1 @ 2",
            "1:1: parse error: @ <timestamp> may not be set multiple times",
        ),
        (
            "a or on(b) group_left b",
            "1:1: parse error: no grouping allowed for \"or\" operation",
        ),
        (
            "sum(a,,b)",
            "1:6: parse error: trailing commas not allowed in function call args",
        ),
    ] {
        assert_eq!(error(query), text, "{query}");
    }
}

#[test]
fn spans_cover_the_nodes() {
    let query = "sum(rate(x{a=\"b\"}[5m] offset 1m)) by (c) + -y";
    let mut texts = Vec::new();
    parse(query).unwrap().walk(&mut |e| {
        let span = e.span();
        texts.push(&query[span.start as usize..span.end as usize]);
    });
    let rate = "rate(x{a=\"b\"}[5m] offset 1m)";
    let wanted = [
        query,
        "sum(rate(x{a=\"b\"}[5m] offset 1m)) by (c)",
        rate,
        "x{a=\"b\"}[5m] offset 1m",
        "-y",
        "y",
    ];
    assert_eq!(texts, wanted);
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = "expression is nested more than 500 levels deep";
    for query in [
        format!("{}x{}", "(".repeat(100_000), ")".repeat(100_000)),
        "-".repeat(100_000) + "x",
        "sum(".repeat(100_000),
        "a+".repeat(100_000) + "a",
        "a^".repeat(100_000) + "a",
        format!("a[{}1m]", "(".repeat(100_000)),
        format!("a[1m{}]", "+1m".repeat(100_000)),
        format!("a{}", "[1m:1m]".repeat(100_000)),
    ] {
        assert!(error(&query).contains(deep), "{}", &query[..20]);
    }
    // Just below the limit, everything works on a test thread's stack.
    let nested = format!("{}x{}", "(".repeat(400), ")".repeat(400));
    assert_eq!(parse(&nested).unwrap().depth(), 401);
    assert_eq!(printed(&("a + ".repeat(400) + "a")).len(), 1601);
    let wide = format!("absent(x{{{}}})", "a=\"b\",".repeat(10));
    assert_eq!(parse(&wide).unwrap().value_type(), ValueType::Vector);
    assert!(
        error(&format!(
            "label_join(x, \"a\"{})",
            ", \"b\"".repeat(200_000)
        ))
        .contains("more than 100000 parts")
    );
}

#[test]
fn switched_off_parts_are_refused() {
    let off = ParseOptions {
        experimental_functions: false,
        extended_range_selectors: false,
        fill_modifiers: false,
        unquoted_utf8_names: false,
    };
    for (query, text) in [
        (
            "limitk(1, x)",
            "limitk() is experimental and must be enabled with --enable-feature=promql-experimental-functions",
        ),
        (
            "mad_over_time(x[5m])",
            "function \"mad_over_time\" is not enabled",
        ),
        (
            "x[5m] smoothed",
            "smoothed modifier is experimental and not enabled",
        ),
        (
            "a + fill(0) b",
            "binop fill modifiers are experimental and not enabled",
        ),
    ] {
        let error = parse_with(query, off).unwrap_err();
        assert_eq!(error.message, text);
        assert!(parse(query).is_ok() || query.contains("x[5m] s"));
    }
}

#[test]
fn series_and_selectors_stand_alone() {
    assert_eq!(
        parse_metric("a:b{c=\"d\", \"e.f\"='g'}")
            .unwrap()
            .to_string(),
        "a:b{c=\"d\", \"e.f\"=\"g\"}"
    );
    assert_eq!(parse_metric("{}").unwrap().len(), 0);
    assert_eq!(
        parse_metric("a{b}").unwrap_err().to_string(),
        "1:4: parse error: unexpected \"}\" in label set, expected \"=\""
    );
    assert_eq!(parse_selector("up{job=~\"x.*\"}").unwrap().len(), 2);
    assert!(parse_selector("rate(up[5m])").is_err());
}
