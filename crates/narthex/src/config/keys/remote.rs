//! Keys of OTLP, and of signing for AWS.

use super::{Kind, Section, key};

#[rustfmt::skip]
pub(super) static SIGV4: Section = Section {
    name: "sigv4",
    about: "Signing for AWS.",
    parts: &[&[
        key("region", Kind::Text, "", "Region."),
        key("access_key", Kind::Text, "", "Key."),
        key("secret_key", Kind::Secret, "", "Its secret."),
        key("profile", Kind::Text, "", "Profile."),
        key("role_arn", Kind::Text, "", "Role to assume."),
        key("external_id", Kind::Text, "", "External id of the role."),
        key("use_fips_sts_endpoint", Kind::Bool, "", "Whether to ask the FIPS endpoint for tokens."),
        key("service_name", Kind::Text, "", "Service that is signed for."),
    ]],
};

#[rustfmt::skip]
pub(super) static OTLP: Section = Section {
    name: "otlp",
    about: "How OTLP becomes series.",
    parts: &[&[
        key("promote_all_resource_attributes", Kind::Bool, "", "Whether all attributes of a resource become labels."),
        key("promote_resource_attributes", Kind::Texts, "", "Attributes of a resource that become labels."),
        key("ignore_resource_attributes", Kind::Texts, "", "Attributes that do not, when all others do."),
        key("translation_strategy", Kind::Text, "UnderscoreEscapingWithSuffixes", "How names are translated."),
        key("keep_identifying_resource_attributes", Kind::Bool, "", "Whether service.name and its kin stay in target_info."),
        key("convert_histograms_to_nhcb", Kind::Bool, "", "Whether histograms become native ones with custom buckets."),
        key("promote_scope_metadata", Kind::Bool, "", "Whether the scope's metadata becomes labels."),
        key("label_name_underscore_sanitization", Kind::Bool, "true", "Whether names that begin with _ get key_ in front."),
        key("label_name_preserve_multiple_underscores", Kind::Bool, "true", "Whether underscores in a row stay."),
    ]],
};
