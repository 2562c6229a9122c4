//! A discoverer: a mechanism with its settings, which reports the groups it finds.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use narthex_net::{ClientConfig, StopToken};

use crate::group::TargetGroup;

/// Task name that panics of discoverers are counted under.
pub(crate) const TASK: &str = "discovery";
/// A running discoverer.
pub(crate) type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A mechanism with its settings, ready to run.
pub(crate) trait Discoverer: Send {
    /// Reports groups until stopped. A group replaces the previous one with its source.
    fn run(self: Box<Self>, updates: Updates, stop: StopToken) -> Run;
}

/// Receiver of a discoverer's reports. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Updates(Arc<dyn Fn(Vec<TargetGroup>) + Send + Sync>);

impl Updates {
    /// Returns updates that are passed to a function.
    pub(crate) fn to(sink: impl Fn(Vec<TargetGroup>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Reports new or changed groups; a group without targets removes its source.
    pub(crate) fn send(&self, groups: Vec<TargetGroup>) {
        (self.0)(groups);
    }
}

/// Environment of discoverers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Client settings of HTTP and Kubernetes discovery.
    pub client: ClientConfig,
    /// Path of the DNS servers and search domains. `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// Directory of the pod's service account. `/var/run/secrets/kubernetes.io/serviceaccount`.
    pub service_account: PathBuf,
    /// Environment variables `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`.
    pub kubernetes_service: Option<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client: ClientConfig::default(),
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            service_account: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
            kubernetes_service: None,
        }
    }
}
