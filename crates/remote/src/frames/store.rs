//! Stores requests of sessions.

use super::{
    CELLS,
    collect::Collect,
    head::Head,
    session::{Columns, Session, lost},
};
use crate::{
    entries::NextEntry,
    error::RemoteError,
    incoming::{Incoming, LabelSource},
    labels,
    message::Message,
    place::Place,
    queue::{Malformed, Symbols, crc32c},
    receiver::{Placed, Receiver, Stored, UnplacedSeries, epoch_of},
    refusals::Refusals,
    series_cache::NewSeries,
    v1::metric_type,
    wire::malformed,
};
use narthex_model::{
    metadata::Family,
    storage::{Lease, Pressure},
};

impl Receiver {
    /// Stores a decompressed request of a session.
    ///
    /// # Errors
    /// Fails if the request does not continue its session, which is then forgotten, or cannot be stored.
    pub(crate) fn store_frames(&self, body: &[u8]) -> Result<Stored, RemoteError> {
        let head = Head::read(body).map_err(|Malformed(what)| malformed(what))?;
        let now_ms = self.now_ms();
        let entry = self.sessions.find(&head, &self.series_memory, now_ms)?;
        let crc = crc32c(&[body]);
        let Ok(mut state) = entry.state.lock() else {
            // A request of the session panicked.
            self.sessions.forget(&head.session);
            return Err(lost("the session ended"));
        };
        let Some(session) = &mut *state else {
            return Err(lost("the session ended"));
        };
        if let Some(answer) = session.answer_again(head.sequence, crc) {
            return Ok(answer);
        }
        let stored = if head.sequence == session.next {
            self.store_round(session, &head, now_ms)
        } else {
            Err(lost("another request of the session comes next"))
        };
        match &stored {
            Ok((written, refused)) => session.finish(crc, *written, refused.as_ref()),
            Err(_) => {
                *state = None;
                drop(state);
                self.sessions.forget(&head.session);
            }
        }
        stored
    }

    fn store_round(
        &self,
        session: &mut Session,
        head: &Head<'_>,
        now_ms: i64,
    ) -> Result<Stored, RemoteError> {
        let Session {
            decoder,
            columns,
            families,
            lease,
            ..
        } = session;
        let mut incoming = Incoming::for_body(&[], &self.memory)?;
        let mut collect = Collect::new(columns, &mut incoming, &self.hasher);
        let decoded = decoder.records_from_outside(head.records, CELLS, &mut collect);
        collect.finish()?;
        let samples = decoded.map_err(|error| match error {
            Ok(Malformed(what)) => lost(what),
            Err(over) => over.into(),
        })?;
        if samples != head.samples {
            return Err(lost("samples refer to what was not defined"));
        }
        lease_columns(lease, columns)?;
        let symbols = decoder.symbols();
        incoming.families = new_families(symbols, *families);
        *families += incoming.families.len();
        let _watch = self.watch();
        let epoch = epoch_of(now_ms);
        self.sweep(epoch)?;
        let mut refusals = Refusals {
            message: Message::Frames,
            texts: std::mem::take(&mut incoming.objections),
        };
        let placed = self.places_of(columns, symbols, &mut incoming, epoch, &mut refusals)?;
        let written = self.store_placed(&incoming, &placed, now_ms, &mut refusals);
        columns.places = placed.places;
        let written = written?;
        self.note_ends(&incoming, epoch, |series| {
            let column = &mut columns.series[series as usize];
            // Sent again, it is looked up again.
            column.epoch = 0;
            column.key
        })?;
        Ok((written, refusals.finish()))
    }

    /// Finds the places of a request's series that were not looked up in this epoch.
    fn places_of(
        &self,
        columns: &mut Columns,
        symbols: &Symbols,
        incoming: &mut Incoming<'_>,
        epoch: u32,
        refusals: &mut Refusals,
    ) -> Result<Placed, RemoteError> {
        let cache = self.series_cache()?;
        let generation = cache.generation();
        if columns.generation != generation {
            columns.series.iter_mut().for_each(|one| one.epoch = 0);
            columns.generation = generation;
        }
        let (mut unknown, mut next) = (Vec::new(), NextEntry::default());
        let floats = incoming.floats.iter().map(|sample| sample.series);
        let histograms = incoming.histograms.iter().map(|sample| sample.series);
        let exemplars = incoming.exemplars.iter().map(|(series, _)| *series);
        for series in floats.chain(histograms).chain(exemplars) {
            let column = &mut columns.series[series as usize];
            if column.epoch == epoch {
                continue;
            }
            column.epoch = epoch;
            let place = cache.find(column.key, epoch, &mut next);
            columns.places[series as usize] = place.unwrap_or_else(|| {
                unknown.push(series);
                Place::NOWHERE
            });
        }
        drop(cache);
        let unplaced = self.place(columns, &unknown, symbols, incoming, epoch, refusals);
        if unplaced.is_err() {
            // The session is forgotten, and its places with it.
            columns.places.clear();
        }
        Ok(Placed {
            places: std::mem::take(&mut columns.places),
            generation,
            unplaced: unplaced?,
        })
    }

    /// Gives places to series that have none; returns those that get none because memory is short.
    fn place(
        &self,
        columns: &mut Columns,
        unknown: &[u32],
        symbols: &Symbols,
        incoming: &mut Incoming<'_>,
        epoch: u32,
        refusals: &mut Refusals,
    ) -> Result<UnplacedSeries, RemoteError> {
        let mut unplaced = UnplacedSeries::default();
        if unknown.is_empty() {
            return Ok(unplaced);
        }
        let is_short = self.memory.pressure() >= Pressure::RefuseSeries;
        let mut new = Vec::new();
        for series in unknown {
            let column = &mut columns.series[*series as usize];
            let (mut texts, mut refs) = (Vec::new(), Vec::new());
            column.series.each_label(symbols, |_, name, value| {
                refs.extend([texts.len() as u32, texts.len() as u32 + 1]);
                texts.extend([name, value]);
            });
            let all = 0..refs.len() as u32;
            let source = LabelSource::Symbols {
                symbols: texts,
                refs,
            };
            match labels::resolve(&source, &all, &mut incoming.allowance)? {
                Ok(labels) if is_short => {
                    column.epoch = 0;
                    unplaced.insert(*series, labels);
                }
                Ok(labels) => new.push(NewSeries {
                    key: column.key,
                    labels,
                }),
                Err(objection) => {
                    column.epoch = 0;
                    refusals.invalid_labels(objection, 1);
                }
            }
        }
        self.add_series(new, columns.generation, epoch)?;
        let (cache, mut next) = (self.series_cache()?, NextEntry::default());
        for series in unknown {
            let key = columns.series[*series as usize].key;
            let place = cache.find(key, epoch, &mut next);
            columns.places[*series as usize] = place.unwrap_or(Place::NOWHERE);
        }
        Ok(unplaced)
    }
}

/// Leases what a session's columns hold.
fn lease_columns(lease: &mut Lease, columns: &Columns) -> Result<(), RemoteError> {
    let bytes = columns.heap_bytes() as u64;
    if bytes > lease.bytes() {
        lease.resize(bytes)?;
    }
    Ok(())
}

/// Returns the families that are defined behind the first `known`.
fn new_families(symbols: &Symbols, known: usize) -> Vec<Family> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let families = symbols.families().skip(known);
    families
        .map(|family| Family {
            name: text(family.name).into(),
            metric_type: metric_type(u32::from(family.metric_type)),
            unit: text(family.unit).into(),
            help: text(family.help).into(),
        })
        .collect()
}
