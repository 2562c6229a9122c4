//! The fleet, scraped over real sockets.

use super::*;
use narthex_testkit::{fleet::Target, http};
use std::io::Write;

const SMALL: FleetConfig = FleetConfig {
    targets: 3,
    series: 40,
    seed: 5,
    shape: Shape::Fleet,
    gzip: false,
    line_labels: true,
    clock: None,
};

fn wait_answers(fleet: &FleetServer, count: usize) {
    let end = Instant::now() + Duration::from_secs(10);
    while fleet.with_answers(<[_]>::len) < count {
        assert!(Instant::now() < end, "an answer is not in the list");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_target_has_its_address_and_moves_with_each_scrape() {
    let fleet = FleetServer::start(SMALL).unwrap();
    for round in 1..4 {
        for (index, address) in fleet.addresses().iter().enumerate() {
            let mut target = Target::new(index, 5, 40);
            (0..round).for_each(|_| target.step());
            let mut expected = String::new();
            target.render(&mut expected);
            let got = http::get(&format!("http://{address}/metrics")).unwrap();
            assert_eq!((got.status, got.text()), (200, expected));
            wait_answers(&fleet, (round - 1) * 3 + index + 1);
            let last = fleet.with_answers(|answers| *answers.last().unwrap());
            assert_eq!(last.first_value, target.values()[0]);
            assert_eq!(
                (last.target as usize, last.bytes as usize),
                (index, got.body.len())
            );
        }
    }
    let address = fleet.addresses()[0];
    assert_eq!(
        http::get(&format!("http://{address}/other"))
            .unwrap()
            .status,
        404
    );
    assert_eq!(fleet.with_answers(<[_]>::len), 9);
}

#[test]
fn a_body_larger_than_the_socket_arrives_whole_and_packed_when_wanted() {
    let config = FleetConfig {
        targets: 1,
        series: 60_000,
        gzip: true,
        ..SMALL
    };
    let fleet = FleetServer::start(config).unwrap();
    let url = format!("http://{}/metrics", fleet.addresses()[0]);
    let mut target = Target::new(0, 5, 60_000);
    let mut expected = String::new();
    target.step();
    target.render(&mut expected);
    assert!(http::get(&url).unwrap().text() == expected);
    let packed = http::request("GET", &url, &[("Accept-Encoding", "gzip")], &[]).unwrap();
    assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
    expected.clear();
    target.step();
    target.render(&mut expected);
    assert!(
        packed.body.len() < expected.len() / 5,
        "{} bytes",
        packed.body.len()
    );
    let text = crate::load::gzip::gunzip(&packed.body).unwrap();
    assert!(text == expected.as_bytes());
}

#[test]
fn requests_in_one_packet_are_answered_in_turn() {
    let fleet = FleetServer::start(SMALL).unwrap();
    let mut stream = std::net::TcpStream::connect(fleet.addresses()[2]).unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(&request.repeat(3)).unwrap();
    let mut reader = io::BufReader::new(stream);
    for _ in 0..3 {
        assert_eq!(http::read_response(&mut reader, true).unwrap().status, 200);
    }
    wait_answers(&fleet, 3);
}

#[test]
fn another_pod_answers_at_the_same_address() {
    let fleet = FleetServer::start(SMALL).unwrap();
    let url = format!("http://{}/metrics", fleet.addresses()[1]);
    let pod = |text: &str| text.split("pod=\"").nth(1).unwrap()[..8].to_owned();
    let first = pod(&http::get(&url).unwrap().text());
    fleet.replace(std::iter::once(1), 1);
    let second = pod(&http::get(&url).unwrap().text());
    assert_ne!(first, second);
    wait_answers(&fleet, 2);
    assert_eq!(fleet.with_answers(|answers| answers[1].samples), 40);
}
