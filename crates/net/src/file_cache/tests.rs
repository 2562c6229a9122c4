//! Tests of files that change while in use.

use narthex_testkit::TempDir;

use super::*;

#[test]
fn content_is_trimmed_and_read_again() {
    let dir = TempDir::new("fresh");
    let path = dir.write("secret", " one\n");
    let file = CachedFile::new(&path, "a secret");
    let one = file.get().expect("readable");
    assert_eq!(&*one, "one");
    assert!(Arc::ptr_eq(&one, &file.get().expect("readable")));
    // Same length, and perhaps the same timestamp.
    dir.write("secret", " two\n");
    assert_eq!(&*file.get().expect("readable"), "two");
    dir.write("secret", "x".repeat(2 << 20));
    let error = file.get().expect_err("too long").to_string();
    assert!(error.ends_with("longer than 1 MiB"), "{error}");
    std::fs::remove_file(&path).expect("it is there");
    let error = file.get().expect_err("gone").to_string();
    assert!(
        error.starts_with("unable to read a secret: open "),
        "{error}"
    );
}

#[test]
fn a_settled_file_is_not_read_again() {
    let dir = TempDir::new("fresh");
    let path = dir.write("secret", "one");
    let file = CachedFile::new(&path, "a secret");
    file.get().expect("readable");
    let mut kept = file.cached.lock().expect("no panic");
    let contents = kept.as_mut().expect("read");
    assert!(!contents.settled, "it was written a moment ago");
    contents.settled = true;
    contents.text = "kept".into();
    drop(kept);
    assert_eq!(&*file.get().expect("kept"), "kept");
    dir.write("other", "two");
    std::fs::rename(dir.join("other"), &path).expect("replaced");
    assert_eq!(&*file.get().expect("readable"), "two");
}

#[test]
fn texts_are_not_shown() {
    let text = TextSource::new("hush", None, "a secret").expect("inline");
    assert_eq!(format!("{text:?}"), "inline");
    assert!(TextSource::new("", None, "nothing").is_none());
}
