//! Pages are well-formed, and no text of a record becomes markup.

use super::*;
use crate::record::tests::sample;

/// Fails unless every element is closed in order; returns the names of all. Text is skipped.
fn elements(page: &str) -> Vec<String> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    let body = page.strip_prefix("<!DOCTYPE html>\n").expect("a page");
    let mut rest = body;
    while let Some((_, piece)) = rest.split_once('<') {
        let (tag, text) = piece.split_once('>').expect("every tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag
            .split([' ', '/'])
            .find(|part| !part.is_empty())
            .expect("a name");
        rest = match name {
            "script" | "style" if !tag.starts_with('/') => {
                &text[text.find(&format!("</{name}>")).expect("an end")..]
            }
            _ => text,
        };
        let until = rest.find('<').unwrap_or(rest.len());
        assert!(!rest[..until].contains('>'), "{}", &rest[..until]);
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{name} is closed");
        } else if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
        all.push(name.to_owned());
    }
    assert!(open.is_empty(), "{open:?} stay open");
    all
}

#[test]
fn a_page_is_well_formed_and_loads_nothing() {
    let page = page(&sample());
    let elements = elements(&page);
    for name in ["table", "figure", "section", "dl", "script"] {
        assert!(elements.iter().any(|element| element == name), "{name}");
    }
    for name in ["link", "img", "iframe", "object", "image", "use"] {
        assert!(elements.iter().all(|element| element != name), "{name}");
    }
    for what in [
        "url(",
        "@import",
        "src=",
        "href=",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!page.contains(what), "{what}");
    }
    for what in [
        "In short",
        "5 times as much",
        "5x",
        "left out",
        "data-seconds=\"1700000000\"",
        "Above the limit: first byte p99 in one; see",
        "Permission is hereby granted",
    ] {
        assert!(page.contains(what), "{what}");
    }
}

#[test]
fn texts_stay_texts() {
    let mut record = sample();
    record.title = "<script>alert(1)</script> & \"more\"\u{1}".to_owned();
    record.subjects[1].label = "a</script>b".to_owned();
    record.notes.push("x > y".to_owned());
    let page = page(&record);
    elements(&page);
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;more&quot;"));
    assert!(!page.contains("a</script>b") && !page.contains('\u{1}'));
}

#[test]
fn a_record_without_anything_is_still_a_page() {
    let mut record = sample();
    record.runs.clear();
    record.differences.clear();
    elements(&page(&record));
    for run in &mut sample().runs {
        run.courses.clear();
        run.distributions.clear();
        record.runs.push(run.clone());
    }
    elements(&page(&record));
}
