//! What `hearth adopt` says.

use super::plan::{DiskPlan, Fate};
use super::record::Record;
use crate::xml::FrontEndWord;
use configuration::canonical_origin;
use serde::Serialize;
use std::fmt::{self, Write};

/// What becomes of a domain.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) domain: String,
    /// Whether it is done, or only shown.
    pub(super) is_done: bool,
    pub(super) disks: Vec<DiskAnswer>,
    /// How the domain's XML changes, as a unified diff.
    pub(super) diff: String,
    /// The command that does it.
    #[serde(skip)]
    pub(super) command: Option<String>,
}

/// What becomes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// It goes to Hearth, or has gone.
    Adopted,
    /// It was there before.
    IsThere,
    /// It stays where it is.
    Refused,
    /// It goes back to its storage, or has gone.
    GivenBack,
}

/// A disk, and what becomes of it.
#[derive(Debug, Serialize)]
pub(super) struct DiskAnswer {
    pub(super) target: String,
    pub(super) outcome: Outcome,
    pub(super) name: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) front_end: Option<FrontEndWord>,
    pub(super) socket: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) remedy: Option<String>,
}

impl DiskAnswer {
    pub(super) fn of(plan: &DiskPlan) -> Self {
        match &plan.fate {
            Fate::Goes(record) => Self::on_hearth(record, Outcome::Adopted),
            Fate::IsThere(record) => Self::on_hearth(record, Outcome::IsThere),
            Fate::Stays(refusal) => Self {
                target: plan.target.clone(),
                outcome: Outcome::Refused,
                name: None,
                origin: None,
                front_end: None,
                socket: None,
                reason: Some(refusal.reason.clone()),
                remedy: Some(refusal.remedy.clone()),
            },
        }
    }

    pub(super) fn on_hearth(record: &Record, outcome: Outcome) -> Self {
        Self {
            target: record.target.clone(),
            outcome,
            name: Some(record.name.to_string()),
            origin: Some(canonical_origin(&record.origin)),
            front_end: Some(record.via),
            socket: Some(record.socket.display().to_string()),
            reason: None,
            remedy: None,
        }
    }
}

/// The answer for people.
pub(super) fn written(out: &mut String, answer: &Answer) -> fmt::Result {
    for disk in &answer.disks {
        write_disk(out, disk, answer.is_done)?;
    }
    if !answer.diff.is_empty() {
        writeln!(out, "\n{}", answer.diff.trim_end())?;
    }
    match (&answer.command, answer.is_done) {
        (_, true) => writeln!(out, "\n{} is defined anew", answer.domain),
        (Some(command), false) => writeln!(out, "\nnothing is changed yet; to do it: {command}"),
        (None, false) => Ok(()),
    }
}

fn write_disk(out: &mut String, disk: &DiskAnswer, is_done: bool) -> fmt::Result {
    let word = |value: &Option<String>| value.clone().unwrap_or_default();
    let (target, name, origin) = (&disk.target, word(&disk.name), word(&disk.origin));
    match disk.outcome {
        Outcome::Adopted => {
            let does = if is_done {
                "is attached"
            } else {
                "would be attached"
            };
            let via = disk
                .front_end
                .map_or_else(String::new, |via| via.to_string());
            writeln!(
                out,
                "{target}: {does} as {name}, of {origin}, over {via} at {}",
                word(&disk.socket)
            )
        }
        Outcome::IsThere => writeln!(out, "{target}: is on Hearth already as {name}, of {origin}"),
        Outcome::GivenBack => {
            let does = if is_done {
                "is detached"
            } else {
                "would be detached"
            };
            writeln!(out, "{target}: {name} {does}; the VM uses {origin} itself")
        }
        Outcome::Refused => {
            writeln!(out, "{target}: stays where it is: {}", word(&disk.reason))?;
            writeln!(out, "  try: {}", word(&disk.remedy))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::plan;
    use super::super::samples::{DOMAIN, wanted};
    use super::*;
    use crate::domain::{Document, unified};

    #[test]
    fn what_would_be_done_looks_as_agreed() {
        let document = Document::of(DOMAIN);
        let wanted = super::super::plan::Wanted {
            disk: Some("vda"),
            ..wanted()
        };
        let plan = plan(&document, document.root().unwrap(), &wanted).unwrap();
        let answer = Answer {
            domain: plan.domain.clone(),
            is_done: false,
            disks: plan.disks.iter().map(DiskAnswer::of).collect(),
            diff: unified(("web", "web on Hearth"), DOMAIN, &plan.xml),
            command: Some("hearth adopt web --yes".to_owned()),
        };
        let mut out = String::new();
        written(&mut out, &answer).unwrap();
        let agreed = include_str!("../snapshots/adopt.txt");
        assert_eq!(out, agreed, "{out}");
    }
}
