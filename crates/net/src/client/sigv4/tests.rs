//! AWS' published test suite, and credentials from each place.

mod places;

use super::*;
use crate::client::aws_environment::AwsEnvironment;
use crate::secret::Secret;

/// 2015-08-30T12:36:00Z, the time of the suite.
const NOW_MS: i64 = 1_440_938_160_000;
const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

fn suite(token: &str) -> Credentials {
    Credentials {
        id: "AKIDEXAMPLE".to_owned(),
        secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        token: Secret::new(token),
    }
}

/// Returns the signed headers and the signature of a request to the suite's service.
fn signed(method: &str, path: &str, given: &[(&str, &str)], token: &str) -> (String, String) {
    let url = Url::parse(&format!("https://example.amazonaws.com{path}")).unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name = HeaderName::try_from(*name).unwrap();
        headers.append(name, HeaderValue::try_from(*value).unwrap());
    }
    let body: &[u8] = if given.is_empty() {
        b""
    } else {
        body_of(given)
    };
    let request = (&url, &mut headers, body);
    let scope = ("us-east-1", "service");
    sign(&suite(token), scope, method, request, NOW_MS).unwrap();
    let text = headers[AUTHORIZATION].to_str().unwrap();
    let rest = text
        .strip_prefix("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=")
        .unwrap();
    let (names, signature) = rest.split_once(", Signature=").unwrap();
    (names.to_owned(), signature.to_owned())
}

fn body_of(given: &[(&str, &str)]) -> &'static [u8] {
    let is_form = given.iter().any(|(name, _)| *name == "content-type");
    if is_form { b"Param1=value1" } else { b"" }
}

/// Names and signatures are those of the suite's cases.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn requests_of_awss_suite_are_signed_as_there() {
    let form: &[_] = &[("content-type", "application/x-www-form-urlencoded")];
    for (case, method, path, given, token, names, signature) in [
        (
            "get-vanilla",
            "GET",
            "/",
            &[][..],
            "",
            "host;x-amz-date",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            "get-vanilla-query-order-key-case",
            "GET",
            "/?Param2=value2&Param1=value1",
            &[],
            "",
            "host;x-amz-date",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "get-vanilla-utf8-query",
            "GET",
            "/?%E1%88%B4=bar",
            &[],
            "",
            "host;x-amz-date",
            "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
        ),
        (
            "get-unreserved",
            "GET",
            "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            &[],
            "",
            "host;x-amz-date",
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
        ),
        (
            "get-header-value-trim",
            "GET",
            "/",
            &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")],
            "",
            "host;my-header1;my-header2;x-amz-date",
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
        (
            "post-vanilla",
            "POST",
            "/",
            &[],
            "",
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "post-header-value-case",
            "POST",
            "/",
            &[("my-header1", "VALUE1")],
            "",
            "host;my-header1;x-amz-date",
            "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
        ),
        (
            "post-x-www-form-urlencoded",
            "POST",
            "/",
            form,
            "",
            "content-type;host;x-amz-date",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        (
            "post-sts-header-before",
            "POST",
            "/",
            &[],
            TOKEN,
            "host;x-amz-date;x-amz-security-token",
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
        ),
    ] {
        let made = signed(method, path, given, token);
        assert_eq!(made, (names.to_owned(), signature.to_owned()), "{case}");
    }
}

fn client(variables: &[(&str, String)]) -> ClientConfig {
    let find = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    };
    ClientConfig {
        aws: AwsEnvironment::read(find),
        ..ClientConfig::default()
    }
}

async fn id_of(client: &ClientConfig, config: &SigV4Config) -> String {
    let signer = SigV4::new(client, config).unwrap();
    signer.provider.credentials(NOW_MS).await.unwrap().id
}

#[tokio::test]
async fn credentials_are_the_configured_else_those_of_the_environment_or_a_file() {
    let dir = narthex_testkit::TempDir::new("sigv4");
    let file = dir.write(
        "credentials",
        "[default]\naws_access_key_id = D\naws_secret_access_key = d\n\n[other]\naws_access_key_id=O\naws_secret_access_key=o\n",
    );
    let path = ("AWS_SHARED_CREDENTIALS_FILE", file.display().to_string());
    let keys = [
        ("AWS_ACCESS_KEY_ID", "E".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "e".to_owned()),
    ];
    let region = ("AWS_REGION", "eu-1".to_owned());
    let from_file = client(&[path.clone(), region.clone()]);
    let [id, secret] = keys.clone();
    let from_both = client(&[path, region, id, secret]);
    let mut config = SigV4Config::default();
    assert_eq!(id_of(&from_file, &config).await, "D");
    assert_eq!(id_of(&from_both, &config).await, "E");
    config.profile = "other".to_owned();
    assert_eq!(id_of(&from_both, &config).await, "O");
    config.access_key = "C".to_owned();
    config.secret_key = Secret::new("c");
    assert_eq!(id_of(&from_both, &config).await, "C");

    let refused = |config: &SigV4Config, client: &ClientConfig| {
        SigV4::new(client, config).unwrap_err().to_string()
    };
    let nowhere = client(&[("AWS_EC2_METADATA_DISABLED", "true".to_owned())]);
    assert!(refused(&config, &nowhere).starts_with("region not configured"));
    let bare = SigV4Config {
        region: "eu-1".to_owned(),
        ..SigV4Config::default()
    };
    let said = refused(&bare, &nowhere);
    assert!(
        said.starts_with("could not get SigV4 credentials"),
        "{said}"
    );
    let missing = SigV4Config {
        profile: "none".to_owned(),
        ..SigV4Config::default()
    };
    let said = refused(&missing, &from_file);
    assert!(
        said.ends_with("failed to get shared config profile, none"),
        "{said}"
    );
}
