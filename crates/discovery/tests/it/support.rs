//! A manager with one job, and helpers that wait for its targets.

use std::collections::BTreeMap;
use std::time::Duration;

use narthex_discovery::{ADDRESS_LABEL, Manager, Options, SdConfig, TargetGroup, Targets};
use narthex_net::Stopper;

/// Longer than anything under test takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Running {
    targets: Targets,
    _manager: Manager,
    _stopper: Stopper,
}

pub(crate) fn run(config: SdConfig, options: Options) -> Running {
    let (stopper, stop) = Stopper::new();
    let (manager, targets) = Manager::new("test", options, stop);
    manager.apply(BTreeMap::from([("job".to_owned(), vec![config])]));
    Running {
        targets,
        _manager: manager,
        _stopper: stopper,
    }
}

impl Running {
    /// Waits until the job has exactly these addresses; returns its groups.
    pub(crate) async fn until(&mut self, wanted: &[&str]) -> Vec<TargetGroup> {
        let waiting = async {
            loop {
                let current = self.targets.current();
                let groups: Vec<TargetGroup> = current
                    .get("job")
                    .map(|set| set.iter().map(|group| (**group).clone()).collect())
                    .unwrap_or_default();
                if addresses(&groups) == wanted {
                    return groups;
                }
                self.targets.next().await.expect("running");
            }
        };
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        found.unwrap_or_else(|_late| panic!("never {wanted:?}: {:#?}", self.targets.current()))
    }
}

fn addresses(groups: &[TargetGroup]) -> Vec<&str> {
    let targets = groups.iter().flat_map(|group| &group.targets);
    let mut found: Vec<_> = targets.map(|t| t[ADDRESS_LABEL].as_str()).collect();
    found.sort_unstable();
    found
}
