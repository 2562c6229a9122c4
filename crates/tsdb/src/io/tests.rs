//! Both file systems keep the contract; the faulty one fails as it is told.

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
