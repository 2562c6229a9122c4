//! Requests at a constant rate, whether or not the server keeps up.
//!
//! Each request has a due time. A user who arrives then waits from then on, so the corrected latency counts from the
//! due time; the uncorrected one counts from when the request was really sent, which is what a generator measures that
//! pauses while the server does.
//!
//! **Invariant:** the schedule never waits for the server. The generator's own lateness is recorded apart: the time
//! between when a request could be sent (it was due and a connection was free) and when it was.

use super::{
    answer::{Answer, AnswerReader},
    latency::{Histogram, Latencies},
};
use crate::harness::{BenchError, cpu_time, join, own_thread_time};
use rustix::{
    event::{Timespec, epoll},
    fd::OwnedFd,
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
        timerfd_create, timerfd_settime,
    },
};
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

/// Timeout of connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time between the start of the threads and the first request.
const LEAD_NS: u64 = 20_000_000;
/// Event id of the timer, among those of the connections.
const TIMER: u64 = u64::MAX;
/// Maximum events per wait.
const EVENTS: usize = 64;

/// Request to send, target and rate.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    /// The bytes of the request, including its head.
    pub(crate) request: Vec<u8>,
    /// Requests per second of all threads together.
    pub(crate) rate: f64,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    /// Time at the start that is not recorded.
    pub(crate) warmup: Duration,
    /// Time that is recorded.
    pub(crate) duration: Duration,
    /// How long responses may take after the last request was due.
    pub(crate) drain: Duration,
}

/// Results of one second of the schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Second {
    pub(crate) requests: u64,
    /// The longest corrected latency of a request due in it.
    pub(crate) longest: Duration,
}

/// Results of a plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Load {
    /// From due times and from send times.
    pub(crate) latencies: Latencies,
    /// How late the generator sent requests that it could have sent.
    pub(crate) late: Histogram,
    pub(crate) answered: u64,
    /// Responses other than 2xx and 3xx.
    pub(crate) refused: u64,
    /// Requests whose connection ended before the response, or that had none at the end.
    pub(crate) lost: u64,
    pub(crate) body_bytes: u64,
    /// CPU time of the generator's threads, and how long they were ready without running, in total.
    pub(crate) cpu: Duration,
    pub(crate) waited: Duration,
    /// All requests, including the warm-up's: what `cpu` was used for.
    pub(crate) sent: u64,
    /// Of the recorded time.
    pub(crate) seconds: Vec<Second>,
}

impl Load {
    fn new(duration: Duration) -> Self {
        Self {
            seconds: vec![Second::default(); duration.as_secs_f64().ceil() as usize],
            ..Self::default()
        }
    }

    fn add(&mut self, other: &Self) {
        self.latencies.merge(&other.latencies);
        self.late.merge(&other.late);
        self.answered += other.answered;
        self.refused += other.refused;
        self.lost += other.lost;
        self.body_bytes += other.body_bytes;
        self.cpu += other.cpu;
        self.waited += other.waited;
        self.sent += other.sent;
        for (all, one) in self.seconds.iter_mut().zip(&other.seconds) {
            all.requests += one.requests;
            all.longest = all.longest.max(one.longest);
        }
    }

    /// Returns the generator's CPU cost of one request.
    pub(crate) fn cpu_a_request(&self) -> Duration {
        self.cpu.div_f64(self.sent.max(1) as f64)
    }
}

/// Executes `plan` and waits for the responses.
pub(crate) fn run(plan: &Plan) -> Result<Load, BenchError> {
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let start_ns = now_ns() + LEAD_NS;
    let parts: Vec<_> = thread::scope(|scope| {
        let worker = |index| {
            let run = move || Worker::new(plan, index, threads, start_ns)?.run();
            thread::Builder::new()
                .name(format!("load-{index}"))
                .spawn_scoped(scope, run)
                .map_err(BenchError::io("start a thread"))
        };
        let started: Vec<_> = (0..threads).map(worker).collect();
        started.into_iter().map(|thread| join(thread?)).collect()
    });
    let mut load = Load::new(plan.duration);
    for part in parts {
        load.add(&part?);
    }
    Ok(load)
}

/// A connection and its request in progress.
struct Connection {
    stream: TcpStream,
    reader: AnswerReader,
    /// When the request was due and sent, until its response.
    request: Option<(u64, u64)>,
    /// Since when it has been idle.
    free_ns: u64,
}

/// One thread's share of the plan: every n-th request on its own connections.
struct Worker<'a> {
    plan: &'a Plan,
    epoll: OwnedFd,
    timer: OwnedFd,
    connections: Vec<Connection>,
    /// Connections without a request.
    free: Vec<usize>,
    schedule: Schedule,
    load: Load,
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(
        plan: &'a Plan,
        index: usize,
        threads: usize,
        start_ns: u64,
    ) -> Result<Self, BenchError> {
        let own = plan.connections / threads + usize::from(index < plan.connections % threads);
        let io = |what| move |errno: rustix::io::Errno| BenchError::io(what)(errno.into());
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io("wait for connections"))?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )
        .map_err(io("make a timer"))?;
        let event = epoll::EventData::new_u64(TIMER);
        epoll::add(&epoll, &timer, event, epoll::EventFlags::IN).map_err(io("make a timer"))?;
        let mut worker = Self {
            plan,
            epoll,
            timer,
            connections: Vec::with_capacity(own),
            free: (0..own).rev().collect(),
            schedule: Schedule::new(plan, index, threads, start_ns),
            load: Load::new(plan.duration),
            buffer: vec![0; 256 << 10],
        };
        for place in 0..own {
            let connection = worker.connect(place)?;
            worker.connections.push(connection);
        }
        Ok(worker)
    }

    fn connect(&self, place: usize) -> Result<Connection, BenchError> {
        let address = self.plan.address;
        let open = || {
            let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let event = epoll::EventData::new_u64(place as u64);
            let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
            epoll::add(&self.epoll, &stream, event, flags)?;
            Ok(stream)
        };
        Ok(Connection {
            stream: open().map_err(BenchError::io(format!("connect to {address}")))?,
            reader: AnswerReader::default(),
            request: None,
            free_ns: now_ns(),
        })
    }

    fn run(mut self) -> Result<Load, BenchError> {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let waited = own_thread_time(thread)?.waited;
        let cpu = cpu_time(ClockId::ThreadCPUTime);
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            self.send_due()?;
            let busy = self.connections.len() - self.free.len();
            if self.schedule.next().is_none() && busy == 0 {
                break;
            }
            if now_ns() > self.schedule.give_up_ns {
                self.load.lost += busy as u64 + self.schedule.left_to_record();
                break;
            }
            self.wait(&mut events)?;
            for event in &events {
                let place = event.data.u64();
                if place != TIMER {
                    self.receive(place as usize)?;
                }
            }
        }
        self.load.cpu = cpu_time(ClockId::ThreadCPUTime).saturating_sub(cpu);
        self.load.waited = own_thread_time(thread)?.waited.saturating_sub(waited);
        Ok(self.load)
    }

    /// Sends due requests while a connection is free.
    fn send_due(&mut self) -> Result<(), BenchError> {
        while let Some(due_ns) = self.schedule.next() {
            let now = now_ns();
            if due_ns > now {
                return Ok(());
            }
            let Some(place) = self.free.pop() else {
                return Ok(());
            };
            self.schedule.advance();
            self.load.sent += 1;
            let connection = &mut self.connections[place];
            let could_ns = due_ns.max(connection.free_ns);
            if self.schedule.is_recorded(due_ns) {
                let late = now.saturating_sub(could_ns);
                self.load.late.add(Duration::from_nanos(late));
            }
            connection.request = Some((due_ns, now));
            // A request is far smaller than a socket's buffer: it is accepted whole or the connection is gone.
            let sent = connection.stream.write(&self.plan.request);
            if !matches!(sent, Ok(length) if length == self.plan.request.len()) {
                self.lose(place)?;
            }
        }
        Ok(())
    }

    /// Waits for a response, or, if a connection is free, for the next request to be due.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), BenchError> {
        let next_ns = self.schedule.next().filter(|_| !self.free.is_empty());
        let wake_ns = next_ns.unwrap_or(self.schedule.give_up_ns + 1);
        let spec = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                tv_sec: (wake_ns / 1_000_000_000) as i64,
                tv_nsec: (wake_ns % 1_000_000_000) as _,
            },
        };
        let io = |errno: rustix::io::Errno| BenchError::io("wait for answers")(errno.into());
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec).map_err(io)?;
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(io(errno)),
        }
    }

    /// Reads a connection's bytes up to the end of the response.
    fn receive(&mut self, place: usize) -> Result<(), BenchError> {
        let connection = &mut self.connections[place];
        let answer = loop {
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => match connection.reader.end() {
                    Some(answer) => break answer,
                    None => return self.lose(place),
                },
                Ok(length) => {
                    let fed = connection.reader.feed(&self.buffer[..length]);
                    let fed = fed.map_err(|e| {
                        BenchError::Refused(format!("{} does not answer: {e}", self.plan.address))
                    })?;
                    if let Some(answer) = fed {
                        break answer;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.lose(place),
            }
        };
        let now = now_ns();
        connection.free_ns = now;
        if let Some((due_ns, sent_ns)) = connection.request.take() {
            self.free.push(place);
            self.record(&answer, due_ns, sent_ns, now);
        }
        if !answer.keeps_alive {
            self.connections[place] = self.connect(place)?;
        }
        Ok(())
    }

    fn record(&mut self, answer: &Answer, due_ns: u64, sent_ns: u64, now: u64) {
        if !self.schedule.is_recorded(due_ns) {
            return;
        }
        let load = &mut self.load;
        load.answered += 1;
        load.refused += u64::from(!(200..400).contains(&answer.status));
        load.body_bytes += answer.body_bytes;
        let corrected = Duration::from_nanos(now.saturating_sub(due_ns));
        let uncorrected = Duration::from_nanos(now.saturating_sub(sent_ns));
        load.latencies.corrected.add(corrected);
        load.latencies.uncorrected.add(uncorrected);
        let second = self.schedule.second_of(due_ns);
        if let Some(second) = load.seconds.get_mut(second) {
            second.requests += 1;
            second.longest = second.longest.max(corrected);
        }
    }

    /// Reopens a connection that ended without a response, or while idle.
    fn lose(&mut self, place: usize) -> Result<(), BenchError> {
        if let Some((due_ns, _)) = self.connections[place].request {
            self.load.lost += u64::from(self.schedule.is_recorded(due_ns));
            self.free.push(place);
        }
        self.connections[place] = self.connect(place)?;
        Ok(())
    }
}

/// Due times of one thread's requests.
#[derive(Debug)]
struct Schedule {
    /// The index of the next one among all threads' requests.
    next: u64,
    threads: u64,
    /// Number of requests of all threads.
    count: u64,
    period_ns: f64,
    start_ns: u64,
    recorded_from_ns: u64,
    give_up_ns: u64,
}

impl Schedule {
    fn new(plan: &Plan, index: usize, threads: usize, start_ns: u64) -> Self {
        let whole = plan.warmup + plan.duration;
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
        Self {
            next: index as u64,
            threads: threads as u64,
            count: (whole.as_secs_f64() * plan.rate).ceil() as u64,
            period_ns: 1e9 / plan.rate,
            start_ns,
            recorded_from_ns: start_ns + ns(plan.warmup),
            give_up_ns: start_ns + ns(whole) + ns(plan.drain),
        }
    }

    /// Returns when the next request is due.
    fn next(&self) -> Option<u64> {
        let after = |number| (number as f64 * self.period_ns) as u64;
        (self.next < self.count).then(|| self.start_ns + after(self.next))
    }

    fn advance(&mut self) {
        self.next += self.threads;
    }

    fn is_recorded(&self, due_ns: u64) -> bool {
        due_ns >= self.recorded_from_ns
    }

    fn second_of(&self, due_ns: u64) -> usize {
        ((due_ns - self.recorded_from_ns) / 1_000_000_000) as usize
    }

    fn left_to_record(&self) -> u64 {
        (self.count.saturating_sub(self.next)).div_ceil(self.threads)
    }
}

/// Returns the time of the monotonic clock.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests;
