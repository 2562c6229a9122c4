//! A run plan built from flags.
//!
//! **Invariant:** all values are checked: a plan can be carried out.

use super::{presets, target::Target};
use crate::harness::{BenchError, ServerSpec, Values, usage};
use narthex_cli::flags;
use std::{path::PathBuf, time::Duration};

/// Default number of series.
const SERIES: u64 = 10_000;
/// Most series of one server.
const MOST_SERIES: u64 = 10_000_000;

flags! {
    /// What `http` takes.
    #[derive(Debug)]
    pub(super) struct Flags {
        /// Series the server has; one variant for each number. Default: 10000.
        series: Vec<String> = "series", value("N");
        /// Requests a second.
        rate: f64 = "rate", default("1000"), within(1, 1_000_000);
        /// Connections, kept alive.
        connections: usize = "connections", default("16"), within(1, 10_000);
        /// Threads that send and receive.
        threads: usize = "threads", default("1"), within(1, 64);
        /// Time under load that is not recorded.
        warmup: Duration = "warmup", default("5s");
        /// Time that is.
        duration: Duration = "duration", default("60s");
        /// Time between scrapes.
        scrape_interval: Duration = "scrape-interval", default("5s");
        /// Time between reloads (SIGHUP) of a server under load; 0 for none.
        reload_every: Duration = "reload-every", default("0s");
        /// Scrapes without any load, which give the cost of one.
        idle_scrapes: u64 = "idle-scrapes", default("20"), within(0, 100_000);
        /// What is requested. Default: / of nginx, a small query of a Prometheus.
        path: String = "path", value("PATH");
        /// What is scraped. Default: /metrics of nginx, /federate with all series of a Prometheus.
        scrape_path: String = "scrape-path", value("PATH");
        /// Directory of nginx-lua-prometheus (github.com/knyar/nginx-lua-prometheus).
        lua_library: Option<PathBuf> = "lua-library", directory();
        /// Directory of clients/lua. Default: that of the clone in the working directory.
        own_lua_library: Option<PathBuf> = "own-lua-library", directory();
        /// Directory for the segments of nginx-lua-narthex, such as a small tmpfs that fills. Default: a new one in /dev/shm.
        segments_dir: Option<PathBuf> = "segments-dir", directory();
        /// Program narthex, whose server reads the segments of nginx-lua-narthex and is scraped in place of nginx.
        reader: Option<PathBuf> = "reader", value("FILE");
        /// Load this instead of starting servers.
        url: Option<String> = "url", value("URL");
        /// Scrape this with --url.
        scrape_url: Option<String> = "scrape-url", value("URL");
        /// Let --url and --scrape-url name another machine.
        allow_remote: bool = "allow-remote";
        /// Refuse a run whose generator started 1 % of its requests later than this.
        max_late: Duration = "max-late", default("2ms");
    }
}

/// The subjects: servers started for the run, or the URL of a running one.
#[derive(Debug)]
pub(super) enum Subjects {
    Servers(Vec<ServerSpec>),
    Url {
        load: Target,
        scrape: Option<Target>,
    },
}

/// Measurements of each subject.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) subjects: Subjects,
    /// The directories of the Lua kinds' libraries.
    pub(super) libraries: presets::Libraries,
    pub(super) series: Vec<u64>,
    pub(super) flags: Flags,
    pub(super) base: PathBuf,
    pub(super) seed: u64,
    pub(super) notes: Vec<String>,
}

impl Plan {
    /// Reads the flags.
    pub(super) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let mut notes = Vec::new();
        let flags = values.read(Flags::from_values)?;
        let (subjects, libraries) = subjects(values, &flags, &mut notes)?;
        let series = match &subjects {
            Subjects::Servers(_) => series(values, &flags)?,
            Subjects::Url { .. } => vec![0],
        };
        let plan = Self {
            subjects,
            libraries,
            series,
            flags,
            base: values.dir()?,
            seed: values.get("seed")?,
            notes,
        };
        let flags = &plan.flags;
        if flags.duration < Duration::from_secs(1)
            || flags.scrape_interval < Duration::from_millis(10)
        {
            return Err(usage(
                "--duration is at least 1s and --scrape-interval at least 10ms",
            ));
        }
        plan.check_reloads(values)?;
        plan.check_reader(values)?;
        Ok(plan)
    }

    /// Fails if a subject would be told to reload that does not, or too often.
    fn check_reloads(&self, values: &Values) -> Result<(), BenchError> {
        let every = self.flags.reload_every;
        if every.is_zero() {
            return Ok(());
        }
        if every < Duration::from_millis(100) {
            return Err(values.wrong("reload-every", "at least 100ms"));
        }
        let is_nginx = |server: &ServerSpec| server.kind.name.starts_with("nginx");
        match &self.subjects {
            Subjects::Servers(servers) if servers.iter().all(is_nginx) => Ok(()),
            _ => Err(values.wrong("reload-every", "goes with --server=nginx and its like")),
        }
    }

    /// Fails if there is no such program, or nothing that it could read.
    fn check_reader(&self, values: &Values) -> Result<(), BenchError> {
        let Some(reader) = &self.flags.reader else {
            return Ok(());
        };
        if !reader.is_file() {
            return Err(values.wrong("reader", format!("there is no {}", reader.display())));
        }
        match &self.subjects {
            Subjects::Servers(servers)
                if servers.iter().any(|server| server.kind.has_segments()) =>
            {
                Ok(())
            }
            _ => Err(values.wrong("reader", "goes with --server=nginx-lua-narthex")),
        }
    }

    /// Describes the plan in one sentence.
    pub(super) fn title(&self) -> String {
        let Flags {
            rate,
            connections,
            duration,
            scrape_interval,
            reload_every,
            ..
        } = self.flags;
        let reloads = match reload_every.is_zero() {
            true => String::new(),
            false => format!(", reloaded every {reload_every:?}"),
        };
        format!(
            "{rate} requests a second on {connections} connections for {duration:?}, with and without a scrape every \
             {scrape_interval:?}{reloads}"
        )
    }

    /// Returns the approximate duration for one subject with one number of series.
    pub(super) fn each(&self) -> Duration {
        (self.flags.warmup + self.flags.duration) * 2 + Duration::from_secs(10)
    }
}

fn series(values: &Values, flags: &Flags) -> Result<Vec<u64>, BenchError> {
    let read = |text: &String| {
        let digits = text.replace('_', "");
        let number = digits
            .parse()
            .ok()
            .filter(|n| (1..=MOST_SERIES).contains(n));
        let what = || format!("{text:?} is not a number from 1 to {MOST_SERIES}");
        number.ok_or_else(|| values.wrong("series", what()))
    };
    let mut series: Vec<u64> = flags.series.iter().map(read).collect::<Result<_, _>>()?;
    if series.is_empty() {
        series.push(SERIES);
    }
    series.dedup();
    Ok(series)
}

fn subjects(
    values: &Values,
    flags: &Flags,
    notes: &mut Vec<String>,
) -> Result<(Subjects, presets::Libraries), BenchError> {
    let Some(url) = &flags.url else {
        if flags.scrape_url.is_some() {
            return Err(values.wrong("scrape-url", "goes with --url"));
        }
        let peer = flags.lua_library.as_deref();
        let own = flags.own_lua_library.as_deref();
        let libraries = presets::Libraries::find(values, peer, own)?;
        let servers = presets::chosen(values, &libraries, notes)?;
        return Ok((Subjects::Servers(servers), libraries));
    };
    if values.is_given("server") {
        return Err(values.wrong("url", "goes without --server"));
    }
    let target = |name, text: &String| {
        Target::parse(text, flags.allow_remote).map_err(|what| values.wrong(name, what))
    };
    let load = target("url", url)?;
    let scrape = flags.scrape_url.as_ref();
    let scrape = scrape.map(|url| target("scrape-url", url)).transpose()?;
    if scrape.is_none() {
        notes.push("Nothing is scraped: --scrape-url names no page.".to_owned());
    }
    Ok((
        Subjects::Url { load, scrape },
        presets::Libraries::default(),
    ))
}
