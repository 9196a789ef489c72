//! The book's page of the command line.

use super::NOTICE;
use clap::Command;
use std::fmt::Write;

/// Columns of the help texts in the book.
const WIDTH: usize = 88;

pub(super) fn page(hearth: Command) -> String {
    let mut page = format!("# Command line\n\n{NOTICE}\n");
    page.push_str(
        "`serve` is the daemon. `cache` works on flash that no daemon is using; `sim`, `mrc`, `advise`\n\
         and `trace`, but for `trace record`, need no daemon either. Every other command talks to the\n\
         daemon over its admin socket, and with `--json` prints the answer of the admin API\n\
         (`packaging/openapi.json`) as it came.\n\n\
         An error is text on standard error, and with `--json` an object of one line there, for every command and\n\
         for a command line that cannot be read, too; standard output then has nothing, or what a check found:\n\n\
         ```json\n\
         {\"kind\":\"no-such-disk\",\"detail\":\"there is no disk 'web'\",\"remedy\":\"hearth disk list\",\"exit_code\":6}\n\
         ```\n\n\
         `kind` is the last word of a problem's type in the admin API, or `usage`, `failed`, `unreachable`,\n\
         `refused`, `damaged` or `not-found`, as the exit code; `remedy` may be `null`.\n",
    );
    let mut root = hearth.term_width(WIDTH);
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
