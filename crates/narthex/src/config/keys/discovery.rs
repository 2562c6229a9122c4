//! Keys of service discovery.

use super::{Key, KeyKind, NOT_HERE, Section, http, key, section};

const EVERY_5M: &str = "5m";

#[rustfmt::skip]
pub(crate) static STATIC: Section = section("static_config", "Targets listed here.", &[&[
    key("targets", KeyKind::Texts, "", "Targets, as host:port.").always(),
    key("labels", KeyKind::Labels, "", "Labels added to every target."),
]]);

#[rustfmt::skip]
pub(crate) static FILE: Section = section("file_sd_config", "Targets read from files, which may change.", &[&[
    key("files", KeyKind::Paths, "", "Files ending in .json, .yml or .yaml; the file name may contain a *.").always(),
    key("refresh_interval", KeyKind::Period, EVERY_5M, "Interval at which the files are reread even without a change event."),
]]);

#[rustfmt::skip]
pub(crate) static HTTP: Section = section("http_sd_config", "Targets returned by a URL.", &[
    http::CLIENT,
    http::HTTP2,
    http::PROXY,
    http::HEADERS,
    &[
        key("refresh_interval", KeyKind::Period, "1m", "Refresh interval."),
        key("url", KeyKind::Text, "", "URL that returns the targets.").always(),
    ],
]);

#[rustfmt::skip]
pub(crate) static DNS: Section = section("dns_sd_config", "Targets discovered through DNS.", &[&[
    key("names", KeyKind::Texts, "", "Names to look up.").always(),
    key("refresh_interval", KeyKind::Period, "30s", "Refresh interval."),
    key("type", KeyKind::Text, "SRV", "Record type: SRV, A, AAAA, MX or NS.").always(),
    key("port", KeyKind::Number, "0", "Port of the targets; SRV records contain their own.").always(),
]]);

#[rustfmt::skip]
pub(crate) static KUBERNETES: Section = section("kubernetes_sd_config", "Targets discovered through the Kubernetes API.", &[
    &[
        key("api_server", KeyKind::Url, "", "URL of the API; defaults to that of the pod's service account."),
        key("role", KeyKind::Text, "", "node, pod, service, endpoints, endpointslice or ingress.").always(),
        key("kubeconfig_file", KeyKind::Path, "", "Kubeconfig file with the API's URL and credentials.").always(),
    ],
    http::CLIENT,
    http::HTTP2,
    http::PROXY,
    http::HEADERS,
    &[
        key("namespaces", KeyKind::Section(&NAMESPACES), "", "Namespaces to watch; all if empty."),
        key("selectors", KeyKind::Sections(&SELECTOR), "", "Selectors for objects."),
        key("attach_metadata", KeyKind::Section(&ATTACH), "", "Related objects whose labels are attached to targets."),
    ],
]);

#[rustfmt::skip]
static NAMESPACES: Section = section("namespaces", "Namespaces to watch.", &[&[
    key("own_namespace", KeyKind::Bool, "false", "Whether to watch the namespace of this process's pod.").always(),
    key("names", KeyKind::Texts, "", "Names of namespaces.").always(),
]]);

#[rustfmt::skip]
static SELECTOR: Section = section("selector", "Selectors for the objects of a role.", &[&[
    key("role", KeyKind::Text, "", "Role."),
    key("label", KeyKind::Text, "", "Label selector."),
    key("field", KeyKind::Text, "", "Field selector."),
]]);

#[rustfmt::skip]
static ATTACH: Section = section("attach_metadata", "Related objects whose labels are attached to targets.", &[&[
    key("node", KeyKind::Bool, "false", "Labels and annotations of the node.").always(),
    key("namespace", KeyKind::Bool, "false", "Labels and annotations of the namespace.").always(),
    key("deployment", KeyKind::Bool, "false", "Name of the deployment.").always(),
    key("job", KeyKind::Bool, "false", "Name of the job.").always(),
    key("cronjob", KeyKind::Bool, "false", "Name of the cron job.").always(),
]]);

/// Returns the key of a mechanism that Prometheus has and this version lacks.
const fn not_built(name: &'static str) -> Key {
    key(name, KeyKind::Any, "", "").refused(NOT_HERE)
}

/// All mechanisms, in Prometheus' order.
#[rustfmt::skip]
pub(super) static MECHANISMS: &[Key] = &[
    not_built("aws_sd_configs"),
    not_built("azure_sd_configs"),
    not_built("consul_sd_configs"),
    not_built("digitalocean_sd_configs"),
    key("dns_sd_configs", KeyKind::Sections(&DNS), "", "Targets discovered through DNS."),
    not_built("docker_sd_configs"),
    not_built("dockerswarm_sd_configs"),
    not_built("ec2_sd_configs"),
    not_built("eureka_sd_configs"),
    key("file_sd_configs", KeyKind::Sections(&FILE), "", "Targets read from files, which may change."),
    not_built("gce_sd_configs"),
    not_built("hetzner_sd_configs"),
    key("http_sd_configs", KeyKind::Sections(&HTTP), "", "Targets returned by a URL."),
    not_built("ionos_sd_configs"),
    key("kubernetes_sd_configs", KeyKind::Sections(&KUBERNETES), "", "Targets discovered through the Kubernetes API."),
    not_built("kuma_sd_configs"),
    not_built("lightsail_sd_configs"),
    not_built("linode_sd_configs"),
    not_built("marathon_sd_configs"),
    not_built("nerve_sd_configs"),
    not_built("nomad_sd_configs"),
    not_built("oci_sd_configs"),
    not_built("openstack_sd_configs"),
    not_built("outscale_sd_configs"),
    not_built("ovhcloud_sd_configs"),
    not_built("puppetdb_sd_configs"),
    not_built("scaleway_sd_configs"),
    not_built("serverset_sd_configs"),
    not_built("stackit_sd_configs"),
    key("static_configs", KeyKind::Sections(&STATIC), "", "Targets listed here."),
    not_built("triton_sd_configs"),
    not_built("uyuni_sd_configs"),
    not_built("vultr_sd_configs"),
];
