//! Keys of remote ends: remote write, OTLP, and signing for AWS.

use super::{Key, KeyKind, NOT_HERE, RELABEL, Section, THERE, http, key, section};

#[rustfmt::skip]
pub(super) static REMOTE_WRITE: Section = section("remote_write", "A remote end that gets every sample. What waits for it is in a queue on disk.", &[
    REMOTE_WRITE_OWN,
    http::CLIENT,
    http::NO_HTTP2,
    http::PROXY,
    http::HEADERS,
    REMOTE_WRITE_QUEUE,
]);

#[rustfmt::skip]
static REMOTE_WRITE_OWN: &[Key] = &[
    key("url", KeyKind::Url, "", "URL of the endpoint."),
    key("remote_timeout", KeyKind::Period, "30s", "Timeout of a request."),
    key("headers", KeyKind::Labels, "", "Additional request headers."),
    key("write_relabel_configs", KeyKind::Sections(&RELABEL), "", "Relabelling rules for series, after external labels."),
    key("name", KeyKind::Text, "", "Name in metrics and logs, and of the queue; the queue of a remote end without one belongs to its URL."),
    key("send_exemplars", KeyKind::Bool, "", "Whether to send exemplars."),
    key("send_native_histograms", KeyKind::Bool, "", "Whether to send native histograms in messages of version 1.0; those of 2.0 always have them."),
    key("round_robin_dns", KeyKind::Bool, "", "Whether each connection begins with another of the name's addresses."),
    key("protobuf_message", KeyKind::Text, "prometheus.WriteRequest", "prometheus.WriteRequest for version 1.0, io.prometheus.write.v2.Request for 2.0, which falls back to 1.0."),
    key("disable_frames", KeyKind::Bool, "", "Whether a remote end that offers to take frames, as ours do, is sent messages nevertheless. Not a key of Prometheus."),
    key("failed_request_logging", KeyKind::Bool, "", "Whether failed requests are logged.").no_effect("the reason of failed requests is always logged"),
];

#[rustfmt::skip]
static REMOTE_WRITE_QUEUE: &[Key] = &[
    key("queue_config", KeyKind::Section(&QUEUE), THERE, "The queue."),
    key("metadata_config", KeyKind::Section(&METADATA), THERE, "Metadata, in messages of version 1.0; those of 2.0 always have it."),
    key("sigv4", KeyKind::Section(&SIGV4), "", "Signing for AWS."),
    key("azuread", KeyKind::Section(&AZUREAD), "", "Tokens of Azure AD."),
    key("google_iam", KeyKind::Section(&GOOGLE_IAM), "", "Tokens of Google Cloud."),
];

#[rustfmt::skip]
static QUEUE: Section = section("queue_config", "How the queue of a remote end is kept and sent.", &[&[
    key("capacity", KeyKind::Number, "10000", "Samples that may wait in memory per shard."),
    key("max_shards", KeyKind::Number, "50", "Maximum number of concurrent requests."),
    key("min_shards", KeyKind::Number, "1", "Minimum number of concurrent requests."),
    key("max_samples_per_send", KeyKind::Number, "2000", "Maximum number of samples per request."),
    key("batch_send_deadline", KeyKind::Period, "5s", "Maximum time that a sample waits for others."),
    key("min_backoff", KeyKind::Period, "30ms", "Pause after the first failure; it doubles with each."),
    key("max_backoff", KeyKind::Period, "5s", "Maximum pause."),
    key("retry_on_http_429", KeyKind::Bool, "", "Whether requests answered with 429 are repeated."),
    key("sample_age_limit", KeyKind::Period, "", "Age from which samples are dropped; 0 means never."),
    key("max_disk_size", KeyKind::Size, "", "Maximum size of the queue on disk, 1GiB if absent; beyond it, the oldest samples are dropped. Not a key of Prometheus."),
    key("fresh_first", KeyKind::Bool, "", "Whether samples that waited since an outage are sent beside new ones instead of before them. Not a key of Prometheus."),
]]);

#[rustfmt::skip]
static METADATA: Section = section("metadata_config", "How metadata is sent in messages of version 1.0.", &[&[
    key("send", KeyKind::Bool, "true", "Whether to send metadata.").always(),
    key("send_interval", KeyKind::Period, "1m", "How often to send it.").always(),
    key("max_samples_per_send", KeyKind::Number, "2000", "Maximum number of families per request."),
]]);

#[rustfmt::skip]
pub(super) static SIGV4: Section = section("sigv4", "Signing for AWS (Signature Version 4), in `remote_write`. Keys and tokens that are not here come from the environment and files as AWS' tools read them.", &[&[
    key("region", KeyKind::Text, "", "Region."),
    key("access_key", KeyKind::Text, "", "Access key."),
    key("secret_key", KeyKind::Secret, "", "Its secret."),
    key("profile", KeyKind::Text, "", "Profile."),
    key("role_arn", KeyKind::Text, "", "Role to assume."),
    key("external_id", KeyKind::Text, "", "External ID of the role."),
    key("session_name", KeyKind::Text, "", "Session name of the role."),
    key("tags", KeyKind::Labels, "", "Tags of the role's session."),
    key("use_fips_sts_endpoint", KeyKind::Bool, "", "Whether to request tokens from the FIPS endpoint."),
    key("service_name", KeyKind::Text, "", "Service name in the signature."),
]]);

#[rustfmt::skip]
static AZUREAD: Section = section("azuread", "Tokens of Azure AD: one of `managed_identity`, `workload_identity` and `oauth`.", &[&[
    key("managed_identity", KeyKind::Section(&MANAGED_IDENTITY), "", "The machine's identity."),
    key("workload_identity", KeyKind::Section(&WORKLOAD_IDENTITY), "", "The pod's identity."),
    key("oauth", KeyKind::Section(&AZURE_OAUTH), "", "An application with a secret."),
    key("sdk", KeyKind::Any, "", "Whatever identity Azure's tools find.").refused(NOT_HERE),
    key("certificate", KeyKind::Any, "", "An application with a certificate.").refused(NOT_HERE),
    key("cloud", KeyKind::Text, "AzurePublic", "AzurePublic, AzureGovernment or AzureChina."),
    key("scope", KeyKind::Text, "", "Scope of the tokens; that of the cloud's monitoring service if absent."),
]]);

#[rustfmt::skip]
static GOOGLE_IAM: Section = section("google_iam", "Tokens of Google Cloud, for its managed Prometheus.", &[&[
    key("credentials_file", KeyKind::Path, "", "File of a service account; the application default credentials, or those of the machine, if absent."),
]]);

#[rustfmt::skip]
static MANAGED_IDENTITY: Section = section("managed_identity", "The identity of an Azure machine.", &[&[key("client_id", KeyKind::Text, "", "The client of a user-assigned identity.")]]);

#[rustfmt::skip]
static WORKLOAD_IDENTITY: Section = section("workload_identity", "The identity of a pod.", &[&[
    key("client_id", KeyKind::Text, "", "The client."),
    key("tenant_id", KeyKind::Text, "", "The tenant."),
    key("token_file_path", KeyKind::Path, "", "File with the pod's token; where the environment says if absent."),
]]);

#[rustfmt::skip]
static AZURE_OAUTH: Section = section("azuread_oauth", "An application of Azure AD.", &[&[
    key("client_id", KeyKind::Text, "", "The client."),
    key("client_secret", KeyKind::Secret, "", "Its secret."),
    key("tenant_id", KeyKind::Text, "", "The tenant."),
]]);

#[rustfmt::skip]
pub(super) static OTLP: Section = section("otlp", "How OTLP metrics are translated into series.", &[&[
    key("promote_all_resource_attributes", KeyKind::Bool, "", "Whether all resource attributes become labels."),
    key("promote_resource_attributes", KeyKind::Texts, "", "Resource attributes that become labels."),
    key("ignore_resource_attributes", KeyKind::Texts, "", "Resource attributes excluded when all others become labels."),
    key("translation_strategy", KeyKind::Text, "UnderscoreEscapingWithSuffixes", "How names are translated."),
    key("keep_identifying_resource_attributes", KeyKind::Bool, "", "Whether identifying attributes such as service.name stay in target_info."),
    key("convert_histograms_to_nhcb", KeyKind::Bool, "", "Whether histograms are converted to native ones with custom buckets."),
    key("promote_scope_metadata", KeyKind::Bool, "", "Whether scope metadata becomes labels."),
    key("label_name_underscore_sanitization", KeyKind::Bool, "true", "Whether names that begin with _ are prefixed with key_."),
    key("label_name_preserve_multiple_underscores", KeyKind::Bool, "true", "Whether consecutive underscores are preserved."),
]]);
