//! What the API is told about the process it runs in.

use narthex_model::storage::Share;

/// What the API says about the process it runs in.
pub trait ServerStatus: Send + Sync {
    /// Returns the configuration as YAML, secrets hidden.
    fn config_yaml(&self) -> String;

    /// Lists all flags by name, with their values as text.
    fn flags(&self) -> Vec<(String, String)>;

    /// Tells how the process runs.
    fn runtime(&self) -> RuntimeInfo;

    /// Tells how far the log is replayed.
    fn wal_replay(&self) -> WalReplay;

    /// Returns what the allocator says of the heap, for [`narthex_profile::heap`].
    ///
    /// # Errors
    /// A sentence that says why there is nothing.
    fn heap_dump(&self) -> Result<String, String> {
        Err("this server has no heap profiles".to_owned())
    }

    /// Tells how memory is used.
    fn memory(&self) -> MemoryStatus {
        MemoryStatus::default()
    }

    /// Lists the labels that every series gets on its way to other servers.
    fn external_labels(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// How the process runs.
#[derive(Clone, Debug, Default)]
pub struct RuntimeInfo {
    /// When it started.
    pub start_time_ms: i64,
    /// Its working directory.
    pub cwd: String,
    /// The host's name.
    pub hostname: String,
    /// Whether the last reload of the configuration succeeded.
    pub reload_config_success: bool,
    /// When the configuration was last loaded.
    pub last_config_time_ms: i64,
    /// Damaged places found in the log.
    pub corruption_count: u64,
    /// Threads of the process: what comes closest to goroutines.
    pub threads: usize,
    /// Processors it may use.
    pub cpus: usize,
    /// Bytes of memory it may use.
    pub memory_limit_bytes: u64,
    /// How long samples are kept, as text: `15d`, `15d or 10GiB`.
    pub storage_retention: String,
}

/// How far the log is replayed: numbers of files.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalReplay {
    /// The first.
    pub min: u64,
    /// The last.
    pub max: u64,
    /// The one being read, or the last.
    pub current: u64,
}

/// How the process uses its memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryStatus {
    /// Bytes it may use.
    pub limit_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// How short memory is, in words.
    pub pressure: &'static str,
    /// Who uses it.
    pub shares: Vec<Share>,
}

/// Knows nothing: for tests and tools.
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
