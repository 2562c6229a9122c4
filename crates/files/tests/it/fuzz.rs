//! Mutated files of values: no panic, and the properties that the fuzz functions check.

use narthex_files::fuzz;
use narthex_testkit::mutate::Mutator;

#[test]
fn mutated_files_of_values() {
    let mut data = Vec::new();
    for key in [
        r#"["c", "c_total", {"k": "1"}, "Help."]"#,
        r#"["h", "h_bucket", {"le": "+Inf"}]"#,
    ] {
        data.extend_from_slice(&i32::try_from(key.len()).unwrap().to_ne_bytes());
        data.extend_from_slice(key.as_bytes());
        data.resize(data.len() + 8 - (key.len() + 4) % 8, b' ');
        data.extend_from_slice(&1f64.to_ne_bytes());
        data.extend_from_slice(&2f64.to_ne_bytes());
    }
    let used = i32::try_from(data.len() + 8).unwrap();
    let mut file = used.to_ne_bytes().to_vec();
    file.resize(8, 0);
    file.extend_from_slice(&data);
    Mutator::new(0xdb01).run(&[&file], 20_000, fuzz::fuzz_db);
}

#[test]
fn mutated_names() {
    let names: [&[u8]; 3] = [
        b"counter_7.db",
        b"gauge_livemostrecent_12.db",
        b"histogram_a-b.db",
    ];
    Mutator::new(0xdb02).run(&names, 10_000, fuzz::fuzz_name);
}
