//! `uname(2)`: kernel release and host name as labels.
//!
//! Invariant: the system call is made once per refresh; a changed name retires the old series.

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::scan::label_text;
use crate::sink::{Desc, Sink, Slot};

const LABELS: [&str; 6] = [
    "sysname",
    "release",
    "version",
    "machine",
    "nodename",
    "domainname",
];

#[derive(Default)]
pub(crate) struct Uname {
    values: [String; 6],
    slot: Option<Slot>,
}

impl Collector for Uname {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        if ctx.refresh || self.slot.is_none() {
            self.refresh(out);
        }
        if let Some(slot) = self.slot {
            out.set(slot, 1.0);
        }
        Ok(())
    }
}

impl Uname {
    fn refresh(&mut self, out: &mut Sink) {
        let names = rustix::system::uname();
        let values = [
            names.sysname(),
            names.release(),
            names.version(),
            names.machine(),
            names.nodename(),
            names.domainname(),
        ]
        .map(|name| label_text(name.to_bytes()));
        if self.slot.is_some() && values == self.values {
            return;
        }
        out.retire_all(self.slot.take());
        let help = "Labeled system information as provided by the uname system call.";
        let labels: [(&str, &str); 6] = std::array::from_fn(|i| (LABELS[i], values[i].as_str()));
        self.slot = Some(out.add(&Desc::gauge("node_uname_info", help), &labels));
        self.values = values;
    }
}
