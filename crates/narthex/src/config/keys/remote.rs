//! Keys of OTLP, and of signing for AWS.

use super::{KeyKind, Section, key};

#[rustfmt::skip]
pub(super) static SIGV4: Section = Section {
    name: "sigv4",
    about: "Signing for AWS.",
    parts: &[&[
        key("region", KeyKind::Text, "", "Region."),
        key("access_key", KeyKind::Text, "", "Access key."),
        key("secret_key", KeyKind::Secret, "", "Its secret."),
        key("profile", KeyKind::Text, "", "Profile."),
        key("role_arn", KeyKind::Text, "", "Role to assume."),
        key("external_id", KeyKind::Text, "", "External ID of the role."),
        key("use_fips_sts_endpoint", KeyKind::Bool, "", "Whether to request tokens from the FIPS endpoint."),
        key("service_name", KeyKind::Text, "", "Service name in the signature."),
    ]],
};

#[rustfmt::skip]
pub(super) static OTLP: Section = Section {
    name: "otlp",
    about: "How OTLP metrics are translated into series.",
    parts: &[&[
        key("promote_all_resource_attributes", KeyKind::Bool, "", "Whether all resource attributes become labels."),
        key("promote_resource_attributes", KeyKind::Texts, "", "Resource attributes that become labels."),
        key("ignore_resource_attributes", KeyKind::Texts, "", "Resource attributes excluded when all others become labels."),
        key("translation_strategy", KeyKind::Text, "UnderscoreEscapingWithSuffixes", "How names are translated."),
        key("keep_identifying_resource_attributes", KeyKind::Bool, "", "Whether identifying attributes such as service.name stay in target_info."),
        key("convert_histograms_to_nhcb", KeyKind::Bool, "", "Whether histograms are converted to native ones with custom buckets."),
        key("promote_scope_metadata", KeyKind::Bool, "", "Whether scope metadata becomes labels."),
        key("label_name_underscore_sanitization", KeyKind::Bool, "true", "Whether names that begin with _ are prefixed with key_."),
        key("label_name_preserve_multiple_underscores", KeyKind::Bool, "true", "Whether consecutive underscores are preserved."),
    ]],
};
