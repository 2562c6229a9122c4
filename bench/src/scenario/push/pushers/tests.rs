//! Pushers against gateways that stall, refuse, or hang up.

use super::{
    super::fleet::tests::{PLAIN, every},
    *,
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

const LIMIT: Duration = Duration::from_secs(60);

/// Behaviour of a fake gateway: given a push's number, path and body, returns the response and whether it hangs up.
type Answers = dyn Fn(usize, &str, &[u8]) -> (&'static str, bool) + Send + Sync;

/// Starts a gateway that takes one push at a time; it ends with the test's process.
fn gateway(answers: Box<Answers>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (answers, turn) = (Arc::new(answers), Arc::new(Mutex::new(0_usize)));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answers, turn) = (Arc::clone(&answers), Arc::clone(&turn));
            thread::spawn(move || serve(stream, &**answers, &turn));
        }
    });
    address
}

fn serve(stream: TcpStream, answers: &Answers, turn: &Mutex<usize>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            head.push_str(&line);
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let path = head.split(' ').nth(1).unwrap();
        let (answer, hangs_up) = {
            let mut turn = turn.lock().unwrap();
            *turn += 1;
            answers(*turn, path, &body)
        };
        if reader.get_mut().write_all(answer.as_bytes()).is_err() || hangs_up {
            return;
        }
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn run(fleet: &Fleet, address: SocketAddr, count: usize, stretch: Stretch) -> Pushed {
    let pushers = Pushers {
        fleet,
        gateways: &[address],
        count,
        limit: LIMIT,
    };
    let watch = |_: &Watched| {
        thread::sleep(Duration::from_millis(5));
        Ok(())
    };
    pushers.run(stretch, watch).unwrap()
}

fn stretch(pushes: u64, is_paced: bool) -> Stretch {
    let start = Instant::now();
    Stretch {
        start,
        end: start + LIMIT * 10,
        pushes,
        first_round: 0,
        is_paced,
    }
}

/// A fleet of 100 processes that push ten times a second each.
fn busy() -> Fleet {
    every(Duration::from_millis(100), 10, 10, 5, PLAIN)
}

#[test]
fn a_stall_is_in_the_corrected_latencies_and_not_in_the_others() {
    const STALL: Duration = Duration::from_millis(800);
    let address = gateway(Box::new(|number, _, _| {
        if number == 20 {
            thread::sleep(STALL);
        }
        (OK, false)
    }));
    let fleet = busy();
    let pushed = run(&fleet, address, 1, stretch(1_500, true));
    assert_eq!(
        (pushed.taken(), pushed.failed, pushed.unsent),
        (1_500, 0, 0)
    );
    // Of 1.5 s of pushes those of 0.4 s, which is more than a quarter, waited for at least half the stall.
    let corrected = pushed.latencies.corrected.quantile_ms(0.80);
    assert!(
        corrected >= STALL.as_secs_f64() * 1e3 / 2.0,
        "{corrected} ms"
    );
    // One push alone was under way.
    let uncorrected = pushed.latencies.uncorrected.quantile_ms(0.90);
    assert!(
        uncorrected < STALL.as_secs_f64() * 1e3 / 2.0,
        "{uncorrected} ms"
    );
    assert!(pushed.latencies.uncorrected.quantile_ms(1.0) >= STALL.as_secs_f64() * 1e3);
}

#[test]
fn every_group_is_pushed_in_its_rounds_with_its_values() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let address = gateway(Box::new(move |_, path, body| {
        kept.lock().unwrap().push((path.to_owned(), body.to_vec()));
        (OK, false)
    }));
    let fleet = busy();
    let unpaced = stretch(200, false);
    let pushed = run(&fleet, address, 4, unpaced);
    assert_eq!((pushed.taken(), pushed.samples), (200, 1_000));
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort();
    let mut expected = Vec::new();
    let mut body = Body::default();
    for (group, round) in (0..100).flat_map(|group| [(group, 0), (group, 1)]) {
        expected.push((
            fleet.path(group),
            fleet.body(group, round, &mut body).to_vec(),
        ));
    }
    expected.sort();
    assert!(seen == expected);
}

#[test]
fn refusals_are_counted_with_their_reason_and_connections_replaced() {
    let address = gateway(Box::new(|number, _, _| match number % 3 {
        0 => (
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nno.\n",
            false,
        ),
        1 => (
            "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            true,
        ),
        _ => (OK, false),
    }));
    let fleet = busy();
    let pushed = run(&fleet, address, 1, stretch(30, false));
    assert_eq!((pushed.taken(), pushed.failed), (20, 10));
    assert_eq!(pushed.failure.unwrap(), "status 400: no.");
    assert_eq!(pushed.latencies.corrected.count(), 20);
}

#[test]
fn what_nobody_was_free_to_send_counts_as_waiting() {
    let address = gateway(Box::new(|_, _, _| {
        thread::sleep(Duration::from_millis(50));
        (OK, false)
    }));
    let fleet = busy();
    let mut stretch = stretch(1_000, true);
    stretch.end = stretch.start + Duration::from_secs(1);
    let pushed = run(&fleet, address, 2, stretch);
    // At most 20 a second can be answered.
    assert!(pushed.taken() <= 24, "{}", pushed.taken());
    assert_eq!(pushed.taken() + pushed.unsent, 1_000);
    assert_eq!(pushed.latencies.corrected.count(), 1_000);
    assert_eq!(pushed.latencies.uncorrected.count(), pushed.taken());
    assert!(pushed.latencies.corrected.quantile_ms(0.6) >= 300.0);
}

#[test]
fn a_failing_watch_ends_the_stretch() {
    let address = gateway(Box::new(|_, _, _| (OK, false)));
    let fleet = busy();
    let pushers = Pushers {
        fleet: &fleet,
        gateways: &[address],
        count: 3,
        limit: LIMIT,
    };
    let outcome = pushers.run(stretch(u64::MAX / 4, true), |_| {
        Err(BenchError::Refused("enough".to_owned()))
    });
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "the result is refused: enough"
    );
}
