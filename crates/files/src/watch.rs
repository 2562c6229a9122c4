//! Which files changed, as the kernel tells it (inotify), so that a round need not look at all of them.
//!
//! The kernel tells of what this machine does to a directory that was reached without links, on a file system of its own.
//! Everything else is looked at in every round: other file systems, files with several names, directories that are not
//! there yet.
//!
//! **Invariant:** a directory is watched before it is read, so nothing happens between the two unseen. Whatever may have
//! been missed leads to a look at everything, and so does the time: once in [`SURE`].

use rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use std::{
    collections::{HashMap, HashSet},
    mem::MaybeUninit,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::Duration,
};

/// After this time everything is looked at: what is written through shared memory is never told.
const SURE: Duration = Duration::from_mins(1);
/// Most directories that are watched for one entry: an account has some ten thousand.
const DIRECTORIES: usize = 1024;
/// Events are read in pieces of so many bytes.
const EVENT_BYTES: usize = 16 << 10;

/// File systems that nobody writes to behind this kernel's back: those on disks and in memory, and containers' layers.
const LOCAL: [i64; 9] = [
    0xef53,      // ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xf2f5_2010, // f2fs
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // zfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
];

/// What may be different from the last round.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    /// Anything: which files there are, and each of them.
    Anything,
    /// These files, of the same files as before.
    Only(HashSet<String>),
}

/// The directories of one entry.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Whether anybody wants to know: a seldom look costs less than being told.
    is_wanted: bool,
    inotify: Option<OwnedFd>,
    directories: HashMap<i32, Directory>,
    /// Whether all directories of the last listing are watched.
    is_whole: bool,
    /// Number of the last listing, and its time.
    listing: u64,
    listed_ms: i64,
}

#[derive(Debug)]
struct Directory {
    /// What paths in it begin with.
    prefix: String,
    listing: u64,
}

impl Changes {
    /// Returns whether a file may be different.
    pub(crate) fn concern(&self, path: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::Only(paths) => paths.contains(path),
        }
    }
}

impl Watch {
    /// Returns a watch without directories for an entry that is looked at in this interval; with `None` nothing is told.
    pub(crate) fn new(interval: Option<Duration>) -> Self {
        Self {
            is_wanted: interval.is_some_and(|interval| interval <= SURE / 2),
            inotify: None,
            directories: HashMap::new(),
            is_whole: false,
            listing: 0,
            listed_ms: 0,
        }
    }

    /// Begins a listing: until its end, directories are watched before they are read.
    pub(crate) fn begin(&mut self, now_ms: i64) {
        self.listing += 1;
        self.listed_ms = now_ms;
        self.is_whole = self.is_wanted;
        if self.is_wanted && self.inotify.is_none() {
            let opened = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
            self.inotify = opened.ok();
            self.is_whole = self.inotify.is_some();
        }
    }

    /// Watches a directory; `prefix` is what paths in it begin with.
    pub(crate) fn add(&mut self, prefix: &str) {
        let Some(inotify) = self.inotify.as_ref().filter(|_| self.is_whole) else {
            return;
        };
        let path = Path::new(match prefix {
            "" => ".",
            "/" => prefix,
            _ => prefix.trim_end_matches('/'),
        });
        if self.directories.len() >= DIRECTORIES || !is_told(path) {
            // A file that a pattern takes for a directory has nothing in it.
            self.is_whole = path.is_file();
            return;
        }
        match inotify::add_watch(inotify, path, flags()) {
            Ok(number) => {
                let directory = Directory {
                    prefix: prefix.to_owned(),
                    listing: self.listing,
                };
                let before = self.directories.insert(number, directory);
                // Events do not say by which of several prefixes.
                let is_same = before.is_none_or(|before| before.prefix == prefix);
                self.is_whole = is_same;
            }
            Err(Errno::NOTDIR) => {}
            Err(_limit_or_missing) => self.is_whole = false,
        }
    }

    /// Ends a listing: directories that it did not add are not watched any more.
    pub(crate) fn end(&mut self) {
        let Some(inotify) = self.inotify.as_ref().filter(|_| self.is_whole) else {
            // All or nothing: what is watched in vain costs memory of the kernel.
            self.inotify = None;
            self.directories.clear();
            return;
        };
        let listing = self.listing;
        self.directories.retain(|number, directory| {
            let stays = directory.listing == listing;
            if !stays {
                // It is gone already if the directory is.
                let _ = inotify::remove_watch(inotify, *number);
            }
            stays
        });
    }

    /// Returns what changed since the last call; `known` are the files of the last listing.
    pub(crate) fn changes(&self, now_ms: i64, known: impl Fn(&str) -> bool) -> Changes {
        let age_ms = u128::from(now_ms.abs_diff(self.listed_ms));
        let Some(inotify) = self.inotify.as_ref().filter(|_| self.is_whole) else {
            return Changes::Anything;
        };
        if age_ms >= SURE.as_millis() {
            return Changes::Anything;
        }
        let mut changed = HashSet::new();
        let mut unsure: HashSet<String> = HashSet::new();
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(_cause) => return Changes::Anything,
            };
            let what = event.events();
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                return Changes::Anything;
            }
            let Some(directory) = self.directories.get(&event.wd()) else {
                continue;
            };
            let Some(name) = event.file_name() else {
                // The directory itself was moved, removed, unmounted, or has other permissions.
                return Changes::Anything;
            };
            let Ok(name) = name.to_str() else {
                continue;
            };
            let path = format!("{}{name}", directory.prefix);
            let came_or_went = ReadFlags::CREATE
                | ReadFlags::MOVED_TO
                | ReadFlags::DELETE
                | ReadFlags::MOVED_FROM
                | ReadFlags::ATTRIB;
            match (known(&path), what.intersects(came_or_went)) {
                (true, false) => drop(changed.insert(path)),
                (_, true) => drop(unsure.insert(path)),
                (false, false) => {}
            }
        }
        for path in unsure {
            // A file that is written under another name and renamed was there and is not.
            let is_known = known(&path);
            if Path::new(&path).symlink_metadata().is_ok() != is_known {
                return Changes::Anything;
            }
            if is_known {
                changed.insert(path);
            }
        }
        Changes::Only(changed)
    }

    /// Returns whether changes of this file are not told: it has other names, in directories that are not watched.
    pub(crate) fn is_blind_to(&self, path: &str) -> bool {
        let found = Path::new(path).symlink_metadata();
        self.is_whole && found.is_ok_and(|found| found.is_symlink() || found.nlink() > 1)
    }
}

/// Returns the events that say that a file, or which files there are, may be different.
fn flags() -> WatchFlags {
    WatchFlags::ATTRIB
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MODIFY
        | WatchFlags::MOVE
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR
}

/// Returns whether the kernel tells of every change of a directory.
fn is_told(path: &Path) -> bool {
    // A link on the way may lead elsewhere tomorrow, and nobody would tell.
    let is_direct = match (std::path::absolute(path), path.canonicalize()) {
        (Ok(given), Ok(real)) => given == real,
        _ => false,
    };
    let kind = rustix::fs::statfs(path).map(|found| found.f_type & 0xffff_ffff);
    is_direct && kind.is_ok_and(|kind| LOCAL.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::TempDir;
    use std::fs;

    const OFTEN: Duration = Duration::from_secs(5);
    const KNOWN: [&str; 2] = ["a.prom", "b.prom"];

    /// A watched directory with the files `KNOWN`.
    struct Rig {
        dir: TempDir,
        watch: Watch,
    }

    impl Rig {
        fn new() -> Self {
            let dir = TempDir::new("files-watch");
            for name in KNOWN {
                dir.write(name, "m 1\n");
            }
            let watch = Watch::new(Some(OFTEN));
            let mut rig = Self { dir, watch };
            rig.list(0);
            rig
        }

        fn prefix(&self) -> String {
            format!("{}/", self.dir.path().display())
        }

        fn list(&mut self, now_ms: i64) {
            let prefix = self.prefix();
            self.watch.begin(now_ms);
            self.watch.add(&prefix);
            self.watch.end();
        }

        /// Returns the names of changed files; `None` for anything.
        fn changed(&self) -> Option<Vec<String>> {
            let prefix = self.prefix();
            let is_known = |path: &str| {
                let name = path.strip_prefix(&prefix);
                name.is_some_and(|name| KNOWN.contains(&name))
            };
            match self.watch.changes(1000, is_known) {
                Changes::Anything => None,
                Changes::Only(paths) => {
                    let names = paths.iter().filter_map(|path| path.strip_prefix(&prefix));
                    let mut names: Vec<String> = names.map(str::to_owned).collect();
                    names.sort();
                    Some(names)
                }
            }
        }
    }

    fn some(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn files_that_change_are_named() {
        let rig = Rig::new();
        assert_eq!(rig.changed(), some(&[]));
        rig.dir.write("a.prom", "m 2\n");
        assert_eq!(rig.changed(), some(&["a.prom"]));
        assert_eq!(rig.changed(), some(&[]));
        // Written under another name, and renamed.
        rig.dir.write("temporary", "m 3\n");
        fs::rename(rig.dir.join("temporary"), rig.dir.join("b.prom")).unwrap();
        assert_eq!(rig.changed(), some(&["b.prom"]));
        // Only touched.
        let file = fs::File::options()
            .write(true)
            .open(rig.dir.join("a.prom"))
            .unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(rig.changed(), some(&["a.prom"]));
    }

    #[test]
    fn files_that_come_or_go_lead_to_a_listing() {
        let mut rig = Rig::new();
        fs::remove_file(rig.dir.join("a.prom")).unwrap();
        assert_eq!(rig.changed(), None);
        rig.list(0);
        rig.dir.write("a.prom", "m 1\n");
        rig.list(0);
        // Removed and written again.
        fs::remove_file(rig.dir.join("a.prom")).unwrap();
        rig.dir.write("a.prom", "m 2\n");
        assert_eq!(rig.changed(), some(&["a.prom"]));
        rig.dir.write("c.prom", "m 1\n");
        assert_eq!(rig.changed(), None);
        // One that nobody wants is written on and on.
        let other = rig.dir.write("other.log", "begin\n");
        assert_eq!(rig.changed(), None);
        rig.list(0);
        fs::write(other, "more\n").unwrap();
        assert_eq!(rig.changed(), some(&[]));
        let elsewhere = TempDir::new("files-watch-elsewhere");
        fs::rename(rig.dir.path(), elsewhere.join("moved")).unwrap();
        assert_eq!(rig.changed(), None);
    }

    #[test]
    fn what_is_not_told_is_looked_at() {
        let mut rig = Rig::new();
        // A minute later.
        assert_eq!(rig.watch.changes(60_000, |_| true), Changes::Anything);
        assert_eq!(rig.watch.changes(-60_000, |_| true), Changes::Anything);
        let link = rig.dir.join("link");
        std::os::unix::fs::symlink(rig.dir.path(), &link).unwrap();
        let missing = rig.dir.join("none").display().to_string();
        for prefix in [format!("{}/", link.display()), "/proc/".to_owned(), missing] {
            let mut watch = Watch::new(Some(OFTEN));
            watch.begin(0);
            watch.add(&prefix);
            watch.end();
            assert_eq!(watch.changes(0, |_| true), Changes::Anything, "{prefix}");
        }
        assert_eq!(rig.changed(), None, "the link came");
        rig.list(0);
        assert_eq!(rig.changed(), some(&[]));
        let (a, b) = (rig.dir.join("a.prom"), rig.dir.join("b.prom"));
        assert!(!rig.watch.is_blind_to(&a.display().to_string()));
        fs::hard_link(&a, rig.dir.join("again")).unwrap();
        fs::remove_file(&b).unwrap();
        std::os::unix::fs::symlink("/proc/version", &b).unwrap();
        for path in [a, b] {
            assert!(
                rig.watch.is_blind_to(&path.display().to_string()),
                "{path:?}"
            );
        }
        // Seldom looks need no help.
        let mut seldom = Watch::new(Some(Duration::from_mins(1)));
        seldom.begin(0);
        seldom.add(&rig.prefix());
        seldom.end();
        assert!(seldom.inotify.is_none());
        assert_eq!(seldom.changes(0, |_| true), Changes::Anything);
    }

    #[test]
    fn directories_of_earlier_listings_are_not_watched_any_more() {
        let mut rig = Rig::new();
        let below = rig.dir.join("below");
        fs::create_dir(&below).unwrap();
        let prefix = rig.prefix();
        rig.watch.begin(0);
        rig.watch.add(&prefix);
        rig.watch.add(&format!("{prefix}below/"));
        // A file is no directory, and no reason to look at everything.
        rig.watch.add(&format!("{prefix}a.prom/"));
        rig.watch.end();
        assert_eq!(rig.watch.directories.len(), 2);
        fs::write(below.join("x"), "").unwrap();
        assert_eq!(rig.changed(), None);
        rig.list(0);
        assert_eq!(rig.watch.directories.len(), 1);
        fs::write(below.join("y"), "").unwrap();
        assert_eq!(rig.changed(), some(&[]));
    }
}
