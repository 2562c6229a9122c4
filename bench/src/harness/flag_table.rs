//! Tables of flags, one row each.

/// Builds a table: `[name: VALUE = default, help]`, `[list name: VALUE, help]`, `[switch name, help]`, or `[= FLAG]`.
macro_rules! flags {
    (@ = $flag:expr) => { $flag };
    (@ list $name:literal: $value:literal, $help:expr) => {
        $crate::harness::cli::Flag::list($name, $value, $help)
    };
    (@ switch $name:literal, $help:expr) => {
        $crate::harness::cli::Flag::switch($name, $help)
    };
    (@ $name:literal: $value:literal = $default:literal, $help:expr) => {
        $crate::harness::cli::Flag::new($name, $value, $default, $help)
    };
    ($([$($row:tt)*])*) => { &[$($crate::harness::flag_table::flags!(@ $($row)*)),*] };
}
pub(crate) use flags;
