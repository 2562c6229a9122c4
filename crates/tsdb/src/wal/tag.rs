//! The first byte of each record.

pub(super) const SET: u8 = 1;
pub(super) const FAMILY: u8 = 2;
pub(super) const STRIP: u8 = 3;
pub(super) const GROW: u8 = 4;
pub(super) const ROW: u8 = 5;
pub(super) const OUT_OF_ORDER: u8 = 6;
pub(super) const STARTS: u8 = 7;
pub(super) const EXEMPLAR: u8 = 8;
pub(super) const KEY_ROW: u8 = 9;
pub(super) const WIDE_ROW: u8 = 10;
pub(super) const SYMBOLS: u8 = 11;
pub(super) const CHECKPOINT: u8 = 12;
