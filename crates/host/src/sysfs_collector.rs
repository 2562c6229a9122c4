//! Series whose values are small files of their own, as in sysfs: found at a refresh, read every round.
//!
//! A collector describes the expected series between `begin` and `end`; known ones keep their series and open files,
//! and those not described again are retired.
//!
//! Invariant: between two descriptions a round is one `pread` per file. A file that can't be read or contains no number
//! omits its values and requests a new description; other files are unaffected.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::open_file::{End, OpenFile, ReadBuf, read_once};
use crate::ordered_cache::OrderedCache;
use crate::scan::{float, label_text, next_field, next_line, section_lines, trim};
use crate::sink::{Desc, Sink, Slot};
use crate::sysdir;

/// Conversion of a file's text to a value.
#[derive(Debug, Clone)]
pub(crate) enum Decode {
    /// A number times a factor.
    Times(f64),
    /// A number divided.
    Over(f64),
    /// 1 if the text equals this one, else 0.
    Is(Box<str>),
    /// The number at this position of the line that begins with this word; 0 if there is no such line or position.
    Cell(&'static str, usize),
    /// The first number of that line, divided.
    CellOver(&'static str, f64),
    /// The field at this position of the line that begins with this word, converted.
    Field(Box<str>, usize, fn(&[u8]) -> Option<f64>),
    /// The number after this word in the section that begins with this line.
    InSection(Box<str>, Box<str>),
    /// Any other conversion.
    With(fn(&[u8]) -> Option<f64>),
}

impl Decode {
    /// A number without conversion.
    pub(crate) const PLAIN: Self = Self::Times(1.0);

    pub(crate) fn decode(&self, text: &[u8]) -> Option<f64> {
        match self {
            Self::Times(factor) => float(trim(text)).map(|value| value * factor),
            Self::Over(divisor) => float(trim(text)).map(|value| value / divisor),
            Self::Is(wanted) => Some(f64::from(u8::from(trim(text) == wanted.as_bytes()))),
            Self::Cell(word, place) => cell(text, word.as_bytes(), *place),
            Self::CellOver(word, divisor) => {
                cell(text, word.as_bytes(), 0).map(|value| value / divisor)
            }
            Self::Field(word, place, decode) => decode(field(text, word.as_bytes(), *place)?),
            Self::InSection(section, word) => in_section(text, section, word),
            Self::With(decode) => decode(trim(text)),
        }
    }
}

/// A collector all of whose values are small files.
pub(crate) struct SysfsCollector {
    path: PathBuf,
    describe: Box<Describe>,
    files: SysfsFiles,
}

/// Describes every series of what is at a path. Fails with `NoData` if the machine has none of these devices, with other
/// errors if that can't be determined.
type Describe = dyn Fn(&Path, &mut Plan<'_>) -> Result<(), HostError> + Send;

impl SysfsCollector {
    pub(crate) fn new(
        path: PathBuf,
        describe: impl Fn(&Path, &mut Plan<'_>) -> Result<(), HostError> + Send + 'static,
    ) -> Self {
        Self {
            path,
            describe: Box::new(describe),
            files: SysfsFiles::new(),
        }
    }
}

impl Collector for SysfsCollector {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let Self {
            path,
            describe,
            files,
        } = self;
        files.run(ctx, out, |plan| describe(path, plan))
    }
}

/// A description in progress.
pub(crate) struct Plan<'a> {
    files: &'a mut SysfsFiles,
    buf: &'a mut ReadBuf,
    out: &'a mut Sink,
}

impl Plan<'_> {
    /// Describes a series whose value does not change before the next description.
    pub(crate) fn fixed(&mut self, desc: &Desc<'_>, labels: &[(&str, &str)], value: f64) {
        let key = key(desc, labels);
        match self.files.fixed.find(|other, _| *other == key) {
            Some((_, known)) => *known = value,
            None => {
                let slot = self.out.add(desc, labels);
                self.files.fixed.insert(key, (slot, value));
            }
        }
    }

    /// Describes a series whose value is in the file at `path`. Does nothing if the file has no value.
    pub(crate) fn file(
        &mut self,
        desc: &Desc<'_>,
        labels: &[(&str, &str)],
        path: &Path,
        decode: Decode,
    ) {
        let key = key(desc, labels);
        let lines = self.files.lines(path);
        let known = lines.outputs.position(|other, _| *other == key);
        if let Some((at, _)) = known
            && !lines.outputs.at(at).failed
        {
            lines.outputs.at(at).decode = decode;
            return;
        }
        let read = lines.file.read(self.buf, End::Short);
        let failed = read.ok().and_then(|text| decode.decode(text)).is_none();
        match known {
            Some((at, _)) => {
                let output = lines.outputs.at(at);
                output.decode = decode;
                output.failed = failed;
            }
            None if !failed => {
                let output = Output {
                    slot: self.out.add(desc, labels),
                    decode,
                    failed,
                };
                lines.outputs.insert(key, output);
            }
            None => {}
        }
    }

    /// As `file`; a missing file has this value.
    pub(crate) fn file_or(
        &mut self,
        desc: &Desc<'_>,
        labels: &[(&str, &str)],
        path: &Path,
        decode: Decode,
        missing: f64,
    ) {
        match path.exists() {
            true => self.file(desc, labels, path, decode),
            false => self.fixed(desc, labels, missing),
        }
    }

    /// Returns a file's text as a label value, and compares it in every round. `None` if it can't be read.
    pub(crate) fn label(&mut self, path: &Path) -> Option<String> {
        let lines = self.files.lines(path);
        let text = lines.file.read(self.buf, End::Short).ok()?;
        lines.label = Some(text.into());
        Some(label_text(trim(text)))
    }

    /// Returns the text of a file that does not change before the next description. `None` if it can't be read.
    pub(crate) fn text(&mut self, path: &Path) -> Option<String> {
        sysdir::text(path, self.buf)
    }

    /// Returns a number from a file that does not change before the next description.
    pub(crate) fn number(&mut self, path: &Path) -> Option<f64> {
        read_once(path, self.buf).and_then(|text| float(trim(text)))
    }

    /// Reads a whole file. `None` if it can't be read.
    pub(crate) fn bytes(&mut self, path: &Path) -> Option<&[u8]> {
        read_once(path, self.buf)
    }
}

/// Returns the field at a position of the line that begins with `word`.
fn field<'a>(mut text: &'a [u8], word: &[u8], place: usize) -> Option<&'a [u8]> {
    while let Some(mut line) = next_line(&mut text) {
        if next_field(&mut line) != Some(word) {
            continue;
        }
        for _ in 0..place {
            next_field(&mut line);
        }
        return next_field(&mut line);
    }
    None
}

fn in_section(text: &[u8], section: &str, word: &str) -> Option<f64> {
    let mut value = None;
    section_lines(text, section.as_bytes(), |known, text| {
        if known == word.as_bytes() {
            value = float(text);
        }
    });
    value
}

fn cell(text: &[u8], word: &[u8], place: usize) -> Option<f64> {
    field(text, word, place).map_or(Some(0.0), float)
}

/// The files and series of one collector.
pub(crate) struct SysfsFiles {
    /// By path.
    files: OrderedCache<Box<[u8]>, Lines>,
    fixed: OrderedCache<Box<str>, (Slot, f64)>,
    described: bool,
    /// Whether the text of a label has changed.
    relabelled: bool,
}

/// A file and the values read from it.
struct Lines {
    file: OpenFile,
    outputs: OrderedCache<Box<str>, Output>,
    /// Text used in labels: a change requests a new description.
    label: Option<Box<[u8]>>,
}

struct Output {
    slot: Slot,
    decode: Decode,
    /// Whether the last round had no value.
    failed: bool,
}

impl SysfsFiles {
    pub(crate) fn new() -> Self {
        Self {
            files: OrderedCache::new(),
            fixed: OrderedCache::new(),
            described: false,
            relabelled: false,
        }
    }

    /// Describes if it is due, reads every file and sets every value. A changed label text causes a new description in
    /// the same round.
    ///
    /// # Errors
    ///
    /// Returns the errors of `describe`. Previous series stay, without values.
    pub(crate) fn run(
        &mut self,
        ctx: &mut Ctx<'_>,
        out: &mut Sink,
        mut describe: impl FnMut(&mut Plan<'_>) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        if ctx.refresh || !self.described {
            self.describe(ctx.buf, out, &mut describe)?;
        }
        self.relabelled = false;
        self.set(ctx.buf, out);
        if self.relabelled {
            self.describe(ctx.buf, out, &mut describe)?;
            self.set(ctx.buf, out);
        }
        Ok(())
    }

    /// Retires everything.
    pub(crate) fn clear(&mut self, out: &mut Sink) {
        self.begin();
        self.end(out);
        self.described = false;
    }

    fn describe(
        &mut self,
        buf: &mut ReadBuf,
        out: &mut Sink,
        describe: &mut impl FnMut(&mut Plan<'_>) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        self.begin();
        let files = &mut *self;
        describe(&mut Plan { files, buf, out })?;
        self.end(out);
        Ok(())
    }

    fn begin(&mut self) {
        self.described = false;
        self.files.begin();
        self.fixed.begin();
    }

    /// Ends a description: retires series that were not described, or still can't be read.
    fn end(&mut self, out: &mut Sink) {
        self.files.sweep(|_, mut lines| {
            let outputs = lines.outputs.values_mut();
            outputs.for_each(|(_, output)| out.retire(output.slot));
        });
        self.files.retain(|_, lines| {
            lines.outputs.sweep(|_, output| out.retire(output.slot));
            lines.outputs.retain(|_, output| {
                if output.failed {
                    out.retire(output.slot);
                }
                !output.failed
            });
            lines.label.is_some() || lines.outputs.values_mut().next().is_some()
        });
        self.fixed.sweep(|_, (slot, _)| out.retire(slot));
        self.described = true;
    }

    /// Reads every file and sets every value.
    fn set(&mut self, buf: &mut ReadBuf, out: &mut Sink) {
        for (_, (slot, value)) in self.fixed.values_mut() {
            out.set(*slot, *value);
        }
        for (_, lines) in self.files.values_mut() {
            let text = lines.file.read(buf, End::Short).ok();
            if lines.label.is_some() && lines.label.as_deref() != text {
                self.relabelled = true;
            }
            for (_, output) in lines.outputs.values_mut() {
                match text.and_then(|text| output.decode.decode(text)) {
                    Some(value) => out.set(output.slot, value),
                    None => {
                        output.failed = true;
                        self.described = false;
                    }
                }
            }
        }
    }

    /// Finds the file at `path`, or adds it.
    fn lines(&mut self, path: &Path) -> &mut Lines {
        let name = path.as_os_str().as_bytes();
        match self.files.position(|known, _| **known == *name) {
            Some((at, was_seen)) => {
                let lines = self.files.at(at);
                if !was_seen {
                    lines.outputs.begin();
                    lines.label = None;
                }
                lines
            }
            None => {
                let mut outputs = OrderedCache::new();
                outputs.begin();
                let lines = Lines {
                    file: OpenFile::new(path.to_path_buf()),
                    outputs,
                    label: None,
                };
                self.files.insert(name.into(), lines)
            }
        }
    }
}

/// Returns a series' identity: its family and labels, separated by bytes that no label contains.
fn key(desc: &Desc<'_>, labels: &[(&str, &str)]) -> Box<str> {
    let mut key = String::from(desc.name);
    for (name, value) in labels {
        key.push('\0');
        key.push_str(name);
        key.push('\u{1}');
        key.push_str(value);
    }
    key.into()
}

#[cfg(test)]
mod tests;
