//! Debian's nginx with `clients/lua`: requests are counted once each, whatever happens to workers and readers.

use crate::{
    disk::Tmpfs,
    segments::{config, total},
    support::{self, PATIENCE, Running, until},
};
use narthex_testkit::{
    TempDir,
    http::{self, Response},
    process::{SIGHUP, Server, Spawn},
    scaled, tool, workspace_root,
};
use std::{
    fs,
    io::{self, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

const MODULES: &str = "/usr/lib/nginx/modules";
const WORKERS: usize = 3;

const CONFIG: &str = r#"
load_module {modules}/ndk_http_module.so;
load_module {modules}/ngx_http_lua_module.so;
user root;
daemon off;
worker_processes 3;
pid {dir}/nginx.pid;
error_log stderr info;
events { worker_connections 512; }
http {
  access_log off;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  lua_package_path "{library}/?.lua;/usr/share/lua/5.1/?.lua;;";
  lua_shared_dict metrics 1m;
  init_worker_by_lua_block {
    prometheus = require("prometheus").init("metrics", {
      prefix = "gw_", dir = "{segments}", retire_interval = 0.1, sync_interval = 0.1, metrics_url = {url},
    })
    requests = prometheus:counter("requests_total", "Requests.", {"code", "path"})
    seconds = prometheus:histogram("seconds", "Times.", {"path"}, {0.5, 1.5})
    open = prometheus:gauge("open", "Requests in progress.")
    limit = prometheus:gauge("limit", "Set by every worker.")
    limit:set(512)
  }
  server {
    listen unix:{dir}/socket;
    location / {
      access_by_lua_block {
        open:inc(1)
        local labels = {200, ngx.var.uri}
        requests:inc(1, labels)
        seconds:observe(1, {ngx.var.uri})
      }
      content_by_lua_block { ngx.print("ok") }
      log_by_lua_block { open:inc(-1) }
    }
    location = /metrics { content_by_lua_block { prometheus:collect() } }
  }
}
"#;

/// A running nginx.
struct Nginx {
    dir: TempDir,
    process: Server,
}

impl Nginx {
    /// Starts one whose workers write segments into a directory; scrapes are passed on to `url`, if there is one.
    fn start(segments: &Path, url: Option<&str>) -> Self {
        let module = Path::new(MODULES).join("ngx_http_lua_module.so");
        assert!(
            module.is_file(),
            "nginx' Lua module is missing. Install it with:\napt-get install -y libnginx-mod-http-lua"
        );
        let dir = TempDir::new("nginx");
        let url = url.map_or_else(|| "nil".to_owned(), |url| format!("'{url}'"));
        let library = workspace_root().join("clients/lua");
        let config = CONFIG
            .replace("{modules}", MODULES)
            .replace("{dir}", &dir.path().display().to_string())
            .replace("{library}", &library.display().to_string())
            .replace("{segments}", &segments.display().to_string())
            .replace("{url}", &url);
        let config = dir.write("nginx.conf", config);
        let process = Spawn::new(tool("nginx", "nginx-light"))
            .arg("-p")
            .arg(dir.path())
            .args(["-e", "stderr", "-c"])
            .arg(config)
            .start();
        let nginx = Self { dir, process };
        until("nginx answers", || nginx.get("/ready").ok());
        nginx
    }

    /// Requests a path on a connection of its own.
    fn get(&self, path: &str) -> io::Result<Response> {
        let mut stream = UnixStream::connect(self.dir.join("socket"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )?;
        http::read_response(&mut BufReader::new(stream), true)
    }

    /// Returns the sum of the series on its own page whose lines begin like this.
    fn exposed(&self, prefix: &str) -> f64 {
        let page = self.get("/metrics").expect("a page").text();
        let lines = page.lines().filter(|line| line.starts_with(prefix));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    }

    /// Returns the process ids of its workers, those that are about to end too.
    fn workers(&self) -> Vec<u32> {
        let master = self.process.pid().to_string();
        let ids = fs::read_dir("/proc").unwrap();
        let ids = ids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_worker = |id: &u32| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
            fields.nth(1) == Some(&*master)
        };
        ids.filter(is_worker).collect()
    }

    fn reload(&self) {
        self.process.signal(SIGHUP);
    }

    fn kill_worker(&self, at: usize) {
        let workers = self.workers();
        if let Some(worker) = workers.get(at % workers.len().max(1)) {
            // It may have ended by itself.
            let _ = Command::new("kill")
                .args(["-9", &worker.to_string()])
                .output();
        }
    }
}

/// Requests that were sent, and those that were answered: what is counted lies between them.
#[derive(Default)]
struct Load {
    sent: AtomicU64,
    answered: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    /// Sends requests one after another until the load is over.
    fn run(&self, nginx: &Nginx) {
        for number in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            self.sent.fetch_add(1, Ordering::SeqCst);
            let answer = nginx.get(&format!("/path-{}", number % 5));
            if answer.is_ok_and(|answer| answer.status == 200) {
                self.answered.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Returns what ends the load when it is dropped, also by a failing test.
    fn end(&self) -> EndOnDrop<'_> {
        EndOnDrop(&self.is_over)
    }

    fn contains(&self, counted: f64) -> bool {
        let [answered, sent] =
            [&self.answered, &self.sent].map(|n| n.load(Ordering::SeqCst) as f64);
        // The request that waited for nginx is counted too.
        (answered..=sent + 1.0).contains(&counted)
    }
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn reloads_and_killed_workers_lose_and_repeat_nothing() {
    let mut rng = support::rng(0x6a7e);
    let data = TempDir::new("gateway");
    let segments = data.join("segments");
    let config = config(&data, &segments, "");
    let mut server = Running::start(data.path(), &config);
    let nginx = Nginx::start(&segments, None);
    let load = Load::default();
    let sum = "sum(gw_requests_total)";
    thread::scope(|scope| {
        let end = load.end();
        let threads = [(); 2].map(|()| scope.spawn(|| load.run(&nginx)));
        let mut last = 0.0;
        for round in 0..scaled(24) {
            for _ in 0..10 {
                let now = total(&server, sum).unwrap_or(last);
                assert!(now >= last, "{now} after {last}");
                last = now;
                thread::sleep(Duration::from_millis(rng.below(15)));
            }
            match round % 3 {
                // One at a time, or a storm: workers that have hardly begun are told to end.
                0 => (0..=rng.index(5)).for_each(|_| nginx.reload()),
                1 => nginx.kill_worker(rng.index(WORKERS)),
                _ if round % 4 == 0 => {
                    server.process.kill9();
                    nginx.kill_worker(rng.index(WORKERS));
                    server = Running::start(data.path(), &config);
                }
                _ => {}
            }
        }
        drop(end);
        for thread in threads {
            thread.join().expect("the load ran");
        }
    });
    assert!(load.answered.load(Ordering::SeqCst) > 500);
    let is_right = |counted: &f64| load.contains(*counted);
    until("every request is counted", || {
        total(&server, sum).filter(is_right)
    });
    let observed = "sum(gw_seconds_bucket{le=\"1.5\"})";
    until("and observed", || total(&server, observed).filter(is_right));
    let exposed = nginx.exposed("gw_requests_total{");
    assert!(load.contains(exposed), "nginx itself shows {exposed}");
    for query in [
        "sum(resets(gw_requests_total[1h]))",
        "sum(resets(gw_seconds_bucket[1h]))",
    ] {
        assert_eq!(total(&server, query), Some(0.0), "{query}");
    }
    until("only this generation's gauges are left", || {
        total(&server, "gw_open").filter(|open| *open == 0.0)
    });
    assert_eq!(total(&server, "gw_limit"), Some(512.0));
    assert_eq!(total(&server, "gw_nginx_metric_errors_total"), Some(0.0));
    server.stop();
}

#[test]
fn without_a_server_nginx_keeps_the_counts_of_its_ended_workers() {
    let data = TempDir::new("gateway");
    let segments = data.join("segments");
    let nginx = Nginx::start(&segments, None);
    let load = Load::default();
    thread::scope(|scope| {
        let end = load.end();
        let threads = [(); 2].map(|()| scope.spawn(|| load.run(&nginx)));
        let mut last = 0.0;
        for round in 0..scaled(12) {
            for _ in 0..5 {
                let now = nginx.exposed("gw_requests_total{");
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
            if round % 2 == 0 {
                nginx.reload();
            } else {
                nginx.kill_worker(round as usize);
            }
        }
        drop(end);
        for thread in threads {
            thread.join().expect("the load ran");
        }
    });
    until("what ended workers left is taken over", || {
        let mut left = support::files_below(&segments, ".segment");
        // What a worker was creating when it was killed stays for a minute.
        left.retain(|path| path.extension().is_some_and(|ending| ending == "segment"));
        (left.len() == WORKERS).then_some(())
    });
    let exposed = nginx.exposed("gw_requests_total{");
    assert!(load.contains(exposed), "{exposed}");
    let observed = nginx.exposed("gw_seconds_count{");
    assert!(load.contains(observed), "{observed}");
    // A server that comes later goes on with them.
    let server = Running::start(data.path(), &config(&data, &segments, ""));
    until("the server has them", || {
        total(&server, "sum(gw_requests_total)").filter(|counted| load.contains(*counted))
    });
    server.stop();
}

#[test]
fn a_full_or_forbidden_directory_costs_metrics_and_no_request() {
    let dir = TempDir::new("gateway");
    let file = dir.write("file", "");
    let tiny = Tmpfs::mount(dir.join("tiny"), "size=64k");
    // Two workers find room at most: those that create theirs at once may leave each other too little.
    let small = Tmpfs::mount(dir.join("small"), "size=300k");
    for (segments, found) in [
        (file.join("segments"), 0),
        (tiny.path().to_owned(), 0),
        (small.path().to_owned(), 2),
    ] {
        let nginx = Nginx::start(&segments, None);
        for number in 0..300 {
            // More series than there is room for.
            let answer = nginx.get(&format!("/path-{number}-{}", "x".repeat(500)));
            assert_eq!(answer.expect("an answer").status, 200);
        }
        // A worker may start after others have served everything.
        let failed = || nginx.process.stderr().matches("no segment in").count();
        until("workers say that they have none", || {
            (failed() >= WORKERS - found).then_some(())
        });
        // A worker in whose memory they are shows its own.
        until("they are shown", || {
            (nginx.exposed("gw_requests_total{") > 0.0).then_some(())
        });
        let all: Vec<u32> = nginx.workers();
        assert_eq!(all.len(), WORKERS, "{}", nginx.process.stderr());
        let log = nginx.process.stderr();
        assert!(!log.contains("exited on signal"), "{log}");
    }
}

#[test]
fn a_scrape_may_be_answered_with_what_the_server_has() {
    let data = TempDir::new("gateway");
    let segments = data.join("segments");
    let server = Running::start(data.path(), &config(&data, &segments, ""));
    let url = format!("{}/federate?match%5B%5D=%7Bapp%3D%22gw%22%7D", server.url);
    let nginx = Nginx::start(&segments, Some(&url));
    until("the server has it", || {
        let page = nginx.get("/metrics").expect("a page").text();
        let mut lines = page.lines();
        let counted = lines.find(|line| line.starts_with("gw_requests_total{"));
        counted.filter(|line| line.contains("instance=")).map(drop)
    });
    server.stop();
    let page = nginx.get("/metrics").expect("a page").text();
    assert!(!page.contains("instance="), "its own: {page}");
    assert!(page.contains("gw_nginx_metric_errors_total 1\n"), "{page}");
}
