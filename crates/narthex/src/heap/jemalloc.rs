//! jemalloc: returning memory to the system, and heap profiles.
//!
//! **Invariant:** jemalloc is called with names it documents, and values of the types it documents for them.

/// Returns unused pages to the system.
pub(crate) fn purge() {
    // 4096 is `MALLCTL_ARENAS_ALL`, which means all arenas.
    // SAFETY: `arena.<i>.purge` reads and writes no value.
    unsafe {
        tikv_jemalloc_sys::mallctl(
            c"arena.4096.purge".as_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
        )
    };
}

#[cfg(feature = "heap-profiles")]
pub(crate) use profile::dump;

#[cfg(feature = "heap-profiles")]
mod profile {
    //! Heap dumps.

    use std::{
        ffi::{CStr, CString, c_void},
        fs::File,
        io::{Read, Seek},
        os::fd::AsRawFd,
    };

    const OFF: &str = "heap profiles are off: _RJEM_MALLOC_CONF in the environment says so";

    /// Returns a heap dump in jemalloc's format.
    ///
    /// # Errors
    /// Returns a sentence that says why there is none.
    pub(crate) fn dump() -> Result<String, String> {
        if !profiles() {
            return Err(OFF.to_owned());
        }
        let failed = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
        // jemalloc dumps to a path; a memory file keeps it off the disk.
        let memory = rustix::fs::memfd_create("heap", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|error| failed("memfd_create")(error.into()))?;
        let path = CString::new(format!("/proc/self/fd/{}", memory.as_raw_fd()))
            .map_err(|error| error.to_string())?;
        let mut pointer = path.as_ptr();
        // SAFETY: `prof.dump` takes a pointer to a path and reads it before it returns.
        let code = unsafe {
            tikv_jemalloc_sys::mallctl(
                c"prof.dump".as_ptr(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                (&raw mut pointer).cast::<c_void>(),
                size_of_val(&pointer),
            )
        };
        if code != 0 {
            return Err(format!("jemalloc gave no heap profile: error {code}"));
        }
        let mut file = File::from(memory);
        let mut dump = String::new();
        file.rewind().map_err(failed("rewind the dump"))?;
        file.read_to_string(&mut dump)
            .map_err(failed("read the dump"))?;
        Ok(dump)
    }

    /// Reports whether jemalloc is sampling allocations.
    fn profiles() -> bool {
        flag(c"config.prof") && flag(c"opt.prof") && flag(c"prof.active")
    }

    /// Reads a boolean setting; a missing one is false.
    fn flag(name: &CStr) -> bool {
        let mut value = false;
        let mut len = size_of::<bool>();
        // SAFETY: `name` is one of those whose value is a bool, and `value` has room for `len` bytes.
        let code = unsafe {
            tikv_jemalloc_sys::mallctl(
                name.as_ptr(),
                (&raw mut value).cast::<c_void>(),
                &raw mut len,
                std::ptr::null_mut(),
                0,
            )
        };
        code == 0 && value
    }
}
