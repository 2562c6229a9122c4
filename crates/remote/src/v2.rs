//! Remote write 2.0: `io.prometheus.write.v2.Request`.
//!
//! ```text
//! Request    = { 4: symbol, 5: TimeSeries }
//! TimeSeries = { 1: label refs, 2: Sample, 3: Histogram, 4: Exemplar, 5: Metadata }
//! Sample     = { 1: value, 2: timestamp, 3: start timestamp }
//! ```
//! Symbols are hashed once per request; a series' key combines its symbols' hashes.
//!
//! **Invariant:** a series with an index of no symbol is rejected; the others stay valid.

use crate::{
    error::RemoteError,
    histogram,
    incoming::{FloatSample, Incoming, IncomingSeries, KeyHasher, LabelSource, Objections},
    message::Message,
    v1::{EXEMPLAR_LABEL_BYTES, MAX_EXEMPLAR_BYTES, metric_type},
    wire::{Field, Reader, malformed},
};
use narthex_model::{Exemplar, LabelSet, METRIC_NAME, metadata::Family, storage::Budget};
use std::{collections::HashSet, fmt};

/// Symbols and derived data.
struct Symbols<'a> {
    texts: Vec<&'a [u8]>,
    keys: Vec<u128>,
}

/// Decodes a request.
///
/// # Errors
/// Fails if `body` is malformed.
pub(crate) fn decode<'a>(
    body: &'a [u8],
    hasher: &KeyHasher,
    memory: &Budget,
) -> Result<Incoming<'a>, RemoteError> {
    let mut incoming = Incoming::for_body(body, memory)?;
    let mut symbols = Symbols {
        texts: Vec::new(),
        keys: Vec::new(),
    };
    let mut reader = Reader::new(body);
    while let Some((number, field)) = reader.next()? {
        if number == 4 {
            let text = field.bytes()?;
            incoming.allowance.spend(size_of::<(&[u8], u128)>())?;
            symbols.texts.push(text);
            symbols.keys.push(hasher.key(text));
        }
    }
    let mut refs = Vec::new();
    let mut families = HashSet::default();
    let mut reader = Reader::new(body);
    while let Some((number, field)) = reader.next()? {
        if number == 5 {
            let (message, known) = (field.bytes()?, &mut families);
            time_series(message, &symbols, hasher, &mut refs, known, &mut incoming)?;
        }
    }
    incoming.labels = LabelSource::Symbols {
        symbols: symbols.texts,
        refs,
    };
    Ok(incoming)
}

/// Contents of a series' message other than samples.
#[derive(Default)]
struct Rest {
    metric_type: u32,
    help: u32,
    unit: u32,
    has_metadata: bool,
    exemplars: Vec<(Vec<u32>, f64, i64)>,
}

/// Families a request has described, by symbols: name, type, unit and help.
type KnownFamilies = HashSet<[u32; 4], foldhash::fast::RandomState>;

/// Error of a list of references.
#[derive(Clone, Copy, Debug)]
enum Problem {
    Odd { length: usize },
    Outside { name: u32, value: u32, size: usize },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Odd { length } => write!(f, "invalid labelRefs length {length}"),
            Self::Outside { name, value, size } => write!(
                f,
                "labelRefs {name} (name) = {value} (value) outside of symbols table (size {size})"
            ),
        }
    }
}

/// References as Go prints a list of numbers, truncated.
struct Refs<'a>(&'a [u32]);

impl fmt::Display for Refs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 200;
        let mut separator = "[";
        for at in self.0.iter().take(SHOWN) {
            write!(f, "{separator}{at}")?;
            separator = " ";
        }
        if self.0.is_empty() {
            f.write_str("[")?;
        }
        f.write_str(if self.0.len() > SHOWN { " ...]" } else { "]" })
    }
}

fn time_series(
    message: &[u8],
    symbols: &Symbols<'_>,
    hasher: &KeyHasher,
    refs: &mut Vec<u32>,
    families: &mut KnownFamilies,
    incoming: &mut Incoming<'_>,
) -> Result<(), RemoteError> {
    let number = |length: usize| u32::try_from(length).map_err(|_| malformed("too long"));
    incoming.allowance.spend(size_of::<IncomingSeries>())?;
    let series = number(incoming.series.len())?;
    let (first_ref, floats, histograms) =
        (refs.len(), incoming.floats.len(), incoming.histograms.len());
    let mut rest = Rest::default();
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => {
                incoming
                    .allowance
                    .spend(field.elements() * size_of::<u32>())?;
                field.each_varint(|at| refs.push(u32::try_from(at).unwrap_or(u32::MAX)))?;
            }
            2 => {
                let sample = sample(field.bytes()?, series)?;
                incoming.push_float(sample)?;
            }
            3 => {
                let decoded =
                    histogram::decode(field.bytes()?, Message::V2, &mut incoming.allowance)?;
                incoming.push_histogram(series, decoded);
            }
            4 => {
                let message = field.bytes()?;
                incoming
                    .allowance
                    .spend(2 * size_of::<Exemplar>() + message.len() * size_of::<u32>())?;
                rest.exemplars.push(exemplar(message)?);
            }
            5 => rest.metadata(field.bytes()?)?,
            _ => {}
        }
    }
    let own = &refs[first_ref..];
    let samples = incoming.floats.len() - floats + incoming.histograms.len() - histograms;
    let objections = &mut incoming.objections;
    let sound = match symbols.check(own) {
        Err(problem) => {
            objections.push_with(|| format!("parsing labels for series {}: {problem}", Refs(own)));
            false
        }
        Ok(()) => rest.check(own, symbols, objections),
    };
    if !sound {
        refs.truncate(first_ref);
        incoming.floats.truncate(floats);
        incoming.histograms.truncate(histograms);
        return Ok(());
    }
    if samples == 0 {
        let what = "TimeSeries must contain at least one sample or histogram for series";
        objections.push_with(|| format!("{what} {}", symbols.shown(own)));
        refs.truncate(first_ref);
        return Ok(());
    }
    rest.take_exemplars(series, symbols, own, incoming)?;
    if rest.has_metadata {
        rest.take_family(symbols, own, families, incoming)?;
    }
    let keys = own.iter().map(|at| symbols.keys[*at as usize]);
    incoming.series.push(IncomingSeries {
        key: hasher.fold(keys),
        labels: number(first_ref)?..number(refs.len())?,
        samples: number(samples)?,
    });
    Ok(())
}

impl Symbols<'_> {
    /// Checks a list of references.
    fn check(&self, refs: &[u32]) -> Result<(), Problem> {
        let size = self.texts.len();
        if !refs.len().is_multiple_of(2) {
            return Err(Problem::Odd { length: refs.len() });
        }
        let outside = |pair: &&[u32]| pair.iter().any(|at| *at as usize >= size);
        match refs.chunks_exact(2).find(outside) {
            Some(pair) => Err(Problem::Outside {
                name: pair[0],
                value: pair[1],
                size,
            }),
            None => Ok(()),
        }
    }

    /// Returns the total bytes of the symbols in a list.
    fn bytes(&self, refs: &[u32]) -> usize {
        let texts = refs.iter().filter_map(|at| self.texts.get(*at as usize));
        texts.map(|text| text.len()).sum()
    }

    /// Formats labels, unless they are too long to be read.
    fn shown(&self, refs: &[u32]) -> String {
        const SHOWN_BYTES: usize = 4 << 10;
        let bytes = self.bytes(refs) + refs.len();
        if bytes > SHOWN_BYTES {
            return format!("of {bytes} bytes of labels");
        }
        self.set(refs).to_string()
    }

    fn text(&self, at: u32) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.texts.get(at as usize).copied().unwrap_or_default())
    }

    fn set(&self, refs: &[u32]) -> LabelSet {
        let pairs: Vec<_> = refs
            .chunks_exact(2)
            .map(|pair| (self.text(pair[0]), self.text(pair[1])))
            .collect();
        LabelSet::new(pairs.iter().map(|(name, value)| (&**name, &**value)))
    }
}

impl Rest {
    fn metadata(&mut self, message: &[u8]) -> Result<(), RemoteError> {
        self.has_metadata = true;
        let mut reader = Reader::new(message);
        while let Some((number, field)) = reader.next()? {
            match number {
                1 => self.metric_type = field.uint32()?,
                3 => self.help = field.uint32()?,
                4 => self.unit = field.uint32()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reports whether the metadata's references are valid, adding objections if not.
    fn check(&self, refs: &[u32], symbols: &Symbols<'_>, objections: &mut Objections) -> bool {
        let size = symbols.texts.len();
        for (what, at) in [("unit_ref", self.unit), ("help_ref", self.help)] {
            if at as usize >= size {
                objections.push_with(|| {
                    format!(
                        "parsing metadata for series {}: metadata {what} {at} outside of symbols table (size {size})",
                        Refs(refs)
                    )
                });
                return false;
            }
        }
        true
    }

    fn take_exemplars(
        &mut self,
        series: u32,
        symbols: &Symbols<'_>,
        own: &[u32],
        incoming: &mut Incoming<'_>,
    ) -> Result<(), RemoteError> {
        for (refs, value, time_ms) in self.exemplars.drain(..) {
            if let Err(problem) = symbols.check(&refs) {
                incoming.objections.push_with(|| {
                    format!(
                        "parsing exemplar for series {}: {problem}",
                        symbols.shown(own)
                    )
                });
                continue;
            }
            // A symbol may have any length, and may be used any number of times.
            let bytes = symbols.bytes(&refs);
            if bytes > MAX_EXEMPLAR_BYTES || refs.len() > MAX_EXEMPLAR_BYTES {
                continue;
            }
            let labels = refs.len() / 2 * EXEMPLAR_LABEL_BYTES;
            incoming.allowance.lease(labels + bytes)?;
            let exemplar = Exemplar {
                labels: symbols.set(&refs),
                value,
                time_ms: Some(time_ms).filter(|time_ms| *time_ms != 0),
            };
            incoming.exemplars.push((series, exemplar));
        }
        Ok(())
    }

    /// Records the metadata, which belongs to the family of the series.
    fn take_family(
        &self,
        symbols: &Symbols<'_>,
        own: &[u32],
        known: &mut KnownFamilies,
        incoming: &mut Incoming<'_>,
    ) -> Result<(), RemoteError> {
        let name = own
            .chunks_exact(2)
            .find(|pair| symbols.texts[pair[0] as usize] == METRIC_NAME.as_bytes())
            .map(|pair| pair[1]);
        let Some(name) = name else { return Ok(()) };
        // All series of a family repeat its metadata with the same symbols.
        if !known.insert([name, self.metric_type, self.unit, self.help]) {
            return Ok(());
        }
        let texts = symbols.bytes(&[name, self.unit, self.help]);
        incoming.allowance.spend(2 * size_of::<Family>() + texts)?;
        let metric_type = metric_type(self.metric_type);
        incoming.families.push(Family {
            name: family_name(&symbols.text(name), metric_type).into(),
            metric_type,
            unit: symbols.text(self.unit).into(),
            help: symbols.text(self.help).into(),
        });
        Ok(())
    }
}

/// Returns the family's name: the series' name without the suffix of its type.
fn family_name(name: &str, metric_type: narthex_model::MetricType) -> &str {
    use narthex_model::MetricType as Type;
    let suffixes: &[&str] = match metric_type {
        Type::Histogram => &["_bucket", "_sum", "_count"],
        Type::GaugeHistogram => &["_bucket", "_gsum", "_gcount"],
        Type::Summary => &["_sum", "_count"],
        _ => &[],
    };
    suffixes
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}

fn sample(message: &[u8], series: u32) -> Result<FloatSample, RemoteError> {
    let mut sample = FloatSample {
        series,
        time_ms: 0,
        start_ms: 0,
        value: 0.0,
    };
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => sample.value = field.double()?,
            2 => sample.time_ms = field.int64()?,
            3 => sample.start_ms = field.int64()?,
            _ => {}
        }
    }
    Ok(sample)
}

fn exemplar(message: &[u8]) -> Result<(Vec<u32>, f64, i64), RemoteError> {
    let (mut refs, mut value, mut time_ms) = (Vec::new(), 0.0, 0);
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        match (number, field) {
            (1, field) => {
                field.each_varint(|at| refs.push(u32::try_from(at).unwrap_or(u32::MAX)))?;
            }
            (2, field) => value = field.double()?,
            (3, Field::Varint(time)) => time_ms = time.cast_signed(),
            (3, _) => return Err(malformed("wrong wireType")),
            _ => {}
        }
    }
    Ok((refs, value, time_ms))
}

#[cfg(test)]
mod tests;
