//! Shell completion: the shell's script asks the program itself for candidates.
//!
//! A candidate is a line `WORD<tab>DESCRIPTION`; `:files` and `:directories` make the shell complete paths.

use crate::{Class, Command, Flag, Program, ValueKind, parse, program::BUILT_IN};
use std::ffi::{OsStr, OsString};

/// Returns the completion script for a shell.
pub(crate) fn script(program: &str, shell: &str) -> Option<String> {
    let script = match shell {
        "bash" => include_str!("completion/script.bash"),
        "zsh" => include_str!("completion/script.zsh"),
        "fish" => include_str!("completion/script.fish"),
        _ => return None,
    };
    Some(script.replace("PROGRAM", program))
}

/// Lists completions of the last word, which may be empty.
pub(crate) fn candidates<A>(program: &Program<A>, words: &[OsString]) -> String {
    let (current, before) = words
        .split_last()
        .map_or((OsStr::new(""), words), |(last, rest)| {
            (last.as_os_str(), rest)
        });
    let mut found = Vec::new();
    let first = before.first().and_then(|word| word.to_str());
    match (program.command(before, false), first) {
        (Ok((command, count)), _) => of_command(command, current, &before[count..], &mut found),
        (_, Some("completion")) if before.len() == 1 => {
            found.extend(["bash", "zsh", "fish"].map(|shell| (shell.to_owned(), "")));
        }
        (_, Some("help" | "man")) => names(program, &before[1..], &mut found),
        _ => {
            names(program, before, &mut found);
            if before.is_empty() {
                found.extend(
                    BUILT_IN
                        .iter()
                        .map(|(name, about)| ((*name).to_owned(), *about)),
                );
            }
        }
    }
    let current = current.to_string_lossy();
    found.retain(|(word, _)| word.starts_with(':') || word.starts_with(&*current));
    let line = |(word, about): (String, &str)| format!("{word}\t{about}\n");
    found.into_iter().map(line).collect()
}

type Candidates = Vec<(String, &'static str)>;

/// Lists the next words of commands that begin with `before`.
fn names<A>(program: &Program<A>, before: &[OsString], found: &mut Candidates) {
    for command in program.commands {
        let mut words = command.name.split(' ');
        let begins = before
            .iter()
            .all(|word| words.next().is_some_and(|own| word == own));
        let (Some(word), true) = (words.next(), begins) else {
            continue;
        };
        let about = if words.next().is_none() {
            command.about
        } else {
            ""
        };
        if found.last().is_none_or(|(last, _)| last != word) {
            found.push((word.to_owned(), about));
        }
    }
}

fn of_command<A>(
    command: &Command<A>,
    current: &OsStr,
    before: &[OsString],
    found: &mut Candidates,
) {
    let flags = || command.all().filter(|flag| !flag.is_positional);
    let named = |name: &OsStr| flags().find(|flag| name == flag.name);
    if parse::is_flag(current) || current == "-" {
        let (name, value) = parse::split(current);
        if value.is_none() {
            flags().for_each(|flag| offer(flag, before, found));
        } else if let Some(flag) = named(name) {
            values(flag, &format!("--{}=", flag.name), found);
        }
        return;
    }
    let last = before.last().filter(|word| parse::is_flag(word));
    let waiting = last.map(|word| parse::split(word));
    match waiting.and_then(|(name, value)| named(name).filter(|_| value.is_none())) {
        Some(flag) if flag.kind != ValueKind::Switch => values(flag, "", found),
        _ => {
            let argument = command.all().find(|flag| flag.is_positional);
            argument
                .into_iter()
                .for_each(|flag| values(flag, "", found));
        }
    }
}

/// Adds a flag if it can be given and has an effect.
fn offer(flag: &'static Flag, before: &[OsString], found: &mut Candidates) {
    let is_given = before.iter().any(|word| {
        let name = parse::split(word).0.to_string_lossy();
        name == flag.name || name.strip_prefix("no-") == Some(flag.name)
    });
    if flag.class != Class::Honoured || flag.is_hidden || is_given && !flag.is_repeatable {
        return;
    }
    if flag.kind != ValueKind::Switch {
        return found.push((format!("--{}=", flag.name), flag.help));
    }
    // Offer the form that changes the default.
    let no = if flag.default == "true" { "no-" } else { "" };
    found.push((format!("--{no}{}", flag.name), flag.help));
}

fn values(flag: &Flag, prefix: &str, found: &mut Candidates) {
    let offers = flag.offers.iter();
    found.extend(offers.map(|offer| (format!("{prefix}{offer}"), "")));
    match flag.kind {
        ValueKind::File => found.push((":files".to_owned(), "")),
        ValueKind::Directory => found.push((":directories".to_owned(), "")),
        ValueKind::Switch => {
            found.extend(["true", "false"].map(|on| (format!("{prefix}{on}"), "")));
        }
        _ => {}
    }
}
