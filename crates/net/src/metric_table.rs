//! Tables of metrics: each metric once, with its type, its name and its help.
//!
//! **Invariant:** a metric of a table is registered with the others; none can be forgotten.

/// Declares statics for the metrics of a table, and a function that registers all of them.
///
/// Behind a metric's type are the arguments of its `new`.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$attribute:meta])* $vis:vis fn $register:ident;
        $($metric:ident: $kind:ty = $($argument:expr),+;)*
    ) => {
        $(pub(crate) static $metric: $kind = <$kind>::new($($argument),+);)*

        $(#[$attribute])*
        $vis fn $register(registry: &::narthex_client::Registry) -> Result<(), ::narthex_client::Error> {
            registry.register_all(&[$(&$metric),*])
        }
    };
}
