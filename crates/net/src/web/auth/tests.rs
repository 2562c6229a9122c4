//! Tests of hashes, costs and remembered answers.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::header::AUTHORIZATION;

use super::*;

const DAVE: &str = "$2y$04$abcdefghijklmnopqrstuuT.VdioudKiCP.wBnKnIyRNAu9yUSXv2";

#[test]
fn costs_are_read() {
    assert_eq!(cost(DAVE), Ok(4));
    assert!(cost("doe").expect_err("short").contains("too short"));
    for bad in ['1', '3'] {
        let hash = DAVE.replacen('2', &bad.to_string(), 1);
        assert!(cost(&hash).is_err(), "{hash}");
    }
    assert!(cost(&DAVE.replacen("04", "99", 1)).is_err());
    // The hash for unknown users is valid and has the users' cost.
    let users = BTreeMap::from([("dave".to_owned(), Secret::from(DAVE))]);
    let placeholder = nobody(&users);
    assert_eq!(cost(&placeholder), Ok(4));
    assert!(!bcrypt::verify("x", &placeholder).expect("a hash"));
    assert!(bcrypt::verify("dave123", DAVE).expect("a hash"));
}

#[tokio::test]
async fn answers_are_remembered_and_the_memory_is_bounded() {
    let users = BTreeMap::from([("dave".to_owned(), Secret::from(DAVE))]);
    let authenticator = Authenticator::new().expect("random numbers");
    let headers = |user: &str, password: &str| {
        let token = BASE64_STANDARD.encode(format!("{user}:{password}"));
        let value = format!("bAsIc {token}").try_into().expect("ASCII");
        HeaderMap::from_iter([(AUTHORIZATION, value)])
    };
    assert!(
        authenticator
            .admits(&users, &headers("dave", "dave123"))
            .await
    );
    assert!(!authenticator.admits(&users, &headers("dave", "x")).await);
    assert_eq!(authenticator.answers.lock().expect("no panic").len(), 2);
    for nth in 0..2 * CACHE {
        authenticator.remember(vec![nth as u8, (nth >> 8) as u8], false);
    }
    assert!(authenticator.answers.lock().expect("no panic").len() <= CACHE);
    let shown = format!("{authenticator:?}");
    assert!(
        shown.contains("key: <secret>") && !shown.contains("dave"),
        "{shown}"
    );
    assert!(!authenticator.admits(&users, &HeaderMap::new()).await);
}
