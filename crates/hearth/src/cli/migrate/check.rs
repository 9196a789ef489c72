//! `hearth migrate check`: whether a live migration would be right now.

use super::args::Check;
use super::domain::{Domain, Served, served};
use crate::cli::adopt::record::{Record, records};
use crate::cli::args::Global;
use crate::cli::run::show;
use crate::domain::text_at;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::quantity::bytes;
use crate::terminal::{print, progress};
use api::client::Client;
use api::roaming::{CheckReason, DirtyCheck, DiskCheck, MigrationCheck};
use api::types::{Disks, Status};
use configuration::{Dirty, Name};
use std::fmt::{self, Write};
use std::path::Path;

/// Asks the daemon, which asks its peer.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    arguments: &Check,
) -> Result<Vec<u8>, CliError> {
    let to = arguments.to.as_deref();
    let check = match (&arguments.name, &arguments.domain) {
        (Some(name), _) => asked(client, name, to).await?,
        (None, Some(path)) => all_of_domain(client, path, to).await?,
        (None, None) => return Err(CliError::new(Exit::Usage, "name a disk or a VM")),
    };
    let text = show(global, &check, written)?;
    if check.is_right {
        return Ok(text);
    }
    print(&text)?;
    Err(not_right(&check))
}

async fn asked(client: &Client, name: &Name, to: Option<&str>) -> Result<MigrationCheck, CliError> {
    let query = to.map_or_else(String::new, |to| format!("?to={}", escaped(to)));
    let path = format!("/v1/roaming/{name}/check{query}");
    Ok(progress::waiting(format!("checking {name}"), client.get(&path)).await?)
}

/// What a source of a domain is here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Disk(Name),
    /// Hearth is asked for a disk that it does not have.
    Unknown(String),
}

impl Found {
    /// Which disk it is.
    pub(super) fn name(self) -> Option<Name> {
        match self {
            Self::Disk(name) => Some(name),
            Self::Unknown(_) => None,
        }
    }
}

/// A domain's name, and its disks that Hearth is asked for.
pub(super) async fn of_domain(
    client: &Client,
    path: &Path,
) -> Result<(String, Vec<Found>), CliError> {
    let text = text_at(path)?;
    let domain = Domain::of(&text);
    let disks: Disks = client.get("/v1/disks").await?;
    let status: Status = client.get("/v1/status").await?;
    let found = domain.sources.iter();
    let found = found.filter_map(|source| match served(source, &disks, &status.listeners) {
        Served::Not => None,
        Served::Disk(name) => Some(Found::Disk(name.clone())),
        Served::Unknown(export) => Some(Found::Unknown(export.to_owned())),
    });
    let mut found: Vec<Found> = found.collect();
    let adopted = records(&text).map_err(|error| CliError::of(Exit::Failed, &error))?;
    found.extend(adopted_elsewhere(&adopted, &disks));
    Ok((domain.name, found))
}

/// Adopted disks of a domain that this host does not have. Their sockets are their own, so the sources alone do not tell.
fn adopted_elsewhere(adopted: &[Record], disks: &Disks) -> Vec<Found> {
    let is_here = |record: &&Record| disks.disks.iter().any(|disk| disk.name == record.name);
    let missing = adopted.iter().filter(|record| !is_here(record));
    let missing = missing.map(|record| Found::Unknown(record.name.to_string()));
    missing.collect()
}

/// The same of the disks of a domain that Hearth serves.
async fn all_of_domain(
    client: &Client,
    path: &Path,
    to: Option<&str>,
) -> Result<MigrationCheck, CliError> {
    let (name, found) = of_domain(client, path).await?;
    let mut all = MigrationCheck {
        name,
        to: to.map(str::to_owned),
        is_right: true,
        disks: Vec::new(),
    };
    for one in &found {
        let disk = match one {
            Found::Disk(name) => {
                let mut check = asked(client, name, to).await?;
                all.to = all.to.or(check.to);
                // A VM may be called as the disk is, and have others.
                check.disks.retain(|disk| disk.name == name.as_str());
                check.disks
            }
            Found::Unknown(export) => vec![unknown(export)],
        };
        all.disks.extend(disk);
    }
    all.is_right = all.disks.iter().all(|disk| disk.reasons.is_empty());
    Ok(all)
}

fn unknown(export: &str) -> DiskCheck {
    DiskCheck {
        name: export.to_owned(),
        id: String::new(),
        dirty: None,
        image: None,
        reasons: vec![CheckReason {
            code: "unknown-here".to_owned(),
            host: None,
            detail: format!("the VM uses the export '{export}' at Hearth's socket, and there is no such disk here"),
            remedy: Some(
                "list the disk in this host's configuration, with the same id and roams = true as at the peer".to_owned(),
            ),
        }],
    }
}

/// A peer's name as part of a query.
pub(super) fn escaped(name: &str) -> String {
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
    if check.disks.is_empty() {
        writeln!(out, "{}: Hearth serves none of its disks", check.name)?;
    }
    for disk in &check.disks {
        let can = match (disk.reasons.is_empty(), &disk.image) {
            (true, None) => "can go to",
            (true, Some(_)) => "can be read at",
            (false, _) => "cannot go to",
        };
        writeln!(out, "{}: {can} {to}", disk.name)?;
        if let Some(dirty) = &disk.dirty {
            writeln!(out, "  dirty data: {}", of_dirty(dirty))?;
        }
        if let Some(image) = &disk.image {
            match &image.why {
                None => writeln!(out, "  cache: what is missing there follows the VM")?,
                Some(why) => writeln!(out, "  cache: stays here: {why}")?,
            }
            if let Some(remedy) = &image.remedy {
                writeln!(out, "    try: {remedy}")?;
            }
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

/// What becomes of what the origin lacks.
fn of_dirty(dirty: &DirtyCheck) -> String {
    let now = bytes(dirty.bytes);
    match (dirty.becomes, &dirty.why) {
        (Dirty::Ship, _) => format!("{now} now, which go along with the disk (ship)"),
        (Dirty::Drain, why) => {
            let why = why
                .as_ref()
                .map_or_else(String::new, |why| format!(": {why}"));
            format!(
                "{now} now, which go to the origin first; the VM waits for the last of them (drain){why}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use api::roaming::ImageCheck;
    use clap::Parser;

    #[test]
    fn a_check_goes_one_way() {
        let parse = |words: &str| {
            let words = format!("hearth migrate check web {words}");
            Cli::try_parse_from(words.split_whitespace())
        };
        assert!(parse("--to node-b").is_ok() && parse("--here").is_ok());
        assert!(parse("").is_err() && parse("--here --to node-b").is_err());
        assert!(parse("--here --domain -").is_err(), "a disk or a domain");
        assert_eq!(escaped("node-b.example"), "node-b.example");
        assert_eq!(escaped("a b&c"), "a%20b%26c");
    }

    #[test]
    fn an_adopted_disk_that_is_not_here_is_unknown() {
        let xml = |name: &str| {
            format!(
                "<domain><metadata><hearth:disks xmlns:hearth='urn:hearth:libvirt:1'><hearth:disk target='vda' name='{name}' vm='v' \
                 origin='/o' via='nbd' socket='/s'/></hearth:disks></metadata></domain>"
            )
        };
        let disks = api::samples::disks();
        let here = disks.disks[0].name.to_string();
        let missing = |name: &str| adopted_elsewhere(&records(&xml(name)).unwrap(), &disks);
        assert_eq!(missing(&here), []);
        assert_eq!(missing("none"), [Found::Unknown("none".to_owned())]);
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
            name: name.to_owned(),
            id: String::new(),
            reasons,
            dirty: None,
            image: None,
        };
        let both = vec![reason("link-down", None), reason("origin", Some("node-b"))];
        let dirty = |becomes, why: Option<&str>| DirtyCheck {
            becomes,
            bytes: 12 << 20,
            why: why.map(str::to_owned),
        };
        let image = |why: Option<&str>| ImageCheck {
            follows: why.is_none(),
            why: why.map(str::to_owned),
            remedy: why.map(|_| "do that".to_owned()),
        };
        let check = MigrationCheck {
            name: "web".to_owned(),
            to: Some("node-b".to_owned()),
            is_right: false,
            disks: vec![
                DiskCheck {
                    dirty: Some(dirty(Dirty::Ship, None)),
                    ..disk("web", Vec::new())
                },
                DiskCheck {
                    dirty: Some(dirty(Dirty::Drain, Some("so says node-b"))),
                    ..disk("data", both)
                },
                DiskCheck {
                    image: Some(image(None)),
                    ..disk("debian", Vec::new())
                },
                DiskCheck {
                    image: Some(image(Some("another file"))),
                    ..disk("fedora", Vec::new())
                },
            ],
        };
        let mut out = String::new();
        written(&mut out, &check).unwrap();
        assert_eq!(
            out,
            "web: can go to node-b\n  \
               dirty data: 12.0MiB now, which go along with the disk (ship)\n\
             data: cannot go to node-b\n  \
               dirty data: 12.0MiB now, which go to the origin first; the VM waits for the last of them (drain): so says node-b\n  \
               link-down: there it is\n    \
                 try: do that\n  \
               origin at node-b: there it is\n    \
                 try: do that\n\
             debian: can be read at node-b\n  \
               cache: what is missing there follows the VM\n\
             fedora: can be read at node-b\n  \
               cache: stays here: another file\n    \
                 try: do that\n"
        );
        let error = not_right(&check).to_string();
        assert_eq!(
            error,
            "error: web cannot be migrated now, for 2 reasons\n  try: do that"
        );
    }
}
