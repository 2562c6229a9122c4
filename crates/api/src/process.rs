//! Information about the process that the API runs in.

use narthex_client::Visitor;
use narthex_model::storage::Share;

/// Source of information about the process.
pub trait ServerStatus: Send + Sync {
    /// Returns the configuration as YAML, secrets hidden.
    fn config_yaml(&self) -> String;

    /// Lists all flags by name, with their values as text.
    fn flags(&self) -> Vec<(String, String)>;

    /// Returns how the process runs.
    fn runtime(&self) -> RuntimeInfo;

    /// Returns the progress of the WAL replay.
    fn wal_replay(&self) -> WalReplay;

    /// Returns the allocator's heap dump, for [`narthex_profile::heap`].
    ///
    /// # Errors
    /// Returns a sentence that says why there is none.
    fn heap_dump(&self) -> Result<String, String> {
        Err("this server has no heap profiles".to_owned())
    }

    /// Returns how memory is used.
    fn memory(&self) -> MemoryStatus {
        MemoryStatus::default()
    }

    /// Lists the blocks of the storage.
    fn blocks(&self) -> Vec<BlockStatus> {
        Vec::new()
    }

    /// Passes all metrics of this process to `visitor`.
    fn visit_metrics(&self, _visitor: &mut dyn Visitor) {}

    /// Lists features beside those of queries: category, name, whether it is enabled.
    fn features(&self) -> Vec<(&'static str, String, bool)> {
        Vec::new()
    }

    /// Lists the labels that every series gets when it leaves for other servers.
    fn external_labels(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// State of the process.
#[derive(Clone, Debug, Default)]
pub struct RuntimeInfo {
    /// Start time, in milliseconds since the epoch.
    pub start_time_ms: i64,
    /// Working directory.
    pub cwd: String,
    /// Host name.
    pub hostname: String,
    /// Whether the last reload of the configuration succeeded.
    pub reload_config_success: bool,
    /// Time of the last load of the configuration, in milliseconds since the epoch.
    pub last_config_time_ms: i64,
    /// Damaged places found in the WAL.
    pub corruption_count: u64,
    /// Threads of the process, the closest thing to goroutines.
    pub threads: usize,
    /// Processors that the process may use.
    pub cpus: usize,
    /// Memory that the process may use, in bytes.
    pub memory_limit_bytes: u64,
    /// Retention as text: `15d`, `15d or 10GiB`.
    pub storage_retention: String,
}

/// Progress of the WAL replay, in file numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalReplay {
    /// First file.
    pub min: u64,
    /// Last file.
    pub max: u64,
    /// File being read, or the last one.
    pub current: u64,
}

/// A block of the storage.
#[derive(Clone, Debug, Default)]
pub struct BlockStatus {
    /// ULID.
    pub id: String,
    /// Time of the oldest sample, inclusive, in milliseconds since the epoch.
    pub min_time_ms: i64,
    /// Time of the newest sample, inclusive, in milliseconds since the epoch.
    pub max_time_ms: i64,
    /// Number of samples.
    pub samples: u64,
    /// Number of series.
    pub series: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Merges that led to it.
    pub level: u8,
    /// ULIDs of the blocks it was merged from, or its own.
    pub sources: Vec<String>,
}

/// Memory use of the process.
#[derive(Clone, Debug, Default)]
pub struct MemoryStatus {
    /// Limit in bytes.
    pub limit_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Name of the pressure level.
    pub pressure: &'static str,
    /// Use by share.
    pub shares: Vec<Share>,
}

/// A status without information, for tests and tools.
#[derive(Debug, Default)]
pub(crate) struct NoStatus;

impl ServerStatus for NoStatus {
    fn config_yaml(&self) -> String {
        String::new()
    }

    fn flags(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn runtime(&self) -> RuntimeInfo {
        RuntimeInfo::default()
    }

    fn wal_replay(&self) -> WalReplay {
        WalReplay::default()
    }
}
