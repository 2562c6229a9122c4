//! One server: written to, queried while warm, killed, and queried while cold.
//!
//! **Invariant:** a latency is only the time between a request's first byte and its response's last one; parsing the
//! JSON is not included. Peak memory is that of the queries, not of earlier phases.

use super::{answers::Answer, questions::Question};
use crate::{
    harness::{BenchError, Meter, Progress, RunningServer, ServerSpec, Used},
    load::{
        DatasetConfig, api,
        remote_write::{self, Sent},
    },
};
use narthex_testkit::client::Client;
use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// Timeout of a start or restart, and of a response.
const LIMIT: Duration = Duration::from_secs(1200);
/// A server has settled when it uses less of one core than this for as long as `SETTLED`.
const SETTLED_CORES: f64 = 0.05;
const SETTLED: Duration = Duration::from_secs(1);
/// Timeout of settling.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// Measurements of each server.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) data: DatasetConfig,
    pub(super) questions: Vec<Question>,
    pub(super) rounds: usize,
    pub(super) restarts: usize,
    /// Whether ranges move on with every round, and servers may use results that they keep.
    pub(super) refreshes: bool,
    pub(super) base: PathBuf,
}

/// A server's answer to one question, and the number of series it touched.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) answer: Answer,
    pub(super) touched: Option<f64>,
}

/// Latencies of all questions, in their order, and what they cost.
#[derive(Debug)]
pub(super) struct Round {
    /// For each question, the time of each answer.
    pub(super) took: Vec<Vec<Duration>>,
    pub(super) cpu: Duration,
    pub(super) used: Used,
}

/// Cost of writing.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) sent: Sent,
    pub(super) took: Duration,
    pub(super) cpu: Duration,
}

/// Results of one server.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) written: Written,
    pub(super) warm: Round,
    pub(super) cold: Option<Round>,
    pub(super) answers: Vec<Asked>,
}

/// Measures one server.
pub(super) fn run(
    plan: &Plan,
    spec: &ServerSpec,
    progress: &Progress,
) -> Result<Measured, BenchError> {
    let mut server = RunningServer::start(spec, &plan.base, &[])?;
    server.wait_ready(LIMIT)?;
    let mut subject = Subject {
        plan,
        client: server.client(LIMIT)?,
        suffix: if plan.refreshes { "" } else { "&nocache=1" },
        server,
        progress,
    };
    let written = subject.write()?;
    subject.settle()?;
    // Answers are parsed here, outside the timed rounds; querying also warms the server.
    let mut answers = subject.answers()?;
    let warm = subject.ask(plan.rounds, "warm")?;
    if plan.refreshes {
        // Of what was kept.
        answers = subject.answers()?;
    }
    let mut cold: Option<Round> = None;
    for _ in 0..plan.restarts {
        let round = subject.restart()?;
        match &mut cold {
            Some(cold) => cold.add(round),
            None => cold = Some(round),
        }
    }
    Ok(Measured {
        written,
        warm,
        cold,
        answers,
    })
}

struct Subject<'a> {
    plan: &'a Plan,
    client: Client,
    /// Suffix of every request.
    suffix: &'static str,
    server: RunningServer,
    progress: &'a Progress,
}

impl Subject<'_> {
    fn begin(&self, what: &str) {
        self.progress.begin(self.server.label(), what);
    }

    /// Writes all samples and waits until all series are found.
    fn write(&mut self) -> Result<Written, BenchError> {
        self.begin("writing");
        let (before, start) = (self.server.usage()?.cpu, Instant::now());
        let label = self.server.label().to_owned();
        let progress = self.progress;
        let sent = remote_write::send(
            &mut self.client,
            "/api/v1/write",
            self.plan.data,
            &label,
            |share| progress.show(&format!("{label}: {:.0} % written", share * 100.0)),
        )?;
        let took = start.elapsed();
        let cpu = self.server.usage()?.cpu.saturating_sub(before);
        self.wait_for_series()?;
        Ok(Written { sent, took, cpu })
    }

    /// Waits until the server finds all written series, with their last samples.
    fn wait_for_series(&mut self) -> Result<(), BenchError> {
        let data = &self.plan.data;
        let path = api::instant("count({job=\"app\"})", Some(data.end_ms));
        let path = format!("{path}{}", self.suffix);
        let expected = data.series as f64;
        let mut client = Client::new(self.address(), LIMIT);
        self.server.wait("find all series", LIMIT, |_| {
            let answer = client.get(&path, &[]).ok()?;
            let found = Answer::read(&answer.body)?.number()?;
            (found == expected).then_some(())
        })
    }

    fn address(&self) -> SocketAddr {
        self.client.address()
    }

    /// Waits until the server has finished processing the samples.
    fn settle(&mut self) -> Result<(), BenchError> {
        self.begin("settling");
        let end = Instant::now() + SETTLE_LIMIT;
        loop {
            let (before, start) = (self.server.usage()?.cpu, Instant::now());
            thread::sleep(SETTLED);
            self.server.check()?;
            let cpu = self.server.usage()?.cpu.saturating_sub(before);
            let cores = cpu.as_secs_f64() / start.elapsed().as_secs_f64();
            if cores < SETTLED_CORES || Instant::now() > end {
                return Ok(());
            }
        }
    }

    /// Asks every question once and parses the answers.
    fn answers(&mut self) -> Result<Vec<Asked>, BenchError> {
        self.begin("answers");
        let plan = self.plan;
        let ask = |question: &Question| {
            let body = self.get(&question.path(&plan.data, 0))?;
            let answer = Answer::read(&body).ok_or_else(|| self.wrong(question, &body))?;
            let touched = match question.touched(&plan.data) {
                Some(path) => Answer::read(&self.get(&path)?).and_then(|answer| answer.number()),
                None => None,
            };
            Ok(Asked { answer, touched })
        };
        plan.questions.iter().map(ask).collect()
    }

    /// Asks every question `rounds` times, one after the other.
    fn ask(&mut self, rounds: usize, what: &str) -> Result<Round, BenchError> {
        self.begin(what);
        let plan = self.plan;
        self.reset_peak();
        let paths = |steps_before| -> Vec<String> {
            let questions = plan.questions.iter();
            let path = |question: &Question| question.path(&plan.data, steps_before);
            questions.map(path).collect()
        };
        let mut asked = paths(0);
        let meter = Meter::start(self.server.usage()?)?;
        let mut took = vec![Vec::with_capacity(rounds); asked.len()];
        for round in 0..rounds {
            if plan.refreshes {
                asked = paths(rounds - 1 - round);
            }
            for (path, took) in asked.iter().zip(&mut took) {
                let start = Instant::now();
                self.get(path)?;
                took.push(start.elapsed());
            }
            let label = self.server.label();
            let done = round + 1;
            self.progress
                .show(&format!("{label}: {what}, {done} of {rounds} rounds"));
        }
        let used = meter.stop(self.server.usage()?)?;
        self.server.check()?;
        Ok(Round {
            took,
            cpu: used.cpu(),
            used,
        })
    }

    /// Kills the server, starts it again and asks everything once.
    fn restart(&mut self) -> Result<Round, BenchError> {
        self.begin("restarting");
        self.server.crash();
        self.server.restart()?;
        self.server.wait_ready(LIMIT)?;
        self.client = Client::new(self.address(), LIMIT);
        self.settle()?;
        self.ask(1, "cold")
    }

    /// Resets the kernel's record of the server's peak memory. If that fails, the figure is the all-time peak.
    fn reset_peak(&self) {
        let _ = fs::write(format!("/proc/{}/clear_refs", self.server.pid()), "5");
    }

    fn get(&mut self, path: &str) -> Result<Vec<u8>, BenchError> {
        let label = self.server.label();
        let answer = self.client.get(&format!("{path}{}", self.suffix), &[]);
        let answer = answer.map_err(BenchError::io(format!("ask {label} {path}")))?;
        match answer.status {
            200 => Ok(answer.body),
            _ => Err(BenchError::refused(label, path, &answer)),
        }
    }

    fn wrong(&self, question: &Question, body: &[u8]) -> BenchError {
        let text: String = String::from_utf8_lossy(body).chars().take(300).collect();
        BenchError::answer(self.server.label(), &question.name, format!("with {text}"))
    }
}

impl Round {
    /// Adds another round of the same questions.
    fn add(&mut self, other: Self) {
        for (took, more) in self.took.iter_mut().zip(other.took) {
            took.extend(more);
        }
        self.cpu += other.cpu;
        let (all, one) = (&mut self.used, other.used);
        all.own_cpu += one.own_cpu;
        all.took += one.took;
        all.to.peak_rss_bytes = all.to.peak_rss_bytes.max(one.to.peak_rss_bytes);
        all.other_cores = all.other_cores.max(one.other_cores);
    }
}
