//! Journal records: changes of a group, as bytes. See docs/format/push-journal.md.
//!
//! **Invariant:** a record names its group by labels and its families by name, so that it means the same in any file.
//! Reading allocates no more than a small multiple of the bytes read.

mod read;
mod write;

use crate::{
    family::{Numbers, Shape},
    grouping::Grouping,
    state::{PushIds, Settings},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

pub(crate) use read::apply;
pub(crate) use write::{deletion, failure, push, state};

/// A push and a whole group as version 1 had them, which are only read.
const PUSH_V1: u8 = 1;
const STATE_V1: u8 = 2;
const FAILURE: u8 = 3;
const DELETION: u8 = 4;
const PUSH: u8 = 5;
const STATE: u8 = 6;

const SAME: u8 = 0;
const NUMBERS: u8 = 1;
const WHOLE: u8 = 2;

/// A group restored from the journal.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub(crate) families: BTreeMap<String, (Numbers, Arc<Shape>, i64)>,
    pub(crate) pushed_ns: i64,
    pub(crate) failed_ns: i64,
    pub(crate) settings: Settings,
    pub(crate) ids: PushIds,
}

/// Groups by their labels.
pub(crate) type Groups = HashMap<Grouping, Restored>;
