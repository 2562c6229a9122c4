//! Tests of token server responses. The rest is tested over sockets.

use super::*;

fn read(body: &str, content_type: &str) -> Result<Token, NetError> {
    token(&read_answer(body.as_bytes(), content_type))
}

#[test]
fn answers_of_every_kind_are_read() {
    for (body, content_type, authorization, seconds) in [
        (
            r#"{"access_token":"t"}"#,
            "application/json",
            "Bearer t",
            None,
        ),
        (
            r#"{"access_token":"t","token_type":"mac","expires_in":"60"}"#,
            "",
            "MAC t",
            Some(60),
        ),
        (
            r#"{"access_token":"t","token_type":"DPoP","expires_in":3600.0}"#,
            "application/json; charset=utf-8",
            "DPoP t",
            Some(3600),
        ),
        (
            "access_token=a%2Bb&token_type=bearer&expires_in=5",
            "application/x-www-form-urlencoded",
            "Bearer a+b",
            Some(5),
        ),
        (
            r#"{"access_token":"t","expires_in":-1}"#,
            "application/json",
            "Bearer t",
            None,
        ),
    ] {
        let token = read(body, content_type).expect(body);
        assert_eq!(token.authorization.expose(), authorization);
        assert_eq!(token.lifetime.map(|l| l.as_secs()), seconds, "{body}");
    }
    for (body, want) in [
        ("{}", "server response missing access_token"),
        ("nothing", "server response missing access_token"),
        (
            "{\"access_token\":\"hush\\nhush\"}",
            "access_token is not a header's value",
        ),
    ] {
        let error = read(body, "application/json").expect_err(body).to_string();
        assert_eq!(error, want);
    }
}

#[test]
fn identifiers_differ() {
    let (one, two) = (unique_id().expect("random"), unique_id().expect("random"));
    assert_eq!(one.len(), 36);
    assert_ne!(one, two);
}
