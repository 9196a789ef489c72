//! The manual pages: one of each command, and hearth.toml(5), which is `packaging/reference.toml`.

use crate::terminal::exit::EXIT_CODES;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use configuration::reference_sections;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Writes a manual page for each command of `hearth` into `man1` of `dir`, and that of the configuration file into its
/// `man5`, as `man` looks for them.
///
/// # Errors
/// If a file cannot be written.
pub fn man(dir: &Path, hearth: Command) -> io::Result<()> {
    let [of_commands, of_files] = ["man1", "man5"].map(|section| dir.join(section));
    fs::create_dir_all(&of_commands)?;
    fs::create_dir_all(&of_files)?;
    // Every page has the exit codes in a section of their own.
    let mut root = hearth.disable_help_subcommand(true).after_help("");
    root.build();
    commands(&root, &of_commands)?;
    fs::write(of_files.join("hearth.toml.5"), configuration()?)
}

fn commands(command: &Command, dir: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        commands(inner, dir)?;
    }
    let man = Man::new(command.clone()).manual("Hearth").source(source());
    let mut page = fs::File::create(dir.join(man.get_filename()))?;
    man.render(&mut page)?;
    page.write_all(&ends(command.get_name() == "hearth")?)
}

/// The last sections of a command's page.
fn ends(is_root: bool) -> io::Result<Vec<u8>> {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for line in EXIT_CODES.lines().skip(1) {
        let (code, meaning) = line.trim().split_once(' ').unwrap_or((line, ""));
        roff.control("TP", []);
        roff.text([bold(code)]);
        roff.text([roman(meaning.trim())]);
    }
    roff.control("PP", []);
    roff.text([roman(
        "With --json an error is an object on standard error with the members kind, detail, remedy and exit_code.",
    )]);
    roff.control("SH", ["SEE ALSO"]);
    let mut pages = vec![bold("hearth.toml"), roman("(5)")];
    if !is_root {
        pages.extend([roman(", "), bold("hearth"), roman("(1)")]);
    }
    roff.text(pages);
    written(&roff)
}

/// The page of the configuration file.
fn configuration() -> io::Result<Vec<u8>> {
    let mut roff = Roff::new();
    let source = source();
    roff.control("TH", ["hearth.toml", "5", "", source.as_str(), "Hearth"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(
        "hearth.toml - configuration of the daemon hearth serve",
    )]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([roman("/etc/hearth/hearth.toml")]);
    roff.control("PP", []);
    roff.text([roman("/etc/hearth/conf.d/*.toml")]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "A TOML file, read at start. An unknown key is an error. Sizes are texts in quotes with a unit (B, KiB, MiB, GiB, TiB), times are texts in quotes with a unit (ns, us, ms, s, min, h).",
    )]);
    roff.control("PP", []);
    roff.text([
        bold("hearth serve --config"),
        roman(" FILE "),
        bold("--check-config"),
        roman(" checks a file and what it needs from the machine, and changes nothing."),
    ]);
    several(&mut roff);
    for section in reference_sections() {
        roff.control("SH", [section.header.as_str()]);
        roff.text([roman(section.meaning)]);
        for entry in section.entries {
            let default = if entry.meaning.ends_with("No default.") {
                format!(" (required; such as {})", entry.value)
            } else if entry.unset {
                format!(" (unset; such as {})", entry.value)
            } else {
                format!(" = {}", entry.value)
            };
            roff.control("TP", []);
            roff.text([bold(entry.key), roman(default)]);
            roff.text([roman(entry.meaning.trim_end_matches(" No default."))]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("hearth"),
        roman("(1), "),
        bold("hearth-serve"),
        roman("(1)"),
    ]);
    written(&roff)
}

/// Files and variables that add to the file.
fn several(roff: &mut Roff) {
    roff.control("PP", []);
    roff.text([roman(
        "The files of the folder conf.d beside it whose names end in .toml and do not begin with a dot add to it, in the order of their names: sections that may be repeated ([[disk]]) are put behind those that are there, keys of other sections are added. A key that two files give differently is an error that names both places.",
    )]);
    roff.control("PP", []);
    roff.text([
        roman("A variable of the environment stands over the files: "),
        bold("HEARTH_WEB__ADDRESS"),
        roman(" is the key address of [web], and "),
        bold("HEARTH_NBD__TLS__MODE"),
        roman(" the key mode of [nbd.tls]: HEARTH_, sections and key in capitals, two underscores between them. Lists, and sections that may be repeated, have no variables. A name with two underscores that is no key's is an error. "),
        bold("hearth config show"),
        roman(" prints each key with its value and where it is written."),
    ]);
}

fn source() -> String {
    format!("hearth {}", env!("CARGO_PKG_VERSION"))
}

fn written(roff: &Roff) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    roff.to_writer(&mut page)?;
    Ok(page)
}
