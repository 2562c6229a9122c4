//! Memory of scraping: pages while they are read and parsed, series for as long as their target has them.
//!
//! **Invariant:** memory is leased before a page or a series uses it. One target gets at most a fraction of the whole,
//! so that a hostile one cannot starve the others.

use crate::metrics;
use narthex_model::storage::{Account, Budget, Lease, OverBudget, Pressure};
use narthex_model::sync::Whole as _;
use narthex_net::Allowance;
use std::{
    collections::HashMap,
    error::Error,
    sync::Mutex,
    time::{Duration, Instant},
};

/// Cost of a new series: its labels, its place in the schema, and the parser's state for it.
const NEW_SERIES_BYTES: u64 = 400;
/// Series that memory is leased for at once.
const SERIES_AT_ONCE: usize = 64;
/// Cost of a column beside its labels, which are shared.
const COLUMN_BYTES: usize = 24;
/// Cost of a new line while its page is parsed.
const NEW_LINE_BYTES: u64 = 48;
/// Bytes of a page that are not counted: most targets' pages are read whatever others use.
const FREE_BYTES: u64 = 256 << 10;
/// New lines of a page that are not counted.
const FREE_LINES: usize = 4096;
/// Smallest plausible size of a protobuf message.
const LEAST_MESSAGE: usize = 16;

/// The memory that scraping may use.
#[derive(Clone, Debug)]
pub struct ScrapeMemory {
    /// Memory of pages, from their first byte until they are stored.
    pub pages: Budget,
    /// Memory of the series of all targets.
    pub series: Budget,
}

impl Default for ScrapeMemory {
    /// Returns unlimited budgets, for tests and tools.
    fn default() -> Self {
        Self {
            pages: Budget::unlimited(),
            series: Budget::unlimited(),
        }
    }
}

impl ScrapeMemory {
    /// Returns the memory of one page: up to half of all pages' memory, beyond what `buffer` already holds.
    pub(crate) fn page(&self, buffer: &Vec<u8>) -> Result<Page, OverBudget> {
        let budget = self.pages.child("the page", self.pages.percent(50));
        Ok(Page {
            lease: budget.lease(0)?,
            free_bytes: FREE_BYTES.max(buffer.capacity() as u64),
            taken_bytes: buffer.capacity() as u64,
            lines_bytes: 0,
        })
    }

    /// Returns the limit on idle buffers.
    pub(crate) fn idle_bytes(&self) -> usize {
        usize::try_from(self.pages.percent(20)).unwrap_or(usize::MAX)
    }
}

/// Memory of one page.
#[derive(Debug)]
pub(crate) struct Page {
    lease: Lease,
    /// Bytes not leased: few, or allocated already.
    free_bytes: u64,
    taken_bytes: u64,
    /// Bytes leased for lines.
    lines_bytes: u64,
}

impl Page {
    /// Resizes to the buffer's capacity.
    ///
    /// # Errors
    /// Fails if the memory is not available.
    pub(crate) fn fit(&mut self, buffer: &Vec<u8>) -> Result<(), OverBudget> {
        self.resize(buffer.capacity() as u64)
    }

    fn resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        self.lease.resize(bytes.saturating_sub(self.free_bytes))?;
        self.taken_bytes = bytes;
        Ok(())
    }

    /// Leases what `lines` lines need while they are parsed; `known` series are remembered from earlier pages.
    ///
    /// # Errors
    /// Fails if the memory is not available.
    pub(crate) fn room_for_lines(&mut self, lines: usize, known: usize) -> Result<(), OverBudget> {
        let new = lines.saturating_sub(known.saturating_add(FREE_LINES));
        let bytes = new as u64 * NEW_LINE_BYTES;
        if bytes > self.lines_bytes {
            self.lease.grow(bytes - self.lines_bytes)?;
            self.lines_bytes = bytes;
        }
        Ok(())
    }

    /// Leases what a page of protobuf messages needs, whose series are not counted one by one.
    ///
    /// # Errors
    /// Fails if the memory is not available.
    pub(crate) fn room_for_messages(
        &mut self,
        body: &[u8],
        known: usize,
    ) -> Result<(), OverBudget> {
        self.room_for_lines(body.len() / LEAST_MESSAGE, known)
    }
}

impl Allowance for Page {
    fn grow(&mut self, bytes: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.resize(self.taken_bytes + bytes as u64)?)
    }

    fn shrink(&mut self, bytes: usize) {
        // Shrinking never fails.
        let _ = self.resize(self.taken_bytes.saturating_sub(bytes as u64));
    }
}

/// Decides which new series of a target are accepted.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The target's part.
    series: Budget,
    held: Account,
    /// Lease of the current page's series until they are counted.
    lease: Option<Lease>,
    /// Series that are paid for.
    paid: usize,
    open: bool,
    /// Whether the last page had refused series.
    refused: bool,
}

impl Admission {
    pub(crate) fn new(memory: &ScrapeMemory) -> Self {
        let part = memory.series.percent(50);
        let series = memory.series.child("one target's series", part);
        Self {
            held: series.account(),
            series,
            lease: None,
            paid: 0,
            open: true,
            refused: false,
        }
    }

    /// Begins a page; reports whether series refused earlier may be accepted this time.
    pub(crate) fn begin(&mut self) -> bool {
        self.open = self.series.pressure() < Pressure::RefuseSeries;
        let again = self.refused && self.open;
        self.refused &= !again;
        again
    }

    /// Decides whether to accept one more series.
    ///
    /// # Errors
    /// Fails if the target exceeds its own limit: its whole page is then refused.
    pub(crate) fn admit(&mut self) -> Result<bool, String> {
        if self.open && self.paid == 0 {
            self.open = self.pay()?;
        }
        if !self.open {
            self.refused = true;
            return Ok(false);
        }
        self.paid -= 1;
        Ok(true)
    }

    /// Leases memory for the next series; reports whether there was enough.
    fn pay(&mut self) -> Result<bool, String> {
        let bytes = SERIES_AT_ONCE as u64 * NEW_SERIES_BYTES;
        let paid = match &mut self.lease {
            Some(lease) => lease.grow(bytes),
            empty => self.series.lease(bytes).map(|lease| *empty = Some(lease)),
        };
        match paid {
            Ok(()) => {
                self.paid = SERIES_AT_ONCE;
                Ok(true)
            }
            Err(over) if *over.budget == *self.series.name() => {
                Err(format!("more series than there is memory for: {over}"))
            }
            Err(_) => Ok(false),
        }
    }

    /// Ends a page: the target's schema and parser are then counted as they are.
    pub(crate) fn end(&mut self, columns: usize, parser_bytes: usize) {
        self.lease = None;
        self.paid = 0;
        self.held
            .set((columns * COLUMN_BYTES + parser_bytes) as u64);
    }
}

/// Minimum time between log lines about one job's series.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// Counts refused series and logs them, rate-limited per job.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<String, Refused>>);

#[derive(Debug, Default)]
struct Refused {
    series: u64,
    at: Option<Instant>,
}

impl Refusals {
    /// Counts the series refused from one page of a job.
    pub(crate) fn note(&self, job: &str, series: usize) {
        metrics::REFUSED_SERIES.with(&[job]).inc_by(series as u64);
        let mut refused = self.0.lock().whole();
        let refused = refused.entry(job.to_owned()).or_default();
        refused.series += series as u64;
        if refused.at.is_none_or(|at| at.elapsed() >= TELL_INTERVAL) {
            tracing::warn!(
                job,
                series = refused.series,
                "New series are left out of scrapes because memory is short."
            );
            *refused = Refused {
                series: 0,
                at: Some(Instant::now()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::storage::PressureLevels;

    fn memory(limit_bytes: u64) -> (Budget, ScrapeMemory) {
        let process = Budget::new("process", limit_bytes);
        let share = |name: &str| process.share(name, process.percent(50), process.percent(75));
        let memory = ScrapeMemory {
            pages: share("pages"),
            series: share("series"),
        };
        (process, memory)
    }

    #[test]
    fn one_target_gets_a_part_and_gives_it_back() {
        let (process, memory) = memory(4 << 20);
        let mut hostile = Admission::new(&memory);
        assert!(!hostile.begin());
        let admitted = (0..).find(|_| hostile.admit().is_err()).unwrap();
        // A quarter of the whole.
        assert_eq!(admitted, (1 << 20) / (64 * 400) * 64);
        let mut other = Admission::new(&memory);
        assert_eq!(other.admit(), Ok(true));
        hostile.end(10, 1000);
        drop(other);
        assert_eq!(process.used_bytes(), 1240);
        drop(hostile);
        assert_eq!(process.used_bytes(), 0);
    }

    #[test]
    fn series_are_refused_under_pressure_and_may_come_again() {
        let (process, memory) = memory(4 << 20);
        let others = process.account();
        let mut admission = Admission::new(&memory);
        others.set(process.percent(80));
        // Before pressure is measured, the lease finds out.
        assert!(!admission.begin());
        assert_eq!(admission.admit(), Ok(false));
        process.observe(&PressureLevels::default(), 0);
        assert!(!admission.begin());
        assert_eq!(admission.admit(), Ok(false));
        others.set(0);
        process.observe(&PressureLevels::default(), 0);
        assert!(admission.begin());
        assert_eq!(admission.admit(), Ok(true));
        assert!(!admission.begin());
    }

    #[test]
    fn pages_lease_what_they_take() {
        let (process, memory) = memory(64 << 20);
        let mut page = memory.page(&Vec::new()).unwrap();
        page.grow(200 << 10).unwrap();
        assert_eq!(process.used_bytes(), 0);
        assert!(page.grow(17 << 20).is_err());
        page.grow(10 << 20).unwrap();
        let body = b"m 1\n".repeat(1 << 20);
        page.fit(&body).unwrap();
        assert_eq!(process.used_bytes(), body.capacity() as u64 - FREE_BYTES);
        let page_bytes = process.used_bytes();
        page.room_for_lines(1 << 20, 1 << 20).unwrap();
        page.room_for_lines(FREE_LINES, 0).unwrap();
        assert_eq!(process.used_bytes(), page_bytes, "few are new");
        page.room_for_lines(FREE_LINES + 2000, 1000).unwrap();
        page.room_for_lines(FREE_LINES + 2000, 1000).unwrap();
        assert_eq!(process.used_bytes(), page_bytes + 1000 * NEW_LINE_BYTES);
        assert!(page.room_for_lines(1 << 20, 0).is_err());
        assert!(page.room_for_messages(&body, 1 << 20).is_ok());
        assert!(page.room_for_messages(&body.repeat(2), 0).is_err());
        drop(page);
        assert_eq!(process.used_bytes(), 0);
    }
}
