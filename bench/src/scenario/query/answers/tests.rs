//! Tests of `answers`.

use super::*;

fn vector(series: &[(&str, &str)]) -> Answer {
    let series: Vec<Value> = series
        .iter()
        .map(|(name, value)| serde_json::json!({"metric": {"a": name}, "value": [1.5, value]}))
        .collect();
    let body = serde_json::json!({
        "status": "success", "data": {"resultType": "vector", "result": series},
    });
    Answer::read(body.to_string().as_bytes()).unwrap()
}

fn read(data: &str) -> Answer {
    Answer::read(format!("{{\"status\":\"success\",\"data\":{data}}}").as_bytes()).unwrap()
}

#[test]
fn order_of_series_and_spelling_of_numbers_play_no_part() {
    let a = vector(&[("x", "1"), ("y", "NaN"), ("z", "1e3")]);
    let b = vector(&[("z", "1000"), ("x", "1.0"), ("y", "NaN")]);
    assert_eq!(a.compare(&b), Agreement::Equal);
    assert_eq!(a.len(), 3);
    assert_eq!(
        (vector(&[("x", "7")]).number(), a.number()),
        (Some(7.0), None)
    );
}

#[test]
fn sums_in_another_order_are_close_and_more_is_a_difference() {
    let one = vector(&[("x", "1")]);
    let Agreement::Close(apart) = one.compare(&vector(&[("x", "1.0000000000005")])) else {
        panic!("not close");
    };
    assert!((4e-13..6e-13).contains(&apart), "{apart}");
    for other in ["1.000000000002", "-1", "+Inf", "NaN", "0"] {
        let agreement = one.compare(&vector(&[("x", other)]));
        let Agreement::Differ(mismatch) = agreement else {
            panic!("{other}: {agreement:?}");
        };
        assert_eq!((mismatch.other.as_str(), mismatch.count), (other, 1));
        assert_eq!(mismatch.place, "{a=\"x\"} @ 1.5");
    }
    let (zero, negative) = (vector(&[("x", "0")]), vector(&[("x", "-0")]));
    assert_eq!(zero.compare(&negative), Agreement::Equal);
}

#[test]
fn series_and_samples_on_one_side_are_differences() {
    let a = vector(&[("x", "1"), ("y", "2")]);
    let b = vector(&[("y", "2"), ("z", "3"), ("w", "4")]);
    let Agreement::Differ(mismatch) = a.compare(&b) else {
        panic!("equal");
    };
    assert_eq!(
        (mismatch.first.as_str(), mismatch.other.as_str()),
        ("1", "nothing")
    );
    assert_eq!(mismatch.count, 3);
    let matrix = |values| {
        read(&format!(
            r#"{{"resultType":"matrix","result":[{{"metric":{{}},"values":{values}}}]}}"#
        ))
    };
    let long = matrix(r#"[[1,"1"],[2,"2"]]"#);
    for other in [
        r#"[[1,"1"]]"#,
        r#"[[1,"1"],[3,"2"]]"#,
        r#"[[1,"1"],[2,"2.5"]]"#,
    ] {
        let agreement = long.compare(&matrix(other));
        assert!(matches!(agreement, Agreement::Differ(_)), "{other}");
    }
    assert_eq!(long.compare(&long.clone()), Agreement::Equal);
}

#[test]
fn label_values_series_and_scalars_are_read() {
    let values = read(r#"["b","a"]"#);
    assert_eq!(values.compare(&read(r#"["a","b"]"#)), Agreement::Equal);
    let Agreement::Differ(mismatch) = values.compare(&read(r#"["a","c"]"#)) else {
        panic!("equal");
    };
    assert_eq!(
        (mismatch.place.as_str(), mismatch.first.as_str()),
        ("b", "it")
    );
    let series = read(r#"[{"b":"2","a":"1"}]"#);
    assert_eq!(
        series.compare(&read(r#"[{"a":"1","b":"2"}]"#)),
        Agreement::Equal
    );
    let scalar = read(r#"{"resultType":"scalar","result":[1,"5"]}"#);
    assert_eq!(scalar.number(), Some(5.0));
    for body in [
        &br#"{"status":"error","data":{"resultType":"vector","result":[]}}"#[..],
        br#"{"status":"success","data":{}}"#,
        br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}"#,
        b"404 page not found",
    ] {
        assert_eq!(Answer::read(body), None);
    }
}
