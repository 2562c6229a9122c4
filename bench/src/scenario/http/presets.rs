//! The servers of `http` and the paths requested from each.
//!
//! **Invariant:** every kind answers the load with a body of a few to a few hundred bytes, so that kinds differ only in
//! their other work.

use crate::harness::{
    NARTHEX, PROMETHEUS, ServerKind, cli::Values, error::BenchError, server::ServerSpec,
};
use std::path::{Path, PathBuf};

/// Debian's directory of nginx modules.
const MODULES: &str = "/usr/lib/nginx/modules";
/// The kind that needs a library.
const LUA: &str = "nginx-lua-prometheus";

/// The servers that are built in, ours first.
fn kinds() -> impl Iterator<Item = ServerKind> {
    let nginx = |name, package: &str, config| {
        let mut kind =
            ServerKind::built_in(name, "nginx", "-p {dir} -e stderr -c {config} -g", "/");
        kind.arguments.push("daemon off;".to_owned());
        kind.version = vec!["-v".to_owned()];
        package.clone_into(&mut kind.package);
        kind.with_config(config)
    };
    let alike = ServerKind::prometheus_alike().map(|kind| {
        let kind = kind.with_arguments("--web.enable-remote-write-receiver");
        kind.with_config("scrape_configs: []\n")
    });
    alike.into_iter().chain([
        nginx("nginx", "nginx", include_str!("nginx.conf")),
        nginx(
            LUA,
            "nginx libnginx-mod-http-lua",
            include_str!("nginx-lua.conf"),
        ),
    ])
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

/// Returns the servers that can run and the Lua library's directory if any; notes a sentence for each one that cannot.
pub(super) fn chosen(
    values: &Values,
    library: Option<&Path>,
    notes: &mut Vec<String>,
) -> Result<(Vec<ServerSpec>, Option<PathBuf>), BenchError> {
    let library = match library {
        None => None,
        Some(dir) if dir.join("prometheus.lua").is_file() => {
            let dir = std::path::absolute(dir);
            Some(dir.map_err(BenchError::io("find the Lua library"))?)
        }
        Some(dir) => {
            let what = format!("{} has no prometheus.lua", dir.display());
            return Err(values.wrong("lua-library", what));
        }
    };
    let (mut servers, absent) = ServerSpec::chosen(values, kinds())?;
    notes.extend(absent);
    let is_named = values.is_given("server");
    let lacking = lacking(library.as_deref(), Path::new(MODULES));
    if let Some(lacking) = lacking
        && servers.iter().any(|server| server.kind.name == LUA)
    {
        if is_named {
            return Err(values.wrong("server", lacking));
        }
        servers.retain(|server| server.kind.name != LUA);
        notes.push(lacking);
    }
    Ok((servers, library))
}

/// Returns what the Lua preset lacks, if anything.
fn lacking(library: Option<&Path>, modules: &Path) -> Option<String> {
    if !modules.join("ngx_http_lua_module.so").is_file() {
        return Some(format!(
            "{LUA} needs nginx' Lua module: apt-get install libnginx-mod-http-lua"
        ));
    }
    library.is_none().then(|| {
        format!(
            "{LUA} needs its library: git clone https://github.com/knyar/nginx-lua-prometheus, \
             then name the directory with --lua-library"
        )
    })
}

/// Returns the placeholders of the configurations.
pub(super) fn places(series: u64, library: Option<&Path>) -> [(&'static str, String); 3] {
    let library = library.map_or_else(String::new, |dir| dir.display().to_string());
    [
        ("series", series.to_string()),
        ("library", library),
        ("modules", MODULES.to_owned()),
    ]
}

#[cfg(test)]
mod tests;
