//! Services of runit, by the status files of their supervisors.
//!
//! Invariant: a service whose supervisor does not run has no status, and no series.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::rows::Rows;
use crate::sink::Sink;
use crate::{sysdir, table};

pub(crate) struct Runit {
    directory: PathBuf,
    rows: Rows,
}

impl Runit {
    pub(crate) fn new(config: &HostConfig) -> Self {
        Self {
            directory: config.runit_services.clone(),
            rows: Rows::new(),
        }
    }
}

impl Collector for Runit {
    fn collect(&mut self, _ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let names = sysdir::list(&self.directory)?;
        self.rows.begin();
        for name in names {
            let Some(values) = status(&self.directory.join(&name)) else {
                continue;
            };
            let labels = [("service", name.as_str()), ("supervisor", "runit")];
            self.rows.set(&[name.as_bytes()], &values, out, |out| {
                table::add(include_str!("runit.txt"), &labels, out)
            });
        }
        self.rows.end(out);
        Ok(())
    }
}

/// Reads a service's values, by column.
fn status(service: &Path) -> Option<[f64; 4]> {
    /// What runit adds to the seconds since 1970.
    const EPOCH: u64 = 0x4000_0000_0000_000a;
    let mut status = [0; 20];
    let mut file = File::open(service.join("supervise/status")).ok()?;
    file.read_exact(&mut status).ok()?;
    let [seconds @ .., _, _, _, _, _, _, _, _, _, want, _, state] = status;
    let changed = u64::from_be_bytes(seconds)
        .wrapping_sub(EPOCH)
        .cast_signed();
    let is_normally_up = !service.join("supervise/down").exists();
    Some([
        f64::from(state),
        f64::from(u8::from(want == b'u')),
        f64::from(u8::from(is_normally_up)),
        changed as f64,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::tests::Rounds;
    use narthex_testkit::TempDir;

    #[test]
    fn services_with_a_supervisor() {
        let dir = TempDir::new("host-runit");
        let mut status = [0; 20];
        status[..8].copy_from_slice(&(0x4000_0000_0000_000a + 1_500_000_000_u64).to_be_bytes());
        status[17] = b'u';
        status[19] = 1;
        dir.write("web/supervise/status", status);
        status[17] = b'd';
        status[19] = 2;
        dir.write("job/supervise/status", status);
        dir.write("job/supervise/down", "");
        dir.write("torn/supervise/status", &status[..19]);
        dir.write("idle/run", "");
        let config = HostConfig {
            runit_services: dir.path().to_path_buf(),
            ..HostConfig::default()
        };
        let found = Rounds::new(Runit::new(&config)).next();
        let of = |service: &str, values: [&str; 4]| {
            let families = [
                "desired_state",
                "normal_state",
                "state",
                "state_last_change_timestamp_seconds",
            ];
            let lines = families.into_iter().zip(values).map(|(family, value)| {
                format!(
                    "node_service_{family}{{service=\"{service}\",supervisor=\"runit\"}} {value}"
                )
            });
            lines.collect::<Vec<_>>()
        };
        let mut expected = of("web", ["1", "1", "1", "1500000000"]);
        expected.extend(of("job", ["0", "0", "2", "1500000000"]));
        expected.sort();
        assert_eq!(found, Ok(expected));
    }
}
