//! The book's page of the command line.

use super::NOTICE;
use crate::cli::args::Cli;
use clap::{Command, CommandFactory};
use std::fmt::Write;

/// Columns of the help texts in the book.
const WIDTH: usize = 88;

pub(super) fn page() -> String {
    let mut page = format!("# Command line\n\n{NOTICE}\n");
    page.push_str(
        "Every command talks to the daemon over its admin socket, except `serve`, which is the\n\
         daemon, and `cache`, which works on flash that no daemon is using. With `--json` the\n\
         answer of the admin API (`packaging/openapi.json`) is printed as it came.\n",
    );
    let mut root = Cli::command().term_width(WIDTH);
    root.build();
    command(&mut page, root, "hearth");
    page
}

fn command(page: &mut String, command: Command, path: &str) {
    let inner: Vec<Command> = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
        .cloned()
        .collect();
    let help = command.term_width(WIDTH).render_long_help().to_string();
    write!(page, "\n## `{path}`\n\n```text\n").expect("writing to a string does not fail");
    for line in help.lines() {
        page.push_str(line.trim_end());
        page.push('\n');
    }
    page.push_str("```\n");
    for inner in inner {
        let path = format!("{path} {}", inner.get_name());
        self::command(page, inner, &path);
    }
}
