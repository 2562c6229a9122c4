//! Tests of `figures`.

use super::*;

#[test]
fn a_long_table_says_what_it_leaves_out() {
    let rows = (0..MOST_ROWS + 7).map(|n| vec![n.to_string()]).collect();
    let table = cut("all".to_owned(), &["n"], rows).unwrap();
    assert_eq!(table.title, "all, without 7 more");
    assert_eq!(table.rows.len(), MOST_ROWS);
    assert!(cut("none".to_owned(), &["n"], Vec::new()).is_none());
}

#[test]
fn system_calls_stand_side_by_side() {
    let calls = |calls: &[(&str, f64)]| {
        calls
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    };
    let counted = [
        ("a".to_owned(), calls(&[("read", 2.0), ("write", 9.0)])),
        ("b".to_owned(), calls(&[("read", 3.5)])),
    ];
    let table = syscall_table(&counted).unwrap();
    assert_eq!(table.columns, ["call", "a", "b"]);
    assert_eq!(
        table.rows,
        [["write", "9.0", "0.0"], ["read", "2.0", "3.5"]]
    );
    assert!(syscall_table(&[]).is_none());
}
