//! Derives label sets and label values for `narthex-client`, which exports both with its feature `derive`.
//!
//! Written without syn and quote: a struct's fields and an enum's names are all that is read, and a program compiles
//! nothing but these files for it.

mod item;
mod write;

use proc_macro::TokenStream;

/// Implements `narthex_client::Labels` for a struct with named fields, each a label.
///
/// `#[label(rename = "type")]` on a field gives the label another name than the field's. The struct may have lifetimes,
/// but no other generic parameters.
#[proc_macro_derive(Labels, attributes(label))]
pub fn derive_labels(input: TokenStream) -> TokenStream {
    item::parse_struct(input)
        .and_then(|item| write::labels(&item))
        .unwrap_or_else(item::Fault::into_tokens)
}

/// Implements `narthex_client::LabelValue` for an enum whose variants have no fields.
///
/// A variant's text is its name, or what `#[label(rename = "…")]` says. `#[label(rename_all = "…")]` on the enum changes
/// all names: `lowercase`, `UPPERCASE`, `snake_case` or `kebab-case`.
#[proc_macro_derive(LabelValue, attributes(label))]
pub fn derive_label_value(input: TokenStream) -> TokenStream {
    item::parse_enum(input)
        .and_then(|item| write::label_value(&item))
        .unwrap_or_else(item::Fault::into_tokens)
}
