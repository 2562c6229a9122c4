//! `dns_sd_configs`: DNS records of names, queried at every interval.
//!
//! Invariant: a name that does not exist has no targets; a name that no server answered keeps those it had.

pub(crate) mod message;
pub(crate) mod record_type;
pub(crate) mod resolver;

use std::path::PathBuf;
use std::sync::Arc;

use narthex_net::StopToken;
use tokio::task::JoinSet;

use crate::config::DnsSdConfig;
use crate::discoverer::{Discoverer, Options, Run, Updates};
use crate::error::DiscoveryError;
use crate::group::{ADDRESS_LABEL, LabelMap, TargetGroup};
use crate::metrics;
use crate::refresh::{Refresh, Round};
use message::Record;

#[derive(Debug)]
pub(crate) struct DnsDiscovery {
    config: Arc<DnsSdConfig>,
    resolv_conf: PathBuf,
    refresh: Refresh,
}

impl DnsDiscovery {
    pub(crate) fn new(config: &DnsSdConfig, job: &str, options: &Options) -> Self {
        Self {
            config: Arc::new(config.clone()),
            resolv_conf: options.resolv_conf.clone(),
            refresh: Refresh {
                mechanism: "dns",
                job: job.to_owned(),
                interval: config.refresh_interval,
            },
        }
    }
}

impl Round for DnsDiscovery {
    /// Queries all names at once. Failed ones are missing from the result.
    async fn round(&mut self) -> Result<Vec<TargetGroup>, DiscoveryError> {
        let mut lookups = JoinSet::new();
        for name in self.config.names.clone() {
            let (config, resolv_conf) = (Arc::clone(&self.config), self.resolv_conf.clone());
            lookups.spawn(async move {
                metrics::DNS_LOOKUPS.inc();
                let answer = resolver::lookup(&name, config.record_type, &resolv_conf).await;
                match answer {
                    Ok(records) => Some(group(&name, &records, config.port)),
                    Err(error) => {
                        metrics::DNS_FAILURES.inc();
                        tracing::error!(%error, name, "Error refreshing DNS targets.");
                        None
                    }
                }
            });
        }
        let mut groups = Vec::new();
        while let Some(done) = lookups.join_next().await {
            groups.extend(done.ok().flatten());
        }
        Ok(groups)
    }
}

impl Discoverer for DnsDiscovery {
    fn run(self: Box<Self>, updates: Updates, stop: StopToken) -> Run {
        Box::pin(self.refresh.clone().run(*self, updates, stop))
    }
}

/// Returns a name's targets, each with every label; labels of other record types are empty.
pub(crate) fn group(name: &str, records: &[Record], port: u16) -> TargetGroup {
    let mut group = TargetGroup::gone(name);
    for record in records {
        let unrooted = |host: &str| host.trim_end_matches('.').to_owned();
        let (mut srv, mut srv_port, mut mx, mut ns) = Default::default();
        let address = match record {
            Record::A(ip) => join_host_port(&ip.to_string(), port),
            Record::Aaaa(ip) => join_host_port(&ip.to_string(), port),
            Record::Srv { target, port } => {
                srv = target.clone();
                srv_port = port.to_string();
                join_host_port(&unrooted(target), *port)
            }
            Record::Mx(host) => {
                mx = host.clone();
                join_host_port(&unrooted(host), port)
            }
            Record::Ns(host) => {
                ns = host.clone();
                join_host_port(&unrooted(host), port)
            }
            // Aliases precede the addresses.
            Record::Cname => continue,
            Record::Other(kind) => {
                tracing::warn!(name, kind, "Invalid record.");
                continue;
            }
        };
        group.targets.push(LabelMap::from(
            [
                (ADDRESS_LABEL, address),
                ("__meta_dns_name", name.to_owned()),
                ("__meta_dns_srv_record_target", srv),
                ("__meta_dns_srv_record_port", srv_port),
                ("__meta_dns_mx_record_target", mx),
                ("__meta_dns_ns_record_target", ns),
            ]
            .map(|(label, value): (&str, String)| (label.to_owned(), value)),
        ));
    }
    group
}

/// Joins host and port as Go does: with brackets if the host contains a colon or a percent sign.
pub(crate) fn join_host_port(host: &str, port: impl std::fmt::Display) -> String {
    if host.contains([':', '%']) {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests;
