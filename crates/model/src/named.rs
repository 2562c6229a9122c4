//! Enums whose variants have a name each, as configuration, queries and answers write it.

/// Declares an enum whose variants have a name each: `ALL` lists the variants in order, `as_str` returns a name.
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$of_variant])* $variant,)+
        }

        impl $name {
            /// All of them, in order.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Returns the name.
            #[must_use]
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}
