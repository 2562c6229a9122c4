//! Manual pages in roff.

use crate::{Command, Flag, Program, help, program::BUILT_IN};

/// Returns the page of a program.
pub(crate) fn overview<A>(program: &Program<A>) -> String {
    let mut page = head(program, program.name, program.about);
    page.push_str(&format!(
        ".B {}\n<command> [flags]\n.SH COMMANDS\n",
        escape(program.name)
    ));
    for command in program.commands {
        entry(&mut page, command.name, command.about);
    }
    for (name, about) in BUILT_IN {
        entry(&mut page, name, about);
    }
    page
}

/// Returns the page of a command.
pub(crate) fn command<A>(program: &Program<A>, command: &Command<A>) -> String {
    let name = format!("{}-{}", program.name, command.name.replace(' ', "-"));
    let mut page = head(program, &name, command.about);
    line(&mut page, &help::usage(program, command));
    page.push_str(".SH DESCRIPTION\n");
    line(&mut page, command.about);
    for (title, is_here) in help::SECTIONS {
        let rows: Vec<&Flag> = command.all().filter(|flag| is_here(flag)).collect();
        if !rows.is_empty() {
            page.push_str(&format!(".SH {:?}\n", title.to_uppercase()));
        }
        for flag in rows {
            entry(&mut page, &flag.usage(), &flag.meaning());
        }
    }
    page
}

fn head<A>(program: &Program<A>, name: &str, about: &str) -> String {
    let (title, about) = (escape(&name.to_uppercase()), about.trim_end_matches('.'));
    format!(
        ".TH \"{title}\" 1 \"\" \"{} {}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
        program.name,
        program.version,
        escape(name),
        escape(about)
    )
}

fn entry(page: &mut String, term: &str, text: &str) {
    page.push_str(&format!(".TP\n.B {}\n", escape(term)));
    line(page, text);
}

fn line(page: &mut String, text: &str) {
    // A leading dot or quote would be a roff request.
    if text.starts_with(['.', '\'']) {
        page.push_str("\\&");
    }
    page.push_str(&escape(text));
    page.push('\n');
}

fn escape(text: &str) -> String {
    let text = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('"', "\\(dq");
    text.replace('\'', "\\(aq")
        .replace('`', "\\(ga")
        .replace('^', "\\(ha")
        .replace('~', "\\(ti")
}
