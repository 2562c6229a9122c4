//! The servers of `http` and the paths requested from each.
//!
//! **Invariant:** every kind answers the load with a body of a few to a few hundred bytes, so that kinds differ only in
//! their other work.

use crate::harness::{BenchError, NARTHEX, PROMETHEUS, ServerKind, ServerSpec, Values, WorkDir};
use std::path::{Path, PathBuf};

/// Debian's directory of nginx modules.
const MODULES: &str = "/usr/lib/nginx/modules";
/// The kinds that need a library.
const PEER: &str = "nginx-lua-prometheus";
const OURS: &str = "nginx-lua-narthex";
/// A memory file system.
const MEMORY: &str = "/dev/shm";
/// Where our library is in a clone of the repository.
const OURS_IN_CLONE: &str = "clients/lua";

/// The servers that are built in, ours first.
fn kinds() -> Vec<ServerKind> {
    let lua = |library, options| {
        let config = include_str!("nginx-lua.conf").replace("{LIBRARY}", library);
        config.replace("{OPTIONS}", options)
    };
    let mut kinds = ServerKind::built_in("http");
    for kind in &mut kinds {
        match kind.name.as_str() {
            "nginx" => include_str!("nginx.conf").clone_into(&mut kind.config),
            PEER => kind.config = lua("{library}", ""),
            OURS => kind.config = lua("{own_library}", ", { dir = \"{segments}\" }"),
            _ => {}
        }
    }
    kinds
}

/// Directories of Lua libraries, of those that can be had.
#[derive(Clone, Debug, Default)]
pub(super) struct Libraries {
    peer: Option<PathBuf>,
    own: Option<PathBuf>,
}

impl Libraries {
    /// Finds the libraries in the directories given, ours also in a clone.
    pub(super) fn find(
        values: &Values,
        peer: Option<&Path>,
        own: Option<&Path>,
    ) -> Result<Self, BenchError> {
        let in_clone = Path::new(OURS_IN_CLONE);
        let own = own.or_else(|| in_clone.is_dir().then_some(in_clone));
        let checked = |flag, dir: Option<&Path>| match dir {
            None => Ok(None),
            Some(dir) if dir.join("prometheus.lua").is_file() => {
                let dir = std::path::absolute(dir);
                dir.map(Some)
                    .map_err(BenchError::io("find the Lua library"))
            }
            Some(dir) => {
                Err(values.wrong(flag, format!("{} has no prometheus.lua", dir.display())))
            }
        };
        Ok(Self {
            peer: checked("lua-library", peer)?,
            own: checked("own-lua-library", own)?,
        })
    }
}

/// Paths requested from a kind, and the origin of its series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Paths {
    pub(super) load: String,
    pub(super) scrape: String,
    /// Whether the series are written to it; otherwise it has its own, or none.
    pub(super) is_written: bool,
}

impl Paths {
    /// Returns the paths of a kind; `load` and `scrape`, if given, override its own. `end_s` is the end of the data
    /// written to it.
    pub(super) fn new(kind: &str, load: &str, scrape: &str, end_s: i64) -> Self {
        let is_written = matches!(kind, NARTHEX | PROMETHEUS);
        let or = |given: &str, own: String| match given {
            "" => own,
            given => given.to_owned(),
        };
        let (own_load, own_scrape) = if is_written {
            (
                format!("/api/v1/query?query=pod_info%7Bpod%3D%22svc-0000-0%22%7D&time={end_s}"),
                "/federate?match%5B%5D=%7Bjob%3D%22app%22%7D".to_owned(),
            )
        } else {
            ("/".to_owned(), "/metrics".to_owned())
        };
        Self {
            load: or(load, own_load),
            scrape: or(scrape, own_scrape),
            is_written,
        }
    }
}

/// Returns the servers that can run; notes a sentence for each one that cannot.
pub(super) fn chosen(
    values: &Values,
    libraries: &Libraries,
    notes: &mut Vec<String>,
) -> Result<Vec<ServerSpec>, BenchError> {
    let (mut servers, absent) = ServerSpec::of_kinds(values, kinds())?;
    notes.extend(absent);
    let is_named = values.is_given("server");
    for kind in [PEER, OURS] {
        let Some(lacking) = lacking(kind, libraries, Path::new(MODULES)) else {
            continue;
        };
        if !servers.iter().any(|server| server.kind.name == kind) {
            continue;
        }
        if is_named {
            return Err(values.wrong("server", lacking));
        }
        servers.retain(|server| server.kind.name != kind);
        notes.push(lacking);
    }
    Ok(servers)
}

/// Returns what a Lua preset lacks, if anything.
fn lacking(kind: &str, libraries: &Libraries, modules: &Path) -> Option<String> {
    if !modules.join("ngx_http_lua_module.so").is_file() {
        return Some(format!(
            "{kind} needs nginx' Lua module: apt-get install libnginx-mod-http-lua"
        ));
    }
    if kind == OURS {
        return libraries.own.is_none().then(|| {
            format!("{kind} needs {OURS_IN_CLONE} of a clone: name it with --own-lua-library")
        });
    }
    libraries.peer.is_none().then(|| {
        format!(
            "{kind} needs its library: git clone https://github.com/knyar/nginx-lua-prometheus, \
             then name the directory with --lua-library"
        )
    })
}

/// Returns the server that reads segments and is scraped in place of the one that writes them.
pub(super) fn reader(program: &Path) -> ServerSpec {
    let mut kind = ServerKind::built_in("rules").remove(0);
    kind.config = "segments:\n  dir: {segments}\n  interval: 1s\n".to_owned();
    ServerSpec {
        label: "reader".to_owned(),
        kind,
        program: program.to_owned(),
    }
}

/// Page of all series that nginx' library counts, with its own name for them.
pub(super) const READER_PAGE: &str = "/federate?match%5B%5D=%7Bapp%3D%22nginx%22%7D";

/// Creates a directory for a kind that needs one: in `chosen`, or in memory.
pub(super) fn memory_dir(
    kind: &ServerKind,
    chosen: Option<&Path>,
) -> Result<Option<WorkDir>, BenchError> {
    let base = chosen.unwrap_or(Path::new(MEMORY));
    let dir = kind.has_segments().then(|| WorkDir::new(base, &kind.name));
    dir.transpose()
}

/// Returns the placeholders of the configurations.
pub(super) fn places(
    series: u64,
    libraries: &Libraries,
    memory: Option<&WorkDir>,
) -> [(&'static str, String); 5] {
    let shown = |dir: &Option<PathBuf>| {
        let dir = dir.as_ref();
        dir.map_or_else(String::new, |dir| dir.display().to_string())
    };
    [
        ("series", series.to_string()),
        ("library", shown(&libraries.peer)),
        ("own_library", shown(&libraries.own)),
        ("modules", MODULES.to_owned()),
        ("segments", shown(&memory.map(|dir| dir.path().to_owned()))),
    ]
}

#[cfg(test)]
mod tests;
