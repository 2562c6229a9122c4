//! The scraped page: the gateway's own metrics and those of all groups.
//!
//! **Invariant:** a page shows the groups as they were when the scrape began, and is made while it is sent. It takes no
//! lock that a push holds while it works. Only a family whose type differs from that in other groups is left out.

mod messages;
mod out;

use crate::{
    family::{self, View, type_word},
    gauges::{self, GROUP_GAUGES, GroupGauge},
    group::Group,
    layout::Layout,
    metrics,
    state::State,
    text::{Gap, GroupLabels, Text, write_group_labels, write_sample},
};
use narthex_client::{Registry, write_number};
use narthex_expfmt::{Escaping, Negotiated};
use narthex_model::MetricType;
use out::Repeats;
pub(crate) use out::{Out, Plain};
use std::{collections::HashMap, ops::Range, sync::Arc};

/// Steps of a text that are written at once.
const STEPS: usize = 1024;

/// A group and its state when the scrape began.
type Seen = (Arc<Group>, Arc<State>);

/// A page, and how much of it has been written.
pub(crate) struct Page {
    /// Families, ordered by name.
    entries: Vec<Entry>,
    own: String,
    groups: Vec<Seen>,
    now_ns: i64,
    escaping: Escaping,
    /// What lines are made of if names are not escaped as usual.
    escaped: Option<Escaped>,
    place: Place,
}

struct Entry {
    name: Arc<str>,
    /// The gateway's own samples, with their comment lines.
    own: Option<Range<usize>>,
    /// The type, once something has one.
    word: Option<&'static str>,
    pushed: Vec<Pushed>,
}

/// A family of a group: both by index.
#[derive(Clone, Copy)]
struct Pushed {
    group: u32,
    family: u32,
}

/// How much of a page has been written.
#[derive(Default)]
struct Place {
    entry: usize,
    /// Whether the comment lines of the entry have.
    has_head: bool,
    pushed: usize,
    step: usize,
    repeats: Repeats,
}

struct Escaped {
    /// Texts of the families of each layout, by its address.
    texts: HashMap<usize, Vec<Text>>,
    labels: Vec<GroupLabels>,
}

/// Returns the format for an `Accept` header; OpenMetrics is not offered.
pub(crate) fn negotiate(accept: &str) -> Negotiated {
    let clauses = accept
        .split(',')
        .filter(|clause| !clause.contains("openmetrics"));
    Negotiated::from_accept(&clauses.collect::<Vec<_>>().join(","))
}

/// Lists the families of a registry with their types.
#[must_use]
pub fn own_families(own: &Registry) -> Vec<(String, MetricType)> {
    let text = own_text(own);
    let typed = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut all: Vec<(String, MetricType)> = typed
        .map(|(name, word)| {
            (
                name.to_owned(),
                MetricType::from_name(word).unwrap_or_default(),
            )
        })
        .collect();
    let gauges = GROUP_GAUGES.iter();
    all.extend(gauges.map(|gauge| (gauge.name.to_owned(), MetricType::Gauge)));
    all
}

fn own_text(own: &Registry) -> String {
    let mut text = Vec::new();
    own.encode_text(&mut text);
    String::from_utf8(text).unwrap_or_default()
}

impl Page {
    /// Begins a page of `groups` at `now_ns`; `own` holds the gateway's own metrics.
    pub(crate) fn new(
        groups: Vec<Arc<Group>>,
        now_ns: i64,
        own: &Registry,
        escaping: Escaping,
    ) -> Self {
        let groups = groups.into_iter().map(|group| {
            let state = group.state();
            (group, state)
        });
        let mut page = Self {
            entries: Vec::new(),
            own: own_text(own),
            groups: groups.collect(),
            now_ns,
            escaping,
            escaped: None,
            place: Place::default(),
        };
        if escaping != Escaping::Underscores {
            page.escaped = Some(Escaped::new(&page.groups, escaping));
        }
        page.list();
        page
    }

    /// Lists what each family consists of.
    fn list(&mut self) {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: HashMap<Arc<str>, usize> = HashMap::new();
        for block in blocks(&self.own) {
            let text = &self.own[block.clone()];
            let name: Arc<str> = text.split(' ').nth(2).unwrap_or_default().into();
            places.insert(Arc::clone(&name), entries.len());
            let typed = format!("# TYPE {name} ");
            let word = text.lines().find_map(|line| line.strip_prefix(&typed));
            let word = word.and_then(MetricType::from_name).map(type_word);
            entries.push(Entry {
                own: Some(block),
                word,
                ..Entry::new(name)
            });
        }
        let gauges = GROUP_GAUGES.iter();
        entries.extend(gauges.map(|gauge| Entry::new(gauge.name.into())));
        // Where the families of a layout go, and nowhere if their type is another one there.
        let mut known: HashMap<usize, Vec<Option<usize>>> = HashMap::new();
        for (group, (_, state)) in (0..).zip(&self.groups) {
            let layout = &state.contents.layout;
            let into = known.entry(Arc::as_ptr(layout).addr()).or_insert_with(|| {
                let each = layout.families.iter().map(|shape| {
                    let at = *places.entry(Arc::clone(&shape.name)).or_insert_with(|| {
                        entries.push(Entry::new(Arc::clone(&shape.name)));
                        entries.len() - 1
                    });
                    let word = type_word(shape.metric_type);
                    (*entries[at].word.get_or_insert(word) == word).then_some(at)
                });
                each.collect()
            });
            for (family, at) in (0..).zip(into) {
                match at {
                    Some(at) => entries[*at].pushed.push(Pushed { group, family }),
                    None => metrics::HIDDEN.inc(),
                }
            }
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.entries = entries;
    }

    /// Returns a group and its family.
    fn pushed(&self, pushed: Pushed) -> (&Group, View<'_>) {
        let (group, state) = &self.groups[pushed.group as usize];
        (group, state.contents.family(pushed.family as usize))
    }

    /// Returns the lines of a group's family, and the group's labels for them.
    fn text(&self, pushed: Pushed) -> (&Text, &GroupLabels) {
        let (group, state) = &self.groups[pushed.group as usize];
        let (layout, family) = (&state.contents.layout, pushed.family as usize);
        let escaped = self.escaped.as_ref();
        let escaped = escaped.and_then(|escaped| {
            let texts = escaped.texts.get(&Arc::as_ptr(layout).addr())?;
            Some((&texts[family], &escaped.labels[pushed.group as usize]))
        });
        escaped.unwrap_or_else(|| (layout.text(family), &group.labels))
    }

    /// Returns the groups that have a gauge, with its value.
    fn gauged(&self, gauge: &'static GroupGauge) -> impl Iterator<Item = (&Group, f64)> {
        let value = |state: &State| (gauge.value)(state, self.now_ns);
        let groups = self.groups.iter();
        groups.filter_map(move |(group, state)| Some((&**group, value(state)?)))
    }

    /// Writes on in the text format until `out` is full; returns whether there is more.
    pub(crate) fn write(&mut self, out: &mut impl Out) -> bool {
        let mut place = std::mem::take(&mut self.place);
        while let Some(entry) = self.entries.get(place.entry) {
            if !place.has_head {
                out.append(|out| self.put_head(out, entry));
                place.has_head = true;
            }
            while place.pushed < entry.pushed.len() && !out.is_full() {
                self.put_lines(out, entry, &mut place);
            }
            if out.is_full() {
                break;
            }
            place = Place {
                entry: place.entry + 1,
                repeats: place.repeats,
                ..Place::default()
            };
        }
        self.place = place;
        self.place.entry < self.entries.len()
    }

    /// Begins again.
    pub(crate) fn restart(&mut self) {
        self.place = Place::default();
    }

    /// Writes everything before pushed lines.
    fn put_head(&self, out: &mut Vec<u8>, entry: &Entry) {
        if let Some(gauge) = gauges::find(&entry.name) {
            return self.put_gauge(out, gauge);
        }
        match (&entry.own, entry.pushed.first()) {
            (Some(block), _) => out.extend_from_slice(&self.own.as_bytes()[block.clone()]),
            (None, Some(first)) => {
                family::write_head(out, self.pushed(*first).1.shape, self.escaping);
            }
            (None, None) => {}
        }
    }

    /// Writes some of the lines of a group's family.
    fn put_lines(&self, out: &mut impl Out, entry: &Entry, place: &mut Place) {
        let pushed = entry.pushed[place.pushed];
        let (_, family) = self.pushed(pushed);
        let (text, labels) = self.text(pushed);
        let labels = text.labels_of(labels);
        let end = (place.step + STEPS).min(text.len());
        let steps = place.step..end;
        let mut repeats = place.repeats.for_steps(text, steps.clone());
        for (piece, gap) in text.steps(steps) {
            repeats.piece(out, piece);
            match gap {
                Gap::Labels(run) => repeats.labels(out, labels[run as usize]),
                number => {
                    out.append(|out| write_sample(out, family, number));
                    repeats.line_ended();
                }
            }
        }
        place.step = end;
        if end == text.len() {
            place.step = 0;
            place.pushed += 1;
        }
    }

    fn put_gauge(&self, out: &mut Vec<u8>, gauge: &'static GroupGauge) {
        let (name, help) = (gauge.name, gauge.help);
        for (at, (group, value)) in self.gauged(gauge).enumerate() {
            if at == 0 {
                let head = format!("# HELP {name} {help}\n# TYPE {name} gauge\n");
                out.extend_from_slice(head.as_bytes());
            }
            out.extend_from_slice(name.as_bytes());
            if self.escaping == Escaping::Underscores {
                out.extend_from_slice(&group.gauge_labels);
            } else {
                write_group_labels(out, &group.grouping, self.escaping);
            }
            out.push(b' ');
            write_number(out, value);
            out.push(b'\n');
        }
    }
}

impl Entry {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            own: None,
            word: None,
            pushed: Vec::new(),
        }
    }
}

impl Escaped {
    fn new(groups: &[Seen], escaping: Escaping) -> Self {
        let mut texts: HashMap<usize, Vec<Text>> = HashMap::new();
        for (_, state) in groups {
            let layout: &Arc<Layout> = &state.contents.layout;
            texts.entry(Arc::as_ptr(layout).addr()).or_insert_with(|| {
                let shapes = layout.families.iter();
                shapes
                    .map(|shape| Text::new(shape, &layout.names, escaping))
                    .collect()
            });
        }
        let labels = groups.iter();
        let labels = labels.map(|(group, _)| GroupLabels::new(&group.grouping, escaping));
        Self {
            texts,
            labels: labels.collect(),
        }
    }
}

/// Returns where the families of the registry's page are, each of which begins with a HELP line.
fn blocks(own: &str) -> Vec<Range<usize>> {
    let starts = own.match_indices("# HELP ").map(|(at, _)| at);
    let mut starts: Vec<usize> = starts
        .filter(|at| *at == 0 || own[..*at].ends_with('\n'))
        .collect();
    starts.push(own.len());
    starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}
