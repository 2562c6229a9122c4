//! The gateway's own gauges for each group.
//!
//! **Invariant:** nobody else's families have their names: pushed ones are left out.

use crate::state::State;

/// A gauge that tells something about a group.
pub(crate) struct GroupGauge {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// Returns its value at a time, in nanoseconds since the Unix epoch; `None` if the group does not have it.
    pub(crate) value: fn(&State, i64) -> Option<f64>,
}

/// Name of the gauge with the time of the last refused push.
pub(crate) const FAILED: &str = "push_failure_time_seconds";
/// Name of the gauge with the time of the last stored push.
pub(crate) const PUSHED: &str = "push_time_seconds";

/// All of them, ordered by name. Of groups whose pushes are not expected only the Pushgateway's are shown.
pub(crate) static GROUP_GAUGES: [GroupGauge; 4] = [
    GroupGauge {
        name: "narthex_push_interval_seconds",
        help: "Longest expected time between pushes to this group.",
        value: |state, _| Some(state.settings.interval_ms? as f64 / 1e3),
    },
    GroupGauge {
        name: "narthex_push_up",
        help: "Whether the last push to this group was stored within one and a half of its expected intervals.",
        value: |state, now_ns| state.is_up(now_ns).map(|is_up| f64::from(u8::from(is_up))),
    },
    GroupGauge {
        name: FAILED,
        help: "Last Unix time when changing this group in the Pushgateway failed.",
        value: |state, _| Some(state.failed_ns as f64 / 1e9),
    },
    GroupGauge {
        name: PUSHED,
        help: "Last Unix time when changing this group in the Pushgateway succeeded.",
        value: |state, _| Some(state.pushed_ns as f64 / 1e9),
    },
];

/// Reports whether a family of this name is the gateway's own.
pub(crate) fn is_own(name: &str) -> bool {
    find(name).is_some()
}

/// Returns the gauge of this name.
pub(crate) fn find(name: &str) -> Option<&'static GroupGauge> {
    GROUP_GAUGES.iter().find(|gauge| gauge.name == name)
}
