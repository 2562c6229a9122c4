//! Keys of remote ends and of OTLP.

use super::{Kind, RELABEL, Section, THERE, http, key};

#[rustfmt::skip]
pub(super) static WRITE: Section = Section {
    name: "remote_write",
    about: "Where samples are sent.",
    parts: &[
        &[
            key("url", Kind::Url, "", "Where to send them.").always(),
            key("remote_timeout", Kind::Period, "30s", "Longest time of a request."),
            key("headers", Kind::Labels, "", "Headers to send."),
            key("write_relabel_configs", Kind::Sections(&RELABEL), "", "Rules for series."),
            key("name", Kind::Text, "", "Its name in metrics and logs."),
            key("send_exemplars", Kind::Bool, "", "Whether to send exemplars."),
            key("send_native_histograms", Kind::Bool, "", "Whether to send native histograms."),
            key("round_robin_dns", Kind::Bool, "", "Whether to take all addresses of the host in turn."),
            key("protobuf_message", Kind::Text, "prometheus.WriteRequest", "prometheus.WriteRequest or io.prometheus.write.v2.Request."),
            key("failed_request_logging", Kind::Bool, "", "Whether to log requests that fail."),
        ],
        http::CLIENT,
        http::PROXY,
        http::HEADERS,
        &[
            key("queue_config", Kind::Section(&QUEUE), THERE, "How samples are queued."),
            key("metadata_config", Kind::Section(&METADATA), THERE, "How metadata is sent."),
            key("sigv4", Kind::Section(&SIGV4), "", "Signing for AWS."),
            key("azuread", Kind::Any, "", "Authentication with Azure AD."),
            key("google_iam", Kind::Any, "", "Authentication with Google IAM."),
            key("convert_nhcb_to_classic", Kind::Bool, "", "Whether to send classic histograms for native ones with custom buckets."),
        ],
    ],
};

#[rustfmt::skip]
static QUEUE: Section = Section {
    name: "queue_config",
    about: "How samples are queued.",
    parts: &[&[
        key("capacity", Kind::Number, "10000", "Samples a shard holds."),
        key("max_shards", Kind::Number, "50", "Most shards."),
        key("min_shards", Kind::Number, "1", "Least shards."),
        key("max_samples_per_send", Kind::Number, "2000", "Most samples of a request."),
        key("batch_send_deadline", Kind::Period, "5s", "Longest time a sample waits for others."),
        key("min_backoff", Kind::Period, "30ms", "First pause after a failure."),
        key("max_backoff", Kind::Period, "5s", "Longest pause."),
        key("retry_on_http_429", Kind::Bool, "", "Whether to try again when told to slow down."),
        key("sample_age_limit", Kind::Period, "", "Age from which samples are not sent."),
    ]],
};

#[rustfmt::skip]
static METADATA: Section = Section {
    name: "metadata_config",
    about: "How metadata is sent.",
    parts: &[&[
        key("send", Kind::Bool, "true", "Whether to send it.").always(),
        key("send_interval", Kind::Period, "1m", "How often.").always(),
        key("max_samples_per_send", Kind::Number, "2000", "Most entries of a request."),
    ]],
};

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
pub(super) static READ: Section = Section {
    name: "remote_read",
    about: "Where more samples are read from.",
    parts: &[
        &[
            key("url", Kind::Url, "", "Whom to ask.").always(),
            key("remote_timeout", Kind::Period, "1m", "Longest time of a request."),
            key("chunked_read_limit", Kind::Count, "50000000", "Largest frame of an answer."),
            key("headers", Kind::Labels, "", "Headers to send."),
            key("read_recent", Kind::Bool, "", "Whether to ask for times that storage covers."),
            key("name", Kind::Text, "", "Its name in metrics and logs."),
        ],
        http::CLIENT,
        http::PROXY,
        http::HEADERS,
        &[
            key("required_matchers", Kind::Labels, "", "Labels a selector must have to be sent."),
            key("filter_external_labels", Kind::Bool, "true", "Whether to ask with the external labels."),
        ],
    ],
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
