//! Keys of OTLP, and of signing for AWS.

use super::{KeyKind, Section, key};

#[rustfmt::skip]
pub(super) static SIGV4: Section = Section {
    name: "sigv4",
    about: "Signing for AWS.",
    parts: &[&[
        key("region", KeyKind::Text, "", "Region."),
        key("access_key", KeyKind::Text, "", "Key."),
        key("secret_key", KeyKind::Secret, "", "Its secret."),
        key("profile", KeyKind::Text, "", "Profile."),
        key("role_arn", KeyKind::Text, "", "Role to assume."),
        key("external_id", KeyKind::Text, "", "External id of the role."),
        key("use_fips_sts_endpoint", KeyKind::Bool, "", "Whether to ask the FIPS endpoint for tokens."),
        key("service_name", KeyKind::Text, "", "Service that is signed for."),
    ]],
};

#[rustfmt::skip]
pub(super) static OTLP: Section = Section {
    name: "otlp",
    about: "How OTLP becomes series.",
    parts: &[&[
        key("promote_all_resource_attributes", KeyKind::Bool, "", "Whether all attributes of a resource become labels."),
        key("promote_resource_attributes", KeyKind::Texts, "", "Attributes of a resource that become labels."),
        key("ignore_resource_attributes", KeyKind::Texts, "", "Attributes that do not, when all others do."),
        key("translation_strategy", KeyKind::Text, "UnderscoreEscapingWithSuffixes", "How names are translated."),
        key("keep_identifying_resource_attributes", KeyKind::Bool, "", "Whether service.name and its kin stay in target_info."),
        key("convert_histograms_to_nhcb", KeyKind::Bool, "", "Whether histograms become native ones with custom buckets."),
        key("promote_scope_metadata", KeyKind::Bool, "", "Whether the scope's metadata becomes labels."),
        key("label_name_underscore_sanitization", KeyKind::Bool, "true", "Whether names that begin with _ get key_ in front."),
        key("label_name_preserve_multiple_underscores", KeyKind::Bool, "true", "Whether underscores in a row stay."),
    ]],
};
