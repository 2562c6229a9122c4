//! Fuzz targets: plain functions over untrusted bytes.

use crate::{Flag, Surroundings, Values};
use std::{ffi::OsString, io, path::Path, path::PathBuf, time::Duration};

const FLAGS: &[Flag] = &[
    Flag::typed::<bool>("switch", ""),
    Flag::typed::<Duration>("duration", "").default("5m"),
    Flag::typed::<Vec<String>>("list", ""),
    Flag::typed::<PathBuf>("path", ""),
    Flag::typed::<Vec<PathBuf>>("files", "").positional(),
];

/// Parses bytes as a file of arguments, which may include itself as `@f`. The paths of an accepted command line must be
/// in the file.
///
/// # Panics
/// Panics when this does not hold, which is what fuzzing looks for.
pub fn fuzz_args(data: &[u8]) {
    let read = |path: &Path| match path.to_str() {
        Some("f") => Ok(data.to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let around = Surroundings { read: &read };
    let values = match Values::parse(&[FLAGS], &[OsString::from("@f")], around) {
        Ok(values) => values,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for path in values
        .get::<Vec<PathBuf>>("files")
        .expect("paths are taken as they are")
    {
        let path = path.as_os_str().as_encoded_bytes();
        assert!(data.windows(path.len().max(1)).any(|part| part == path));
    }
    for (name, _) in values.in_effect() {
        // Must return a value or an error, not panic.
        let _ = (values.get::<bool>(&name), values.get::<Duration>(&name));
        let _ = values.get::<Vec<String>>(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::mutate::Mutator;

    #[test]
    fn mutated_files_of_arguments_are_read_or_refused() {
        const FILES: &[&[u8]] = &[
            b"# comment\n--switch\n--no-switch\n--duration=1h30m\r\n--list\na,b\n--list=c=d\n\nx\n",
            b"--path=/a/\xff\n-switch=false\n--\n--not-a-flag\n@f\n-\n",
            b"@f\n",
            b"--duration=5x\n@g\n",
        ];
        Mutator::new(0xa7).max_len(512).run(FILES, 4_000, fuzz_args);
    }
}
