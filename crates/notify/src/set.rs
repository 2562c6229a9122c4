//! One entry of `alertmanagers`: the Alertmanagers that discovery finds for it, each with its loop.
//!
//! **Invariant:** an Alertmanager that is found again keeps its queue; one that is gone gets what waits for it.

use crate::{
    alertmanager::{Discovered, discovered},
    config::{AlertmanagerConfig, NotifierOptions},
    encode,
    post::{HttpPost, Sender},
    send_loop::{Encoded, SendLoop},
};
use narthex_discovery::TargetGroup;
use narthex_model::{LabelSet, relabel, storage::Budget, sync::Whole as _};
use narthex_net::Url;
use narthex_rules::Alert;
use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Starts a loop.
pub(crate) type StartLoop<'a> = &'a dyn Fn(Arc<SendLoop>, HttpPost);

/// An alert with its labels for all sets, encoded when the first set needs it.
pub(crate) struct Outgoing {
    pub(crate) alert: Alert,
    pub(crate) labels: LabelSet,
    /// `None` inside if there was no memory for it.
    pub(crate) encoded: OnceCell<Option<Arc<Encoded>>>,
}

impl Outgoing {
    fn encoded(&self, memory: &Budget) -> Option<Arc<Encoded>> {
        let encoded = self
            .encoded
            .get_or_init(|| encoded(&self.alert, &self.labels, memory));
        encoded.clone()
    }
}

fn encoded(alert: &Alert, labels: &LabelSet, memory: &Budget) -> Option<Arc<Encoded>> {
    let json = encode::encode(alert, labels);
    let bytes = json.capacity() + size_of::<Encoded>();
    let lease = memory.lease(bytes as u64).ok()?;
    Some(Arc::new(Encoded {
        json,
        _lease: lease,
    }))
}

/// Alertmanagers with common settings.
pub(crate) struct AlertmanagerSet {
    /// Name of its discovery.
    pub(crate) name: String,
    pub(crate) config: AlertmanagerConfig,
    sender: Sender,
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    /// By URL, sorted.
    active: BTreeMap<String, Arc<SendLoop>>,
    dropped: Vec<String>,
    /// What discovery said last.
    groups: Vec<Arc<TargetGroup>>,
    is_closed: bool,
}

impl AlertmanagerSet {
    pub(crate) fn new(name: String, config: AlertmanagerConfig, sender: Sender) -> Self {
        Self {
            name,
            config,
            sender,
            members: Mutex::default(),
        }
    }

    /// Makes the members those of `groups`.
    pub(crate) fn sync(
        &self,
        groups: &[Arc<TargetGroup>],
        options: &Arc<NotifierOptions>,
        start: StartLoop<'_>,
    ) {
        let (found, dropped) = self.resolve(groups);
        let mut members = self.members.lock().whole();
        if members.is_closed {
            return;
        }
        members.dropped = dropped;
        members.groups = groups.to_vec();
        let mut before = std::mem::take(&mut members.active);
        for (text, url) in found {
            let known = before.remove(&text);
            let send_loop = known.unwrap_or_else(|| {
                let made = Arc::new(SendLoop::new(&text, Arc::clone(options)));
                let post = HttpPost::new(self.sender.clone(), url, self.config.timeout);
                start(Arc::clone(&made), post);
                made
            });
            members.active.insert(text, send_loop);
        }
        drop(members);
        for gone in before.values() {
            gone.close();
        }
    }

    /// Returns the Alertmanagers of groups by URL, and the URLs of those that relabelling dropped.
    fn resolve(&self, groups: &[Arc<TargetGroup>]) -> (BTreeMap<String, Url>, Vec<String>) {
        let (mut found, mut dropped) = (BTreeMap::new(), Vec::new());
        for group in groups {
            for target in &group.targets {
                match discovered(&self.config, target, &group.labels) {
                    Discovered::Active(url) => {
                        found.insert(url.as_str().to_owned(), url);
                    }
                    Discovered::Dropped(url) => dropped.push(url),
                    Discovered::Invalid(err) => {
                        let source = &group.source;
                        tracing::error!(source, err, "Creating discovered Alertmanagers failed");
                    }
                }
            }
        }
        (found, dropped)
    }

    /// Queues alerts for every member.
    pub(crate) fn send(&self, alerts: &[Outgoing], memory: &Budget) {
        let loops = self.loops();
        if loops.is_empty() {
            return;
        }
        let (mut ready, mut refused) = (Vec::with_capacity(alerts.len()), 0);
        for outgoing in alerts {
            let Some(labels) = self.own_labels(&outgoing.labels) else {
                continue;
            };
            let made = if *labels == outgoing.labels {
                outgoing.encoded(memory)
            } else {
                encoded(&outgoing.alert, &labels, memory)
            };
            match made {
                Some(encoded) => ready.push(encoded),
                None => refused += 1,
            }
        }
        for one in loops {
            one.drop_alerts(refused, "there is no memory for them");
            if !ready.is_empty() {
                one.add(&ready);
            }
        }
    }

    /// Returns an alert's labels after this set's own relabelling.
    fn own_labels<'a>(&self, labels: &'a LabelSet) -> Option<Cow<'a, LabelSet>> {
        let rules = &self.config.alert_relabel_configs;
        if rules.is_empty() {
            return Some(Cow::Borrowed(labels));
        }
        relabel::process(labels, rules).map(Cow::Owned)
    }

    pub(crate) fn loops(&self) -> Vec<Arc<SendLoop>> {
        let members = self.members.lock().whole();
        members.active.values().cloned().collect()
    }

    /// Returns what discovery said last.
    pub(crate) fn groups(&self) -> Vec<Arc<TargetGroup>> {
        self.members.lock().whole().groups.clone()
    }

    /// Returns the URLs of members, and of those that relabelling dropped.
    pub(crate) fn urls(&self) -> (Vec<String>, Vec<String>) {
        let members = self.members.lock().whole();
        let active = members.active.keys().cloned().collect();
        (active, members.dropped.clone())
    }

    /// Ends all loops; the set has no members from here on.
    pub(crate) fn close(&self) {
        let mut members = self.members.lock().whole();
        members.is_closed = true;
        let active = std::mem::take(&mut members.active);
        drop(members);
        for one in active.values() {
            one.close();
        }
    }
}
