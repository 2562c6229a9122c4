//! `kubernetes_sd_configs`.

use narthex_net::StopToken;

use crate::config::{KubernetesSdConfig, Selector, invalid};
use crate::error::DiscoveryError;
use crate::manager::{Discoverer, Options, Run, Updates};

#[derive(Debug)]
pub(crate) struct KubernetesDiscovery;

impl KubernetesDiscovery {
    pub(crate) fn new(
        _config: &KubernetesSdConfig,
        _options: &Options,
    ) -> Result<Self, DiscoveryError> {
        Err(invalid("kubernetes_sd_configs are not supported by this version"))
    }
}

impl Discoverer for KubernetesDiscovery {
    fn run(self: Box<Self>, _updates: Updates, _stop: StopToken) -> Run {
        Box::pin(async {})
    }
}

pub(crate) fn check_selector(_selector: &Selector) -> Result<(), DiscoveryError> {
    Ok(())
}
