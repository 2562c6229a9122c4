//! Writes the implementations.
//!
//! **Invariant:** every path is absolute, so that what is in scope at the type does not matter.

use crate::item::{Fault, Item, Member};
use proc_macro::TokenStream;

/// Returns the implementation of `Labels`.
pub(crate) fn labels(item: &Item) -> Result<TokenStream, Fault> {
    let name = &item.name;
    let lifetimes = item.lifetimes.join(", ");
    let statics = vec!["'static"; item.lifetimes.len()].join(", ");
    let each = |f: &dyn Fn((usize, &Member)) -> String| -> String {
        item.members.iter().enumerate().map(f).collect()
    };
    let names = each(&|(_, field)| format!("{}, ", shown(field, str::to_owned)));
    let values = each(&|(_, field)| {
        format!(
            "<{} as ::narthex_client::LabelValue>::VALUES, ",
            field.type_text
        )
    });
    let index = each(&|(
        _,
        Member {
            name, type_text, ..
        },
    )| {
        format!(
            "index = index * <{type_text} as ::narthex_client::LabelValue>::VALUES \
             + ::narthex_client::LabelValue::index(&self.{name});"
        )
    });
    let buffers = each(&|(at, _)| format!("b{at}, "));
    let texts = each(&|(at, field)| {
        format!(
            "::narthex_client::LabelValue::text(&self.{}, b{at}), ",
            field.name
        )
    });
    let count = item.members.len();
    parsed(format!(
        "#[automatically_derived]
        impl<{lifetimes}> ::narthex_client::Labels for {name}<{lifetimes}> {{
            type Static = {name}<{statics}>;
            const NAMES: &'static [&'static str] = &[{names}];
            const COMBINATIONS: usize = ::narthex_client::combinations(&[{values}]);
            #[inline]
            fn index(&self) -> usize {{
                #[allow(unused_mut)]
                let mut index = 0;
                {index}
                index
            }}
            #[inline]
            fn with_values<R>(&self, f: impl ::core::ops::FnOnce(&[&str]) -> R) -> R {{
                let mut buffers = [::narthex_client::DigitBuffer::new(); {count}];
                let [{buffers}] = &mut buffers;
                f(&[{texts}])
            }}
        }}"
    ))
}

/// Returns the implementation of `LabelValue`.
pub(crate) fn label_value(item: &Item) -> Result<TokenStream, Fault> {
    let name = &item.name;
    let rename: fn(&str) -> String = match &item.rename_all {
        None => str::to_owned,
        Some((how, span)) => match how.as_str() {
            "\"lowercase\"" => str::to_lowercase,
            "\"UPPERCASE\"" => str::to_uppercase,
            "\"snake_case\"" => |name| words(name, '_'),
            "\"kebab-case\"" => |name| words(name, '-'),
            _ => {
                let text = "expected lowercase, UPPERCASE, snake_case or kebab-case";
                return Err(Fault::new(*span, text));
            }
        },
    };
    let arms = |value: &dyn Fn(usize, &Member) -> String| -> String {
        let members = item.members.iter().enumerate();
        let arm = |(at, variant): (usize, &Member)| {
            format!("{name}::{} => {}, ", variant.name, value(at, variant))
        };
        members.map(arm).collect()
    };
    let indices = arms(&|at, _| at.to_string());
    let texts = arms(&|_, variant| shown(variant, rename));
    let count = item.members.len();
    parsed(format!(
        "#[automatically_derived]
        impl ::narthex_client::LabelValue for {name} {{
            const VALUES: usize = {count};
            #[inline]
            fn index(&self) -> usize {{
                match self {{ {indices} }}
            }}
            #[inline]
            fn text<'a>(&'a self, _: &'a mut ::narthex_client::DigitBuffer) -> &'a str {{
                match self {{ {texts} }}
            }}
        }}"
    ))
}

/// Returns the literal that shows a field or variant.
fn shown(member: &Member, rename: impl Fn(&str) -> String) -> String {
    let name = member.name.strip_prefix("r#").unwrap_or(&member.name);
    let rename = || format!("{:?}", rename(name));
    member.rename.clone().unwrap_or_else(rename)
}

/// Returns the words of a name in lower case; each begins with a capital.
fn words(name: &str, separator: char) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            text.push(separator);
        }
        text.extend(letter.to_lowercase());
    }
    text
}

fn parsed(text: String) -> Result<TokenStream, Fault> {
    text.parse().map_err(|_| {
        Fault::new(
            proc_macro::Span::call_site(),
            "the implementation cannot be written for this type",
        )
    })
}
