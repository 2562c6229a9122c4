//! Tests on the fields of certificates written by another implementation.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use super::*;

fn der(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let names = ["a.example", "10.0.0.1", "fe80::1"].map(str::to_owned);
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "o");
    params.distinguished_name.push(DnType::CommonName, "cn");
    change(&mut params);
    let key = KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("signed").der().to_vec()
}

#[test]
fn fields_are_found() {
    let bytes = der(|params| {
        params.not_before = rcgen::date_time_ymd(2000, 2, 29);
        params.not_after = rcgen::date_time_ymd(2060, 1, 1);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
    });
    let certificate = Certificate::parse(&bytes).expect("well formed");
    assert_eq!(certificate.version, 3);
    assert_eq!(certificate.common_name.as_deref(), Some("cn"));
    assert_eq!(certificate.subject, certificate.issuer);
    // 2000-02-29 and 2060-01-01, one with a two-digit year, the other with four digits.
    assert_eq!(certificate.not_before, 951_782_400);
    assert_eq!(certificate.not_after, 2_840_140_800);
    let constraints = certificate.basic_constraints.expect("an authority's");
    assert!(constraints.is_authority && constraints.path_length.is_none());
    assert!(certificate.allows(SERVER_AUTH) && certificate.allows(CLIENT_AUTH));
    assert!(certificate.name_constraints.is_none() && !certificate.has_unhandled);
    let names = certificate.names.expect("there are some");
    assert_eq!(names.dns, ["a.example"]);
    let addresses: Vec<_> = names.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.0.0.1", "fe80::1"]);
    for end in 0..bytes.len() {
        assert_eq!(Certificate::parse(&bytes[..end]), None, "{end}");
    }
}

#[test]
fn usage_is_open_unless_it_is_said() {
    let open = der(|_| {});
    assert!(
        Certificate::parse(&open)
            .expect("well formed")
            .allows(SERVER_AUTH)
    );
    let clients = der(|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    let clients = Certificate::parse(&clients).expect("well formed");
    assert!(!clients.allows(SERVER_AUTH) && clients.allows(CLIENT_AUTH));
    let any = der(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any]);
    assert!(
        Certificate::parse(&any)
            .expect("well formed")
            .allows(SERVER_AUTH)
    );
}

#[test]
fn times_follow_the_calendar() {
    for (tag, text, want) in [
        (0x17, "700101000000Z", Some(0)),
        (0x17, "691231235959Z", Some(-1)),
        (0x17, "000301000000Z", Some(951_868_800)),
        (0x18, "21000301000000Z", Some(4_107_542_400)),
        // RFC 5280's "for ever".
        (0x18, "99991231235959Z", Some(253_402_300_799)),
        (0x17, "700230000000Z", None),
        (0x17, "700101000060Z", None),
        (0x17, "7001010000Z", None),
        (0x17, "70010100000+Z", None),
    ] {
        let element = [&[tag, text.len() as u8], text.as_bytes()].concat();
        assert_eq!(Reader(&element).time(), want, "{text}");
    }
}

/// Go refuses a certificate whose key identifiers are marked critical, or are none.
#[test]
fn key_identifiers_are_read_and_never_critical() {
    let of = |id: u64, value: &[u8], critical: bool| {
        let extension = |params: &mut CertificateParams| {
            let mut own = rcgen::CustomExtension::from_oid_content(&[2, 5, 29, id], value.to_vec());
            own.set_criticality(critical);
            params.custom_extensions = vec![own];
        };
        der(extension)
    };
    let own = of(14, &[4, 2, 7, 8], false);
    let certificate = Certificate::parse(&own).expect("well formed");
    assert_eq!(
        (certificate.key_id, certificate.issuer_key_id),
        (&[7, 8][..], &[][..])
    );
    let issuers = of(35, &[0x30, 4, 0x80, 2, 7, 8], false);
    let certificate = Certificate::parse(&issuers).expect("well formed");
    assert_eq!(
        (certificate.key_id, certificate.issuer_key_id),
        (&[][..], &[7, 8][..])
    );
    // An issuer may be named by its issuer and serial number instead.
    let named = of(35, &[0x30, 3, 0x82, 1, 5], false);
    let certificate = Certificate::parse(&named).expect("well formed");
    assert!(certificate.issuer_key_id.is_empty());
    for (id, value, critical) in [
        (14, &[4, 2, 7, 8][..], true),
        (35, &[0x30, 4, 0x80, 2, 7, 8], true),
        (14, &[4, 3, 7, 8], false),
        (35, &[0x30, 4, 0x80, 3, 7, 8], false),
        (35, &[4, 1, 7], false),
    ] {
        let bytes = of(id, value, critical);
        assert_eq!(
            Certificate::parse(&bytes),
            None,
            "{id} {value:?} {critical}"
        );
    }
}
