//! Which names a search finds, and how well each fits.
//!
//! **Invariant:** scores equal Prometheus' to the last bit: operations come in the same order.

/// Scores of names that are no exact match stay below this.
const INEXACT: f64 = 0.999;

/// The terms of a search; a name is found by any of them.
#[derive(Debug)]
pub(super) struct Filter {
    terms: Vec<Term>,
    is_sensitive: bool,
}

#[derive(Debug)]
struct Term {
    text: String,
    chars: Vec<char>,
    threshold: f64,
    is_jaro: bool,
}

impl Filter {
    pub(super) fn new(terms: &[String], threshold: f64, is_jaro: bool, is_sensitive: bool) -> Self {
        let terms = terms.iter().filter(|text| !text.is_empty());
        let term = |text: &String| {
            let text = if is_sensitive {
                text.clone()
            } else {
                text.to_lowercase()
            };
            Term {
                chars: text.chars().collect(),
                text,
                threshold,
                is_jaro,
            }
        };
        Self {
            terms: terms.map(term).collect(),
            is_sensitive,
        }
    }

    /// Returns about how many steps it takes to score a name.
    pub(super) fn work(&self, name: &str) -> usize {
        let terms = self.terms.iter().map(|term| term.chars.len());
        terms.fold(16 + name.len(), |steps, term| {
            steps + name.len() * (1 + term / 8)
        })
    }

    /// Returns how well a name fits, up to 1; `None` if it doesn't.
    pub(super) fn score(&self, name: &str) -> Option<f64> {
        if self.terms.is_empty() {
            return Some(1.0);
        }
        let lower;
        let name = if self.is_sensitive {
            name
        } else {
            lower = name.to_lowercase();
            &lower
        };
        let scores = self.terms.iter().filter_map(|term| term.score(name));
        scores.reduce(f64::max)
    }
}

impl Term {
    fn score(&self, name: &str) -> Option<f64> {
        if name.starts_with(&self.text) {
            return Some(1.0);
        }
        if self.is_jaro {
            if let Some(score) = self.substring(name) {
                return Some(score);
            }
            // Without a threshold only substrings are found.
            let fuzzy = Some(self.threshold).filter(|threshold| *threshold > 0.0)?;
            let score = jaro_winkler(&self.chars, &name.chars().collect::<Vec<_>>());
            return Some(score).filter(|score| *score >= fuzzy);
        }
        let score = subsequence(&self.chars, &name.chars().collect::<Vec<_>>());
        Some(score).filter(|score| *score > 0.0 && *score >= self.threshold)
    }

    /// Scores a substring by where it begins.
    fn substring(&self, name: &str) -> Option<f64> {
        let before = name.get(..name.find(&self.text)?)?;
        let last = name.chars().count().saturating_sub(self.chars.len());
        if last == 0 {
            return Some(1.0);
        }
        Some(1.0 - 0.9 * before.chars().count() as f64 / last as f64)
    }
}

/// Scores how well the characters of `pattern` follow each other in `text`: long runs gain, gaps cost.
fn subsequence(pattern: &[char], text: &[char]) -> f64 {
    if pattern.len() > text.len() {
        return 0.0;
    }
    if pattern == text {
        return 1.0;
    }
    let mut best = -1.0;
    for start in 0..=text.len() - pattern.len() {
        if text.get(start) != pattern.first() {
            continue;
        }
        // What cannot be found from here cannot be found further on.
        let Some(score) = from(pattern, text, start) else {
            break;
        };
        if score > best {
            best = score;
        }
    }
    if best < 0.0 {
        return 0.0;
    }
    best / (pattern.len() * pattern.len()) as f64 * INEXACT
}

/// Scores a match whose first character is at `start`.
fn from(pattern: &[char], text: &[char], start: usize) -> Option<f64> {
    let of_length = 1.0 / text.len() as f64;
    let (mut score, mut at, mut matched) = (0.0, start, 0);
    // The last matched place, plus one.
    let mut before = 0;
    while let Some(wanted) = pattern.get(matched) {
        let first = at + text.get(at..)?.iter().position(|c| c == wanted)?;
        let run = text[first..].iter().zip(&pattern[matched..]);
        let run = run.take_while(|(a, b)| a == b).count();
        (at, matched) = (first + run, matched + run);
        if first > before {
            score -= (first - before) as f64 * of_length;
        }
        score += (run * run) as f64;
        before = at;
    }
    if text.len() > before {
        score -= (text.len() - before) as f64 * of_length * 0.5;
    }
    Some(score)
}

/// Returns the similarity of Jaro and Winkler.
fn jaro_winkler(a: &[char], b: &[char]) -> f64 {
    if a == b {
        return 1.0;
    }
    let (short, long) = if a.len() > b.len() { (b, a) } else { (a, b) };
    let reach = (long.len() / 2).saturating_sub(1);
    let (mut of_short, mut of_long) = (vec![false; short.len()], vec![false; long.len()]);
    for (at, c) in short.iter().enumerate() {
        let places = at.saturating_sub(reach)..(at + reach + 1).min(long.len());
        let mut places = places.filter(|place| !of_long[*place] && long[*place] == *c);
        if let Some(place) = places.next() {
            (of_short[at], of_long[place]) = (true, true);
        }
    }
    let matched = |text: &[char], matches: &[bool]| -> Vec<char> {
        let both = text.iter().zip(matches).filter(|(_, is_match)| **is_match);
        both.map(|(c, _)| *c).collect()
    };
    let (in_short, in_long) = (matched(short, &of_short), matched(long, &of_long));
    if in_short.is_empty() {
        return 0.0;
    }
    let count = in_short.len() as f64;
    let moved = in_short
        .iter()
        .zip(&in_long)
        .filter(|(a, b)| a != b)
        .count() as f64;
    let shares = count * (1.0 / short.len() as f64) + count * (1.0 / long.len() as f64);
    let jaro = (shares + (count - moved * 0.5) / count) / 3.0;
    let common = short.iter().zip(long).take(4).take_while(|(a, b)| a == b);
    jaro + common.count() as f64 * 0.1 * (1.0 - jaro)
}
