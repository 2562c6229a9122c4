//! Reads the parts of a struct or an enum that the implementations need.
//!
//! **Invariant:** what is not understood is a [`Fault`] at its place, never skipped.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use std::iter::Peekable;

type Tokens = Peekable<proc_macro::token_stream::IntoIter>;

/// A struct or an enum.
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) lifetimes: Vec<String>,
    /// How all names are changed, with where that was said.
    pub(crate) rename_all: Option<(String, Span)>,
    pub(crate) members: Vec<Member>,
}

/// A field or a variant.
pub(crate) struct Member {
    pub(crate) name: String,
    /// A literal.
    pub(crate) rename: Option<String>,
    /// A field's type.
    pub(crate) type_text: String,
}

/// Why there is no implementation, and where.
pub(crate) struct Fault {
    span: Span,
    message: String,
}

impl Fault {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
        }
    }

    /// Returns `compile_error!("…");` at the place.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let argument = TokenTree::from(Literal::string(&self.message));
        let tokens = [
            TokenTree::from(Ident::new("compile_error", self.span)),
            Punct::new('!', Spacing::Alone).into(),
            Group::new(Delimiter::Parenthesis, argument.into()).into(),
            Punct::new(';', Spacing::Alone).into(),
        ];
        let spanned = tokens.into_iter().map(|mut token| {
            token.set_span(self.span);
            token
        });
        spanned.collect()
    }
}

/// Reads a struct with named fields.
pub(crate) fn parse_struct(input: TokenStream) -> Result<Item, Fault> {
    let (mut item, body, span) = parse_head(input, "struct", "Labels needs a struct")?;
    if item.rename_all.is_some() {
        return Err(Fault::new(span, "rename_all is for enums"));
    }
    let mut tokens = body.into_iter().peekable();
    while tokens.peek().is_some() {
        let options = Options::parse(&mut tokens)?;
        options.refuse_rename_all()?;
        skip_visibility(&mut tokens);
        let name = ident(&mut tokens, span)?;
        match tokens.next() {
            Some(TokenTree::Punct(colon)) if colon.as_char() == ':' => {}
            _ => return Err(Fault::new(name.span(), "a label needs a field with a name")),
        }
        item.members.push(Member {
            name: name.to_string(),
            rename: options.rename,
            type_text: type_text(&mut tokens),
        });
    }
    Ok(item)
}

/// Reads an enum without fields.
pub(crate) fn parse_enum(input: TokenStream) -> Result<Item, Fault> {
    let (mut item, body, span) = parse_head(input, "enum", "LabelValue needs an enum")?;
    if !item.lifetimes.is_empty() {
        return Err(Fault::new(span, "a label value has no generic parameters"));
    }
    let mut tokens = body.into_iter().peekable();
    while tokens.peek().is_some() {
        let options = Options::parse(&mut tokens)?;
        options.refuse_rename_all()?;
        let name = ident(&mut tokens, span)?;
        if let Some(TokenTree::Group(fields)) = tokens.peek() {
            return Err(Fault::new(fields.span(), "a label value has no fields"));
        }
        // The discriminant, if any.
        let _ = type_text(&mut tokens);
        item.members.push(Member {
            name: name.to_string(),
            rename: options.rename,
            type_text: String::new(),
        });
    }
    if item.members.is_empty() {
        return Err(Fault::new(span, "a label value needs variants"));
    }
    Ok(item)
}

/// Reads everything before the fields or variants, which it returns with the name's place.
fn parse_head(
    input: TokenStream,
    keyword: &str,
    otherwise: &str,
) -> Result<(Item, TokenStream, Span), Fault> {
    let mut tokens = input.into_iter().peekable();
    let options = Options::parse(&mut tokens)?;
    skip_visibility(&mut tokens);
    let found = ident(&mut tokens, Span::call_site())?;
    if found.to_string() != keyword {
        return Err(Fault::new(found.span(), otherwise));
    }
    let name = ident(&mut tokens, found.span())?;
    let lifetimes = lifetimes(&mut tokens)?;
    match tokens.next() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
            let item = Item {
                name: name.to_string(),
                lifetimes,
                rename_all: options.rename_all,
                members: Vec::new(),
            };
            Ok((item, body.stream(), name.span()))
        }
        other => {
            let span = other.map_or(name.span(), |token| token.span());
            Err(Fault::new(span, "labels are fields with names"))
        }
    }
}

/// What `#[label(…)]` says.
#[derive(Default)]
struct Options {
    rename: Option<String>,
    rename_all: Option<(String, Span)>,
}

impl Options {
    /// Reads all attributes; those of others are left alone.
    fn parse(tokens: &mut Tokens) -> Result<Self, Fault> {
        let mut options = Self::default();
        while matches!(tokens.peek(), Some(TokenTree::Punct(hash)) if hash.as_char() == '#') {
            tokens.next();
            let Some(TokenTree::Group(attribute)) = tokens.next() else {
                continue;
            };
            let mut inner = attribute.stream().into_iter();
            let is_ours =
                matches!(inner.next(), Some(TokenTree::Ident(name)) if name.to_string() == "label");
            if is_ours {
                options.read(inner.next(), attribute.span())?;
            }
        }
        Ok(options)
    }

    fn read(&mut self, arguments: Option<TokenTree>, span: Span) -> Result<(), Fault> {
        let fault = || {
            Fault::new(
                span,
                "expected #[label(rename = \"…\")] or #[label(rename_all = \"…\")]",
            )
        };
        let Some(TokenTree::Group(arguments)) = arguments else {
            return Err(fault());
        };
        let tokens: Vec<TokenTree> = arguments.stream().into_iter().collect();
        let [
            TokenTree::Ident(name),
            TokenTree::Punct(equals),
            TokenTree::Literal(value),
        ] = &*tokens
        else {
            return Err(fault());
        };
        let text = value.to_string();
        if equals.as_char() != '=' || !text.starts_with('"') {
            return Err(fault());
        }
        match name.to_string().as_str() {
            "rename" => self.rename = Some(text),
            "rename_all" => self.rename_all = Some((text, value.span())),
            _ => return Err(fault()),
        }
        Ok(())
    }

    fn refuse_rename_all(&self) -> Result<(), Fault> {
        match &self.rename_all {
            Some((_, span)) => Err(Fault::new(*span, "rename_all is for the enum as a whole")),
            None => Ok(()),
        }
    }
}

/// Skips `pub` and `pub(…)`.
fn skip_visibility(tokens: &mut Tokens) {
    if matches!(tokens.peek(), Some(TokenTree::Ident(word)) if word.to_string() == "pub") {
        tokens.next();
        if matches!(tokens.peek(), Some(TokenTree::Group(within)) if within.delimiter() == Delimiter::Parenthesis)
        {
            tokens.next();
        }
    }
}

fn ident(tokens: &mut Tokens, before: Span) -> Result<Ident, Fault> {
    match tokens.next() {
        Some(TokenTree::Ident(ident)) => Ok(ident),
        other => {
            let span = other.map_or(before, |token| token.span());
            Err(Fault::new(span, "expected a name"))
        }
    }
}

/// Reads `<'a, 'b>`.
fn lifetimes(tokens: &mut Tokens) -> Result<Vec<String>, Fault> {
    let mut lifetimes = Vec::new();
    if !matches!(tokens.peek(), Some(TokenTree::Punct(open)) if open.as_char() == '<') {
        return Ok(lifetimes);
    }
    tokens.next();
    loop {
        match tokens.next() {
            Some(TokenTree::Punct(quote)) if quote.as_char() == '\'' => {
                let name = ident(tokens, quote.span())?;
                lifetimes.push(format!("'{name}"));
            }
            Some(TokenTree::Punct(comma)) if comma.as_char() == ',' => {}
            Some(TokenTree::Punct(close)) if close.as_char() == '>' => return Ok(lifetimes),
            other => {
                let span = other.map_or(Span::call_site(), |token| token.span());
                let text = "a label set has no generic parameters but lifetimes without bounds";
                return Err(Fault::new(span, text));
            }
        }
    }
}

/// Reads up to a comma that is not within `<…>`, and takes it.
fn type_text(tokens: &mut Tokens) -> String {
    let mut text = TokenStream::new();
    let mut depth = 0_usize;
    let mut is_arrow = false;
    for token in tokens {
        if let TokenTree::Punct(punct) = &token {
            match punct.as_char() {
                ',' if depth == 0 => break,
                '<' => depth += 1,
                '>' if !is_arrow => depth = depth.saturating_sub(1),
                _ => {}
            }
            is_arrow = punct.as_char() == '-';
        }
        text.extend([token]);
    }
    text.to_string()
}
