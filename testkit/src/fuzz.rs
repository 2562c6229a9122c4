//! Fuzz functions by name: their memory bounds, their tests' initial inputs, and the function that a libFuzzer binary
//! runs.
//!
//! Invariant: tests and libFuzzer apply the same bound to a function, its line in `fuzz/bounds.txt`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::alloc;
use crate::workspace_root;

/// The table of bounds, one line for each fuzz function.
const BOUNDS: &str = "fuzz/bounds.txt";

/// A fuzz function, which takes untrusted bytes.
pub type Function = fn(&[u8]);

/// Memory bound of a fuzz function, see [`alloc::bounded`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Bytes for each byte of the input.
    pub per_byte: usize,
    /// Bytes for an input of any length.
    pub constant: usize,
}

/// Calls one of `functions`, named without `fuzz_`, within its bound: the one that `NARTHEX_FUZZ` names.
///
/// # Panics
///
/// If `NARTHEX_FUZZ` names none of them, the function has no bound, or it exceeds its bound.
pub fn run(package: &str, functions: &[(&str, Function)], data: &[u8]) {
    static CHOSEN: OnceLock<(Function, Bound)> = OnceLock::new();
    let (function, bound) = CHOSEN.get_or_init(|| {
        let names: Vec<&str> = functions.iter().map(|(name, _)| *name).collect();
        let asked = std::env::var("NARTHEX_FUZZ").unwrap_or_default();
        let found = functions.iter().find(|(name, _)| *name == asked);
        let Some((name, function)) = found else {
            panic!("NARTHEX_FUZZ={asked:?}: there are {}", names.join(", "));
        };
        (*function, bound_of(&format!("{package}_{name}")))
    });
    alloc::bounded(data, bound.per_byte, bound.constant, function);
}

/// Calls [`run`] with the contents of each file that the command line names: what libFuzzer found, without libFuzzer.
///
/// # Panics
///
/// As [`run`], and if a file cannot be read or none is named.
pub fn run_files(package: &str, functions: &[(&str, Function)]) {
    let mut files = std::env::args_os().skip(1).map(PathBuf::from).peekable();
    assert!(
        files.peek().is_some(),
        "usage: NARTHEX_FUZZ=<function> {package} <file>..."
    );
    for file in files {
        let data = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        run(package, functions, &data);
    }
}

/// Converts the path of a function, `narthex_tsdb::fuzz::fuzz_wal`, to its unique name, `tsdb_wal`; `None` if it is not
/// a fuzz function.
pub(crate) fn name_of<F: ?Sized>() -> Option<String> {
    name_of_path(std::any::type_name::<F>())
}

fn name_of_path(path: &str) -> Option<String> {
    let (place, function) = path.rsplit_once("::")?;
    let name = function.strip_prefix("fuzz_")?;
    let package = place.split("::").next()?;
    let package = package.strip_prefix("narthex_").unwrap_or(package);
    Some(format!("{package}_{name}"))
}

/// Returns the bound of a function.
///
/// # Panics
///
/// If the table cannot be read, or has no line for it.
pub(crate) fn bound_of(name: &str) -> Bound {
    static TABLE: OnceLock<Vec<(String, Bound)>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let path = workspace_root().join(BOUNDS);
        let text = fs::read_to_string(&path).expect("the table of bounds is in the workspace");
        read_bounds(&text).expect("tidy has read it")
    });
    let line = table.iter().find(|(known, _)| known == name);
    let Some((_, bound)) = line else {
        panic!("{BOUNDS} does not say how much memory {name} may take");
    };
    *bound
}

/// Parses lines of a function's name, bytes per input byte, and constant bytes; `#` begins a comment.
///
/// # Errors
///
/// If a line is malformed; the text names it.
pub fn read_bounds(text: &str) -> Result<Vec<(String, Bound)>, String> {
    let read = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        let (per_byte, constant) = (number()?, number()?);
        let bound = Bound { per_byte, constant };
        words.next().is_none().then_some((name, bound))
    };
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .filter(|line| !line.trim().is_empty())
        .map(|line| read(line).ok_or_else(|| format!("{BOUNDS}: {line:?} is no bound")))
        .collect()
}

/// Writes the initial inputs of a function's tests below the directory that `NARTHEX_FUZZ_SEEDS` names, if it is set,
/// as libFuzzer's initial corpus.
///
/// # Panics
///
/// If the directory cannot be written.
pub(crate) fn write_seeds(name: &str, corpus: &[&[u8]]) {
    if let Some(dir) = std::env::var_os("NARTHEX_FUZZ_SEEDS") {
        seeds_into(Path::new(&dir), name, corpus);
    }
}

fn seeds_into(dir: &Path, name: &str, corpus: &[&[u8]]) {
    let dir = dir.join(name);
    fs::create_dir_all(&dir).expect("NARTHEX_FUZZ_SEEDS is a directory to write to");
    for item in corpus {
        // FNV-1a: the same input has the same name in every run.
        let hash = item.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        fs::write(dir.join(format!("{hash:016x}")), item).expect("a directory just made");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;

    fn fuzz_example(_: &[u8]) {}

    fn name<F>(_: F) -> Option<String> {
        name_of::<F>()
    }

    #[test]
    fn a_function_has_a_name() {
        assert_eq!(name(fuzz_example).as_deref(), Some("testkit_example"));
        assert_eq!(
            name_of_path("narthex::fuzz::fuzz_yaml").as_deref(),
            Some("narthex_yaml")
        );
        assert_eq!(name(|_: &[u8]| ()), None);
        assert_eq!(name(read_bounds), None);
    }

    #[test]
    fn the_table_is_read() {
        let bound = Bound {
            per_byte: 3,
            constant: 70,
        };
        let read = read_bounds("# x\n\na_b  3 70 # because\n");
        assert_eq!(read, Ok(vec![("a_b".to_owned(), bound)]));
        for bad in ["a_b 3", "a_b 3 4 5", "a_b three 4"] {
            assert!(read_bounds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    #[should_panic(expected = "does not say how much memory testkit_example may take")]
    fn a_function_without_a_bound_is_refused() {
        let _ = bound_of("testkit_example");
    }

    #[test]
    #[should_panic(expected = "there are example")]
    fn a_binary_runs_nothing_that_was_not_named() {
        run("testkit", &[("example", fuzz_example)], b"");
    }

    #[test]
    fn a_seed_is_written_once_under_its_function() {
        let dir = TempDir::new("seeds");
        seeds_into(dir.path(), "a_b", &[b"x", b"y"]);
        seeds_into(dir.path(), "a_b", &[b"x"]);
        let files = crate::corpora::files(&dir.join("a_b"), "");
        let mut texts: Vec<Vec<u8>> = files
            .iter()
            .map(|f| fs::read(f).expect("written"))
            .collect();
        texts.sort();
        assert_eq!(texts, [b"x", b"y"]);
    }
}
