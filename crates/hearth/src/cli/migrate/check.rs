//! `hearth migrate check`: whether a live migration would be right now.

use super::args::Check;
use crate::cli::args::Global;
use crate::cli::run::show;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::{print, progress};
use api::client::Client;
use api::roaming::MigrationCheck;
use std::fmt::{self, Write};

/// Asks the daemon, which asks its peer.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    arguments: &Check,
) -> Result<Vec<u8>, CliError> {
    let (name, to) = (&arguments.name, &arguments.to);
    let query = to
        .as_ref()
        .map_or_else(String::new, |to| format!("?to={}", escaped(to)));
    let path = format!("/v1/roaming/{name}/check{query}");
    let asked = client.get(&path);
    let check: MigrationCheck = progress::waiting(format!("checking {name}"), asked).await?;
    let text = show(global, &check, written)?;
    if check.is_right {
        return Ok(text);
    }
    print(&text)?;
    Err(not_right(&check))
}

/// A peer's name as part of a query.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                text.push(char::from(byte));
            }
            other => {
                // Writing to a string does not fail.
                let _ = write!(text, "%{other:02X}");
            }
        }
    }
    text
}

fn not_right(check: &MigrationCheck) -> CliError {
    let reasons = check.disks.iter().flat_map(|disk| &disk.reasons);
    let first = reasons.clone().next();
    let count = match reasons.count() {
        1 => "a reason".to_owned(),
        count => format!("{count} reasons"),
    };
    let message = format!("{} cannot be migrated now, for {count}", check.name);
    let error = CliError::new(Exit::Refused, message);
    match first.and_then(|first| first.remedy.as_ref()) {
        Some(remedy) => error.with_remedy(remedy),
        None => error,
    }
}

fn written(out: &mut String, check: &MigrationCheck) -> fmt::Result {
    let to = check.to.as_deref().unwrap_or("this host");
    for disk in &check.disks {
        if disk.reasons.is_empty() {
            writeln!(out, "{}: can go to {to}", disk.name)?;
        } else {
            writeln!(out, "{}: cannot go to {to}", disk.name)?;
        }
        for reason in &disk.reasons {
            let host = reason.host.as_ref();
            let host = host.map_or_else(String::new, |host| format!(" at {host}"));
            writeln!(out, "  {}{host}: {}", reason.code, reason.detail)?;
            if let Some(remedy) = &reason.remedy {
                writeln!(out, "    try: {remedy}")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use api::roaming::{CheckReason, DiskCheck};
    use clap::Parser;

    #[test]
    fn a_check_goes_one_way() {
        let parse = |words: &str| {
            let words = format!("hearth migrate check web {words}");
            Cli::try_parse_from(words.split_whitespace())
        };
        assert!(parse("--to node-b").is_ok() && parse("--here").is_ok());
        assert!(parse("").is_err() && parse("--here --to node-b").is_err());
        assert_eq!(escaped("node-b.example"), "node-b.example");
        assert_eq!(escaped("a b&c"), "a%20b%26c");
    }

    #[test]
    fn what_is_in_the_way_looks_as_agreed() {
        let reason = |code: &str, host: Option<&str>| CheckReason {
            code: code.to_owned(),
            host: host.map(str::to_owned),
            detail: "there it is".to_owned(),
            remedy: Some("do that".to_owned()),
        };
        let disk = |name: &str, reasons| DiskCheck {
            name: name.parse().unwrap(),
            id: String::new(),
            reasons,
        };
        let both = vec![reason("link-down", None), reason("origin", Some("node-b"))];
        let check = MigrationCheck {
            name: "web".parse().unwrap(),
            to: Some("node-b".to_owned()),
            is_right: false,
            disks: vec![disk("web", Vec::new()), disk("data", both)],
        };
        let mut out = String::new();
        written(&mut out, &check).unwrap();
        assert_eq!(
            out,
            "web: can go to node-b\n\
             data: cannot go to node-b\n  \
               link-down: there it is\n    \
                 try: do that\n  \
               origin at node-b: there it is\n    \
                 try: do that\n"
        );
        let error = not_right(&check).to_string();
        assert_eq!(
            error,
            "error: web cannot be migrated now, for 2 reasons\n  try: do that"
        );
    }
}
