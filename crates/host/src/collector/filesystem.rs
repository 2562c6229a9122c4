//! Mounted file systems: `mountinfo` read when it changes, `statfs` on its own threads.
//!
//! Invariant: `collect` itself queries only mounts that answer from memory (see `local`); it waits for any other at
//! most once after it stopped answering. Each (device, mount point, type) has one set of series, however often it is
//! mounted over.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::collector::{Collector, Ctx};
use crate::config::{self, HostConfig};
use crate::error::HostError;
use crate::filter::Filter;
use crate::local::OwnMounts;
use crate::mountinfo::{self, MountLine};
use crate::open_file::{End, OpenFile, ReadBuf};
use crate::ordered_cache::OrderedCache;
use crate::pool::{Pool, SlowFrom, Task, Until};
use crate::scan::label_text;
use crate::sink::{Desc, Sink, Slot};
use crate::statfs::{Answer, FsStat, Mount, Statfs};
use crate::table;

/// Families of sizes, and of those that a failure has too.
const FAMILIES: &str = include_str!("filesystem.txt");
const SIZES: usize = 6;
const MOUNT_INFO: Desc<'static> = Desc::gauge(
    "node_filesystem_mount_info",
    "Filesystem mount information.",
);

pub(crate) struct Filesystem {
    /// Mounts of process 1, or of this one if process 1 is hidden.
    file: OpenFile,
    own_file: PathBuf,
    /// This process's own mounts, to which paths refer; not read when another root is exported.
    local_file: Option<OpenFile>,
    rootfs: PathBuf,
    mount_points: Filter,
    fs_types: Filter,
    targets: OrderedCache<Key, Option<Target>>,
    statfs: Arc<dyn Statfs>,
    pool: Pool<Mount>,
    wait: Duration,
    mount_timeout: Duration,
    read: bool,
}

/// Raw bytes of a line; they are converted to labels once.
#[derive(PartialEq, Eq)]
struct Key {
    device: Box<[u8]>,
    mount_point: Box<[u8]>,
    fs_type: Box<[u8]>,
}

struct Target {
    labels: [String; 3],
    mount: Arc<Task<Mount>>,
    options_read_only: bool,
    /// Whether it answers from memory.
    local: bool,
    /// One per device number.
    infos: OrderedCache<(u32, u32), Option<Slot>>,
    sizes: Vec<Slot>,
    error: Option<Failure>,
    /// Whether the current reading already listed it.
    listed: bool,
}

struct Failure {
    cause: Cause,
    /// Whether it is read-only, and that there is an error.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Errno(Errno),
    Timeout,
}

impl Filesystem {
    pub(crate) fn new(config: &HostConfig, statfs: Box<dyn Statfs>) -> Result<Self, HostError> {
        let flags = &config.filesystem;
        let wait = Duration::from_millis(u64::from(flags.wait_ms));
        Ok(Self {
            file: OpenFile::new(config.procfs.join("1/mountinfo")),
            own_file: config.procfs.join("self/mountinfo"),
            local_file: (config.rootfs == Path::new("/"))
                .then(|| OpenFile::new("/proc/self/mountinfo".into())),
            rootfs: config.rootfs.clone(),
            mount_points: flags.mount_points.compile(&config::MOUNT_POINTS)?,
            fs_types: flags.fs_types.compile(&config::FS_TYPES)?,
            targets: OrderedCache::new(),
            statfs: statfs.into(),
            pool: Pool::new("host-statfs", flags.stat_workers, SlowFrom(wait)),
            wait,
            mount_timeout: Duration::from_millis(u64::from(flags.mount_timeout_ms)),
            read: false,
        })
    }

    /// Reports whether a mount was added or removed since the last call.
    fn mounts_changed(&mut self) -> bool {
        let Ok(fd) = self.file.fd() else { return true };
        let mut fds = [PollFd::new(fd, PollFlags::PRI)];
        let asked = poll(&mut fds, Some(&Timespec::default()));
        asked.is_err() || fds[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)
    }

    fn read_mounts(&mut self, buf: &mut ReadBuf, out: &mut Sink) -> Result<(), HostError> {
        let own = self
            .local_file
            .as_mut()
            .and_then(|file| file.read(buf, End::Empty).ok());
        let own = own.map(OwnMounts::parse).unwrap_or_default();
        let text = match self.file.read(buf, End::Empty) {
            Err(HostError::Read {
                source: Errno::NOENT | Errno::ACCESS | Errno::PERM,
                ..
            }) => {
                self.file = OpenFile::new(self.own_file.clone());
                self.file.read(buf, End::Empty)?
            }
            read => read?,
        };
        self.targets.begin();
        for (_, target) in self.targets.values_mut() {
            if let Some(target) = target {
                target.listed = false;
                target.infos.begin();
            }
        }
        let Self {
            targets,
            rootfs,
            mount_points,
            fs_types,
            statfs,
            ..
        } = self;
        let parsed = mountinfo::parse(text, |line| {
            let same = |key: &Key, _: &_| {
                *key.mount_point == *line.mount_point
                    && *key.device == *line.source
                    && *key.fs_type == *line.fs_type
            };
            let target = match targets.find(same) {
                Some(target) => target,
                None => {
                    let key = Key {
                        device: line.source.into(),
                        mount_point: line.mount_point.into(),
                        fs_type: line.fs_type.into(),
                    };
                    targets.insert(
                        key,
                        Target::new(line, rootfs, mount_points, fs_types, statfs),
                    )
                }
            };
            if let Some(target) = target {
                target.list(line, &own);
            }
        });
        parsed.map_err(|source| self.file.malformed(source))?;
        self.targets.sweep(|_, target| {
            if let Some(target) = target {
                target.retire(out);
            }
        });
        for (_, target) in self.targets.values_mut() {
            if let Some(target) = target {
                target.infos.sweep(|_, slot| out.retire_all(slot));
            }
        }
        Ok(())
    }
}

impl Collector for Filesystem {
    fn has_preparation(&self) -> bool {
        true
    }

    fn prepare(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        // Poll first, unconditionally: it must not miss a change that follows the reading.
        if self.mounts_changed() || ctx.refresh || !self.read {
            self.read = false;
            self.read_mounts(ctx.buf, out)?;
            self.read = true;
        }
        self.pool.ask(mounts(&mut self.targets))
    }

    fn collect(&mut self, _ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        self.pool
            .wait(mounts(&mut self.targets), Until(Instant::now() + self.wait))?;
        for (_, target) in self.targets.values_mut() {
            let Some(target) = target else { continue };
            let answer = match target.local {
                true => Answer::now(target.mount.ask_now()),
                false => Answer::latest(&target.mount),
            };
            if answer
                .waiting
                .is_some_and(|waiting| waiting >= self.mount_timeout)
            {
                target.set_failed(Cause::Timeout, out);
                continue;
            }
            match answer.last {
                Some(Ok(stat)) => target.set_sizes(&stat, out),
                Some(Err(errno)) => target.set_failed(Cause::Errno(errno), out),
                None => {}
            }
        }
        Ok(())
    }
}

/// Returns the mounts that need a thread.
fn mounts(
    targets: &mut OrderedCache<Key, Option<Target>>,
) -> impl Iterator<Item = &Arc<Task<Mount>>> {
    targets
        .values_mut()
        .filter_map(|(_, target)| target.as_ref())
        .filter(|target| !target.local)
        .map(|target| &target.mount)
}

impl Target {
    /// Returns `None` for a mount that the filters drop.
    fn new(
        line: &MountLine<'_>,
        rootfs: &Path,
        mount_points: &Filter,
        fs_types: &Filter,
        statfs: &Arc<dyn Statfs>,
    ) -> Option<Self> {
        let rootfs = rootfs.as_os_str().as_bytes();
        // The label keeps the escapes that node_exporter keeps; the path has none.
        let shown = strip_root(&mountinfo::unescape(line.mount_point, b" \t"), rootfs).to_vec();
        if !mount_points.keeps(&shown) || !fs_types.keeps(line.fs_type) {
            return None;
        }
        let real = mountinfo::unescape(line.mount_point, b" \t\n\\#");
        let path = CString::new(join(rootfs, strip_root(&real, rootfs))).ok()?;
        Some(Self {
            labels: [line.source, &shown[..], line.fs_type].map(label_text),
            mount: Mount::task(statfs, path),
            options_read_only: false,
            local: false,
            infos: OrderedCache::new(),
            sizes: Vec::new(),
            error: None,
            listed: false,
        })
    }

    fn list(&mut self, line: &MountLine<'_>, own: &OwnMounts) {
        if !self.listed {
            self.listed = true;
            self.options_read_only = line.read_only();
            self.local = own.is_local(line);
        }
        let number = (line.major, line.minor);
        if self.infos.find(|known, _| *known == number).is_none() {
            self.infos.insert(number, None);
        }
    }

    fn set_sizes(&mut self, stat: &FsStat, out: &mut Sink) {
        if self.sizes.is_empty() {
            self.sizes = self.series(table::families(FAMILIES), "", out);
        }
        let block_bytes = stat.block_bytes as f64;
        let read_only = self.options_read_only || stat.read_only;
        let values = [
            stat.blocks as f64 * block_bytes,
            stat.blocks_free as f64 * block_bytes,
            stat.blocks_available as f64 * block_bytes,
            stat.files as f64,
            stat.files_free as f64,
            // node_exporter intends to omit it here, but reports 0 on Linux.
            0.0,
            f64::from(u8::from(read_only)),
            0.0,
        ];
        out.set_all(&self.sizes, values);
        let Self { labels, infos, .. } = self;
        for (number, slot) in infos.values_mut() {
            let slot = *slot.get_or_insert_with(|| new_info(labels, *number, out));
            out.set(slot, 1.0);
        }
    }

    fn set_failed(&mut self, cause: Cause, out: &mut Sink) {
        if self
            .error
            .as_ref()
            .is_none_or(|failure| failure.cause != cause)
        {
            if let Some(old) = self.error.take() {
                out.retire_all(old.slots);
            }
            let descs = table::families(FAMILIES).skip(SIZES);
            let slots = self.series(descs, &cause.text(), out);
            self.error = Some(Failure { cause, slots });
        }
        if let Some(failure) = &self.error {
            let read_only = f64::from(u8::from(self.options_read_only));
            out.set_all(&failure.slots, [read_only, 1.0]);
        }
    }

    fn series(
        &self,
        descs: impl Iterator<Item = Desc<'static>>,
        device_error: &str,
        out: &mut Sink,
    ) -> Vec<Slot> {
        let [device, mount_point, fs_type] = &self.labels;
        let labels = [
            ("device", device.as_str()),
            ("mountpoint", mount_point.as_str()),
            ("fstype", fs_type.as_str()),
            ("device_error", device_error),
        ];
        descs.map(|desc| out.add(&desc, &labels)).collect()
    }

    fn retire(mut self, out: &mut Sink) {
        out.retire_all(self.sizes);
        out.retire_all(self.error.into_iter().flat_map(|failure| failure.slots));
        out.retire_all(self.infos.values_mut().filter_map(|(_, slot)| *slot));
    }
}

fn new_info(labels: &[String; 3], (major, minor): (u32, u32), out: &mut Sink) -> Slot {
    let (major, minor) = (major.to_string(), minor.to_string());
    let labels = [
        ("device", labels[0].as_str()),
        ("major", &major),
        ("minor", &minor),
        ("mountpoint", labels[1].as_str()),
    ];
    out.add(&MOUNT_INFO, &labels)
}

impl Cause {
    /// Returns node_exporter's (that is, Go's) text.
    fn text(self) -> String {
        let errno = match self {
            Self::Timeout => return "mountpoint timeout".into(),
            Self::Errno(errno) => errno,
        };
        let known = match errno {
            Errno::PERM => "operation not permitted",
            Errno::NOENT => "no such file or directory",
            Errno::IO => "input/output error",
            Errno::NXIO => "no such device or address",
            Errno::NOMEM => "cannot allocate memory",
            Errno::ACCESS => "permission denied",
            Errno::NODEV => "no such device",
            Errno::NOTDIR => "not a directory",
            Errno::INVAL => "invalid argument",
            Errno::NAMETOOLONG => "file name too long",
            Errno::NOSYS => "function not implemented",
            Errno::LOOP => "too many levels of symbolic links",
            Errno::NODATA => "no data available",
            Errno::PROTO => "protocol error",
            Errno::OVERFLOW => "value too large for defined data type",
            Errno::OPNOTSUPP => "operation not supported",
            Errno::NETDOWN => "network is down",
            Errno::NETUNREACH => "network is unreachable",
            Errno::CONNABORTED => "software caused connection abort",
            Errno::CONNRESET => "connection reset by peer",
            Errno::NOTCONN => "transport endpoint is not connected",
            Errno::SHUTDOWN => "cannot send after transport endpoint shutdown",
            Errno::TIMEDOUT => "connection timed out",
            Errno::CONNREFUSED => "connection refused",
            Errno::HOSTDOWN => "host is down",
            Errno::HOSTUNREACH => "no route to host",
            Errno::STALE => "stale NFS file handle",
            Errno::UCLEAN => "structure needs cleaning",
            Errno::REMOTEIO => "remote I/O error",
            Errno::NOKEY => "required key not available",
            Errno::KEYEXPIRED => "key has expired",
            Errno::KEYREVOKED => "key has been revoked",
            _ => return format!("errno {}", errno.raw_os_error()),
        };
        known.into()
    }
}

/// Removes the host's root from a mount point below it; others stay as they are.
fn strip_root<'a>(mount_point: &'a [u8], rootfs: &[u8]) -> &'a [u8] {
    match mount_point.strip_prefix(rootfs.strip_suffix(b"/").unwrap_or(rootfs)) {
        Some(b"") => b"/",
        Some(rest) if rest.first() == Some(&b'/') => rest,
        _ => mount_point,
    }
}

fn join(rootfs: &[u8], mount_point: &[u8]) -> Vec<u8> {
    [rootfs.strip_suffix(b"/").unwrap_or(rootfs), mount_point].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_root_is_stripped_by_whole_components() {
        assert_eq!(strip_root(b"/host/var", b"/host"), b"/var");
        assert_eq!(strip_root(b"/host", b"/host/"), b"/");
        assert_eq!(strip_root(b"/hostile", b"/host"), b"/hostile");
        assert_eq!(strip_root(b"/var", b"/"), b"/var");
        assert_eq!(strip_root(b"/", b"/"), b"/");
        assert_eq!(join(b"/host", b"/var"), b"/host/var");
        assert_eq!(join(b"/", b"/"), b"/");
    }
}
