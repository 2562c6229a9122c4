//! Tests of `plan`.

use super::*;
use crate::scenario::rules::SCENARIO;
use std::collections::BTreeSet;

fn plan(rules: &str) -> Plan {
    let values = SCENARIO.values(&[format!("--rules={rules}")]).unwrap();
    Plan::from_values(&values).unwrap()
}

#[test]
fn every_rule_is_complete_and_every_name_unique() {
    let plan = plan("2000");
    let mut records = BTreeSet::new();
    for at in 0..plan.groups() {
        let text = plan.group(at);
        let document: serde_json::Value = serde_saphyr::from_str(&text).expect("a group is YAML");
        let rules = document[0]["rules"].as_array().expect("rules").clone();
        assert_eq!(rules.len(), GROUP_SIZE);
        for rule in rules {
            let expr = rule["expr"].as_str().expect("an expression");
            let is_filled = [
                "SERVICE",
                "GROUP",
                "COUNTER",
                "GAUGE",
                "HISTOGRAM",
                "BUDGET",
            ];
            assert!(
                !is_filled.iter().any(|place| expr.contains(place)),
                "{expr}"
            );
            if let Some(record) = rule["record"].as_str() {
                assert!(records.insert(record.to_owned()), "{record} twice");
            }
        }
    }
    assert_eq!(records.len(), plan.groups() * 14);
}

#[test]
fn a_number_of_rules_that_no_groups_have_is_refused() {
    let values = SCENARIO.values(&["--rules=30".to_owned()]).unwrap();
    let error = Plan::from_values(&values).unwrap_err().to_string();
    assert!(error.contains("30 is not a multiple of 20"), "{error}");
}
