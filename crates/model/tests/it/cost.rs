//! Compares patterns' leases with the memory they use.

use crate::pattern::PATTERNS;
use narthex_model::{
    CompileError, MatchOp, Matcher, Pattern,
    storage::{Budget, Context, Stop, StopReason},
};
use narthex_testkit::{alloc, mutate::Mutator, scaled};

fn context(limit_bytes: u64) -> Context {
    Context {
        budget: Budget::new("the patterns", limit_bytes),
        ..Context::unlimited()
    }
}

fn repeated(unit: &str, times: usize) -> String {
    unit.repeat(times)
}

fn words(count: usize, end: &str) -> String {
    let words: Vec<String> = (0..count).map(|n| format!("w{n:06}{end}")).collect();
    words.join("|")
}

/// Short patterns of every kind that expand to much.
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn greedy() -> Vec<String> {
    let mut all: Vec<String> = [
        "a",
        "a.*",
        ".+foo.+",
        r"\pL",
        r"\pL{10}",
        r"\pL{200}",
        r"\pL{400}",
        r"\pL+",
        r"[^\pL]",
        r"(?i)\pL{20}",
        r"\pC{20}",
        r"\PC{20}",
        r"[\pL\pM\pN]{20}",
        ".{1000}",
        "a{1000}",
        "[a-z]{1000}",
        "(?i)a{1000}",
        "(?i)ä{1000}",
        "ſ{1000}",
        "[ -\u{10fff0}]{1000}",
        "[^a]{1000}",
        r"\W{1000}",
        r"[\W\D]{500}",
        "(a|b){1000}",
        "a{0,1000}",
        "(a?){1000}",
        "((a{10}){10}){10}",
        "(?i)[a-zà-ÿ]{300}",
        r"(?i)[^k]{500}",
        "(.*a){1,100}",
        "x*",
        "",
        r"[\p{Latin}\p{Greek}\p{Han}\p{Common}]{10}",
        "(?m)(^$){500}",
        r"\b{1000}",
    ]
    .map(str::to_owned)
    .to_vec();
    all.extend(
        [
            ("abcdefghij", 2000),
            ("ü", 3000),
            ("(a)", 3000),
            ("()", 4000),
            ("a?", 4000),
            ("(a|b)", 3000),
            (r"\pL", 300),
            (".", 3000),
            ("[ab]", 3000),
            ("[a-p]", 3000),
            (r"\b", 4000),
            ("(?i)a", 3000),
            ("(?P<n>a)", 3000),
            ("^", 3000),
            ("a|", 3000),
            ("(?:a*)*", 2000),
            (r"\x{10FFFF}", 3000),
            ("[а-я]", 1000),
            ("[aя]", 1000),
        ]
        .map(|(unit, times)| repeated(unit, times)),
    );
    all.push(words(5000, ""));
    all.push(words(5000, ".*"));
    all.push(format!("(?i){}", words(3000, "")));
    all.push(format!("({})-({})", words(10, ""), words(20, "")));
    all.push(format!(
        "[{}]",
        (0x1000..0x3000)
            .step_by(2)
            .filter_map(char::from_u32)
            .collect::<String>()
    ));
    all.push(format!(
        "[{}]",
        (0x10000..0x12000)
            .step_by(2)
            .filter_map(char::from_u32)
            .collect::<String>()
    ));
    all.push(repeated("[ab][ab][ab][ab][ab][ab][ab][ab]|", 200));
    all
}

/// Compiles within an unlimited budget and compares its count with the allocator's.
fn compare(source: &str, subject: &str) {
    type Compile = fn(&str, &Context) -> Result<Pattern, CompileError>;
    let ways: [(&str, Compile); 2] = [
        ("a matcher", Pattern::matcher_within),
        ("anchored", Pattern::anchored_within),
    ];
    for (name, compile) in ways {
        let ctx = context(u64::MAX);
        let (pattern, most, _) = during(|| compile(source, &ctx));
        let leased = ctx.budget.peak_bytes();
        let shown: String = source.chars().take(40).collect();
        assert!(
            most <= leased + 16_000,
            "{name} {shown:?} of {} bytes took {most} bytes, leased were {leased}",
            source.len()
        );
        let Ok(pattern) = pattern else { continue };
        let kept = ctx.budget.used_bytes();
        let (_, _, held) = during(|| {
            let again = compile(source, &Context::unlimited());
            again.map(|again| (again.is_match(subject), again))
        });
        assert!(
            held <= kept + 16_000,
            "{name} {shown:?} of {} bytes keeps {held} bytes, leased are {kept}",
            source.len()
        );
        drop(pattern);
        assert_eq!(ctx.budget.used_bytes(), 0);
    }
}

#[test]
fn leases_cover_what_compiling_takes_and_keeps() {
    let subject = "aabbccdd w000012 0123456789abcdef äöü жык";
    greedy().iter().for_each(|source| compare(source, subject));
    PATTERNS.iter().for_each(|source| compare(source, subject));
}

#[test]
fn leases_cover_what_mutated_patterns_take() {
    let seeds: Vec<&[u8]> = PATTERNS.iter().map(|pattern| pattern.as_bytes()).collect();
    Mutator::new(0xc057).run(&seeds, scaled(1500), |data| {
        compare(&String::from_utf8_lossy(data), "aab");
    });
}

/// Regression: hundreds of patterns, each within its bound, took gigabytes together.
#[test]
fn many_patterns_share_one_budget_and_the_first_beyond_it_is_refused() {
    let ctx = context(64 << 20);
    let mut matchers = Vec::new();
    let refused = (0..1000).find_map(|n| {
        let source = format!(r"\pL{{200}}{n}");
        match Matcher::within(MatchOp::Regex, "a", &source, &ctx.clone().into()) {
            Ok(matcher) => {
                matchers.push(matcher);
                None
            }
            Err(error) => Some(error),
        }
    });
    assert!(
        matches!(refused, Some(CompileError::OverBudget(_))),
        "{refused:?}"
    );
    assert!((1..=6).contains(&matchers.len()), "{}", matchers.len());
    drop(matchers);
    assert_eq!(ctx.budget.used_bytes(), 0);
    let small = (0..).take_while(|n| {
        let matcher = Matcher::within(MatchOp::Regex, "a", &format!("a.*{n}"), &ctx.clone().into());
        // Forget the matcher: only its lease matters here.
        matcher.map(std::mem::forget).is_ok()
    });
    assert!((200..2000).contains(&small.count()));
}

/// The query a dashboard sends for a variable with thousands of values.
#[test]
fn large_sets_of_words_are_not_compiled() {
    for count in [2_000, 20_000] {
        let source = words(count, "");
        let ctx = context(16 << 20);
        let (matcher, most, _) = during(|| {
            Matcher::within(MatchOp::Regex, "instance", &source, &ctx.clone().into()).unwrap()
        });
        assert_eq!(matcher.accepted_values().map(|all| all.len()), Some(count));
        assert!(matcher.matches("w000007") && !matcher.matches("w"));
        assert!(most < 64 * source.len() as u64, "{most} bytes");
    }
}

#[test]
fn patterns_are_refused_by_what_they_would_take_and_when_stopped() {
    let error = |source: &str| Pattern::matcher(source).unwrap_err().to_string();
    for source in [r"\pL{500}", &repeated(r"\pL", 5000), &words(200_000, ".*")] {
        let (text, most, _) = during(|| error(source));
        assert!(text.contains("expression too large"), "{text:.60}");
        assert!(
            most < 80 * source.len() as u64 + 10_000,
            "{most} bytes to refuse"
        );
    }
    let ctx = Context {
        stop: Stop::at_check(1),
        ..Context::unlimited()
    };
    let stopped = Pattern::matcher_within("a.*", &ctx).unwrap_err();
    assert_eq!(stopped, CompileError::Stopped(StopReason::Canceled));
}

/// Runs `work`; returns its result, the peak of its memory, and the bytes it still holds.
fn during<T>(work: impl FnOnce() -> T) -> (T, u64, u64) {
    let (result, used) = alloc::measured(work);
    let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    (result, bytes(used.peak_bytes), bytes(used.live_bytes))
}
