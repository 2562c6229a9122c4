//! Both file systems keep the contract; the faulty one fails as scripted.

use super::*;
use narthex_testkit::TempDir;

fn keeps_the_contract(io: &dyn Io, root: &Path) {
    let dir = root.join("d");
    io.create_dir_all(&dir).unwrap();
    let file = io.create(&dir.join("a")).unwrap();
    file.append(b"hello ").unwrap();
    file.append(b"world").unwrap();
    file.sync().unwrap();
    assert!(io.create(&dir.join("a")).is_err(), "create never replaces");
    let read = io.open(&dir.join("a")).unwrap();
    assert_eq!(read.len_bytes().unwrap(), 11);
    let mut buffer = [0; 5];
    read.read_exact_at(6, &mut buffer).unwrap();
    assert_eq!(&buffer, b"world");
    assert_eq!(
        read.read_exact_at(7, &mut buffer).unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
    file.truncate(5).unwrap();
    file.append(b"!").unwrap();
    assert_eq!(read.len_bytes().unwrap(), 6);
    io.rename(&dir.join("a"), &dir.join("b")).unwrap();
    io.sync_dir(&dir).unwrap();
    assert_eq!(io.list(&dir).unwrap(), ["b"]);
    io.truncate(&dir.join("b"), 1).unwrap();
    assert_eq!(io.open(&dir.join("b")).unwrap().len_bytes().unwrap(), 1);
    io.remove(&dir.join("b")).unwrap();
    assert!(io.open(&dir.join("b")).is_err());
    assert_eq!(
        io.list(&root.join("nowhere")).unwrap(),
        Vec::<String>::new()
    );
    let lock = io.lock(&root.join("LOCK")).unwrap();
    assert!(lock.is_some() && io.lock(&root.join("LOCK")).unwrap().is_none());
    drop(lock);
    assert!(io.lock(&root.join("LOCK")).unwrap().is_some());
    assert!(io.free_bytes(root).unwrap() > 0);
    io.remove_dir_all(&dir).unwrap();
    assert!(!io.list(root).unwrap().contains(&"d".to_owned()));
}

#[test]
fn real_files_keep_the_contract() {
    let dir = TempDir::new("io");
    keeps_the_contract(&RealIo, dir.path());
}

#[test]
fn faulty_files_keep_the_contract() {
    keeps_the_contract(&FaultyIo::new(), Path::new("/data"));
}

#[test]
fn a_loss_of_power_keeps_what_was_synced() {
    let disk = FaultyIo::new();
    let dir = Path::new("/data");
    disk.create_dir_all(dir).unwrap();
    let kept = disk.create(&dir.join("kept")).unwrap();
    kept.append(b"one").unwrap();
    kept.sync().unwrap();
    disk.sync_dir(dir).unwrap();
    kept.append(b"two").unwrap();
    let unnamed = disk.create(&dir.join("unnamed")).unwrap();
    unnamed.append(b"x").unwrap();
    unnamed.sync().unwrap();
    disk.power_loss(PowerLoss::KeepBytes(1));
    assert_eq!(disk.paths(), [dir.join("kept")]);
    assert_eq!(disk.bytes(&dir.join("kept")).unwrap(), b"onet");
    assert!(kept.append(b"late").is_err(), "handles of before are dead");
}

#[test]
fn scripted_faults_happen_once() {
    let disk = FaultyIo::new();
    let dir = Path::new("/data");
    disk.create_dir_all(dir).unwrap();
    let file = disk.create(&dir.join("f")).unwrap();
    disk.tear_operation(1, 2);
    file.append(b"abcd").unwrap();
    assert!(file.append(b"efgh").is_err());
    assert_eq!(disk.bytes(&dir.join("f")).unwrap(), b"abcdef");
    file.append(b"i").unwrap();
    disk.set_capacity(9);
    let error = file.append(b"jklm").unwrap_err();
    assert!(is_full(&error));
    assert_eq!(disk.used_bytes(), 9);
    disk.fail_syncs(true);
    assert!(file.sync().is_err());
}

#[test]
fn every_kind_of_operation_can_fail() {
    let disk = FaultyIo::new();
    let dir = Path::new("/data");
    disk.create_dir_all(dir).unwrap();
    let (path, other) = (dir.join("f"), dir.join("g"));
    let file = disk.create(&path).unwrap();
    file.append(b"abc").unwrap();
    let read = disk.open(&path).unwrap();
    let mut buffer = [0; 3];
    let tries: [(Op, &mut dyn FnMut() -> io::Result<()>); 12] = [
        (Op::Create, &mut || disk.create(&other).map(drop)),
        (Op::Open, &mut || disk.open(&path).map(drop)),
        (Op::Read, &mut || read.read_exact_at(0, &mut buffer)),
        (Op::List, &mut || disk.list(dir).map(drop)),
        (Op::Lock, &mut || disk.lock(&dir.join("LOCK")).map(drop)),
        (Op::Append, &mut || file.append(b"d")),
        (Op::Sync, &mut || file.sync()),
        (Op::Truncate, &mut || file.truncate(3)),
        (Op::Rename, &mut || disk.rename(&path, &path)),
        (Op::SyncDir, &mut || disk.sync_dir(dir)),
        (Op::CreateDir, &mut || disk.create_dir_all(dir)),
        (Op::Remove, &mut || disk.remove(&path)),
    ];
    for (op, act) in tries {
        // Two at once: the first is used up before the second happens.
        disk.inject(Fault::on(op).errno(5));
        disk.inject(Fault::on(op).in_path("/data").after(1).errno(24));
        assert_eq!(act().unwrap_err().raw_os_error(), Some(5), "{op:?}");
        assert!(is_exhausted(&act().unwrap_err()), "{op:?}");
        act().unwrap_or_else(|error| panic!("{op:?}: {error}"));
    }
}

#[test]
fn descriptors_run_out_and_come_back() {
    let disk = FaultyIo::new();
    let dir = Path::new("/data");
    disk.create_dir_all(dir).unwrap();
    disk.set_most_open(2);
    let first = disk.create(&dir.join("a")).unwrap();
    let second = disk.open(&dir.join("a")).unwrap();
    assert!(is_exhausted(&disk.create(&dir.join("b")).unwrap_err()));
    assert!(is_exhausted(&disk.open(&dir.join("a")).unwrap_err()));
    assert!(is_exhausted(&disk.sync_dir(dir).unwrap_err()));
    first.append(b"x").unwrap();
    assert_eq!(second.len_bytes().unwrap(), 1);
    drop(second);
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.open_files(), 1);
    disk.open(&dir.join("a")).unwrap();
}

#[test]
fn reads_may_be_short_and_still_fill_the_buffer() {
    let disk = FaultyIo::new();
    disk.put_file(Path::new("/data/f"), (0..100).collect());
    disk.set_most_read(7);
    let file = disk.open(Path::new("/data/f")).unwrap();
    let mut buffer = [0; 90];
    assert_eq!(file.read_at(0, &mut buffer).unwrap(), 7);
    file.read_exact_at(10, &mut buffer).unwrap();
    assert!(buffer.iter().copied().eq(10..100));
}

#[test]
fn an_operation_hangs_until_its_gate_opens() {
    let disk = FaultyIo::new();
    let dir = Path::new("/data");
    disk.create_dir_all(dir).unwrap();
    let file = disk.create(&dir.join("f")).unwrap();
    let gate = Gate::new();
    disk.inject(Fault::on(Op::Sync).hang(&gate));
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| file.sync());
        assert!(gate.wait_for_one());
        file.append(b"others go on").unwrap();
        assert!(!syncing.is_finished());
        gate.open();
        syncing.join().unwrap().unwrap();
    });
}

/// Names and files survive a loss of power independently, as far as nothing was synced.
#[test]
fn a_shuffled_loss_of_power_reorders_what_was_not_synced() {
    let (mut later_only, mut renamed) = (0, 0);
    for seed in 0..64 {
        let disk = FaultyIo::new();
        let dir = Path::new("/data");
        disk.create_dir_all(dir).unwrap();
        let first = disk.create(&dir.join("1")).unwrap();
        let second = disk.create(&dir.join("2")).unwrap();
        disk.sync_dir(dir).unwrap();
        first.append(b"a").unwrap();
        second.append(b"b").unwrap();
        disk.rename(&dir.join("2"), &dir.join("3")).unwrap();
        disk.create(&dir.join("4")).unwrap();
        disk.power_loss(PowerLoss::Shuffle(seed));
        let len = |name: &str| disk.bytes(&dir.join(name)).map(|bytes| bytes.len());
        assert!(len("1").is_some() && len("2").xor(len("3")).is_some());
        assert!(
            len("3").is_some() || len("4").is_none(),
            "names change in order"
        );
        let second = len("2").or(len("3"));
        later_only += usize::from(len("1") == Some(0) && second == Some(1));
        renamed += usize::from(len("3").is_some());
    }
    assert!(later_only > 5 && (20..60).contains(&renamed));
}
