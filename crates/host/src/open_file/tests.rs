//! Descriptors that outlive their file, ends of files, limits.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use narthex_testkit::TempDir;

use super::*;

/// A child process to inspect; killed on drop.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("sleep runs"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_descriptor_whose_file_died_is_opened_again_once() {
    let dir = TempDir::new("host-open-file");
    let link = dir.join("stat");
    let point_to = |sleeper: &Sleeper| {
        let _ = fs::remove_file(&link);
        symlink(format!("/proc/{}/stat", sleeper.0.id()), &link).expect("writable");
    };
    let (first, second) = (Sleeper::start(), Sleeper::start());
    let mut buf = ReadBuf::new();
    let mut file = OpenFile::new(link.clone());
    let mut starts_with = |file: &mut OpenFile, id: u32| {
        let text = file.read(&mut buf, End::Short).expect("it is there");
        text.starts_with(format!("{id} ").as_bytes())
    };
    let (first_id, second_id) = (first.0.id(), second.0.id());
    point_to(&first);
    assert!(starts_with(&mut file, first_id));
    // The old descriptor still works: the path is not looked up.
    point_to(&second);
    assert!(starts_with(&mut file, first_id));
    drop(first);
    assert!(starts_with(&mut file, second_id));
    drop(second);
    let gone = file.read(&mut buf, End::Short);
    assert!(
        matches!(
            gone,
            Err(HostError::Read {
                source: Errno::NOENT,
                ..
            })
        ),
        "{gone:?}"
    );
}

#[test]
fn files_of_any_size_are_read_whole() {
    let dir = TempDir::new("host-sizes");
    let mut buf = ReadBuf::new();
    for size in [
        0,
        1,
        NUMBERS_BYTES,
        2047,
        2048,
        START_BYTES - 1,
        START_BYTES,
        START_BYTES + 1,
        5 * START_BYTES,
    ] {
        let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let path = dir.write(format!("{size}"), &content);
        for end in [End::Short, End::Numbers, End::Below(2048), End::Empty] {
            let read = OpenFile::new(path.clone())
                .read(&mut buf, end)
                .map(<[u8]>::to_vec);
            assert!(read.is_ok_and(|read| read == content), "{size} {end:?}");
        }
    }
    // Shorter than the previous contents of the buffer.
    let path = dir.write("short", "abc");
    assert_eq!(
        OpenFile::new(path)
            .read(&mut buf, End::Short)
            .expect("it is there"),
        b"abc"
    );
}

#[test]
fn little_is_asked_for_where_asking_costs() {
    let dir = TempDir::new("host-numbers");
    let path = dir.write("file-nr", [b'1'; 2 * NUMBERS_BYTES + 1]);
    let meter = cost::Meter::start();
    let mut buf = ReadBuf::new();
    let read = OpenFile::new(path)
        .read(&mut buf, End::Numbers)
        .map(<[u8]>::len);
    assert!(read.is_ok_and(|read| read == 2 * NUMBERS_BYTES + 1));
    // Opened, and read three times.
    assert_eq!(meter.stop().calls, 4);
}

#[test]
fn an_endless_file_is_refused() {
    let mut buf = ReadBuf::new();
    let read = OpenFile::new("/dev/zero".into()).read(&mut buf, End::Short);
    assert!(matches!(read, Err(HostError::TooLarge { .. })));
}
