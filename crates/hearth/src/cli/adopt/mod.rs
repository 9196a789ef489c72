//! `hearth adopt`: disks of a VM that libvirt has come to Hearth, and go back.
//!
//! ```text
//!   virsh dumpxml ──► Document ──► plan: which disks, which XML ──► shown as a diff
//!                                    │ --yes
//!                                    ├─► attach each disk at the daemon
//!                                    └─► virsh define; if that fails, detach them again
//! ```
//!
//! Invariant: the XML names Hearth's socket only while the daemon remembers the disk, and a disk is given back only after the
//! daemon has detached it with nothing that its origin lacks.

mod answer;
pub mod args;
pub(crate) mod attaching;
mod giving_back;
mod kinds;
mod plan;
pub(crate) mod record;
#[cfg(test)]
mod samples;
mod vhost_user;
mod virsh;

use super::args::Global;
use super::run::show;
use crate::domain::{Document, Element, text_at, unified};
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::print;
use answer::{Answer, DiskAnswer, Outcome, written};
use api::client::Client;
use api::write_back::OfDirty;
use args::Adopt;
use attaching::{Attached, attach, detach};
use giving_back::{GivingBack, giving_back};
use kinds::Refusal;
use plan::{Fate, Plan, Wanted, plan};
use record::{Record, RecordError};
use std::fmt::Write as _;
use std::path::Path;
use virsh::Libvirt;

/// Shows what would be done, or does it.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    args: &Adopt,
) -> Result<Vec<u8>, CliError> {
    let libvirt = Libvirt::at(args.libvirt.as_ref());
    let text = text(args, &libvirt).await?;
    let document = Document::of(&text);
    let root = document
        .root()
        .filter(|root| root.name() == "domain" && document.is_whole());
    let root = root.ok_or_else(|| {
        CliError::new(Exit::Usage, "the text is no domain of libvirt")
            .with_remedy("give what virsh dumpxml --inactive prints")
    })?;
    let busy = busy(args, &libvirt).await?;
    if args.undo {
        return undo((client, &libvirt), global, args, (&document, root), busy).await;
    }
    let reconnects = match &args.name {
        Some(_) => libvirt.reconnects_nbd().await?,
        None => false,
    };
    let wanted = Wanted {
        disk: args.disk.as_deref(),
        via: args.via,
        cache: args.cache.as_ref(),
        write_policy: args.write_policy,
        folder: global.socket.parent().unwrap_or(Path::new("/")),
        reconnects,
        busy,
    };
    let plan = plan(&document, root, &wanted).map_err(|error| unread(&error))?;
    adopt((client, &libvirt), global, args, &text, &plan).await
}

/// The XML of the domain.
async fn text(args: &Adopt, libvirt: &Libvirt) -> Result<String, CliError> {
    let Some(path) = &args.file else {
        return libvirt
            .inactive_xml(args.name.as_deref().unwrap_or_default())
            .await;
    };
    text_at(path)
}

/// Why the domain's disks cannot change their place now.
async fn busy(args: &Adopt, libvirt: &Libvirt) -> Result<Option<Refusal>, CliError> {
    let Some(name) = &args.name else {
        return Ok(None);
    };
    let now = libvirt.state(name).await?;
    if now.state != "shut off" {
        let reason = format!("the VM is {}, and its QEMU has the disk open", now.state);
        return Ok(Some(Refusal::new(
            reason,
            format!("virsh shutdown {name}; then again"),
        )));
    }
    let saved = || {
        Refusal::new(
            "the VM's memory is saved, and goes on with the disks as they were",
            format!(
                "start the VM and shut it down, or virsh managedsave-remove {name}; then again"
            ),
        )
    };
    Ok(now.has_saved_memory.then(saved))
}

fn unread(error: &RecordError) -> CliError {
    CliError::of(Exit::Failed, error).with_remedy(
        "compare <metadata> of virsh dumpxml with the chapter 'Put existing VMs on Hearth'",
    )
}

async fn adopt(
    (client, libvirt): (&Client, &Libvirt),
    global: &Global,
    args: &Adopt,
    text: &str,
    plan: &Plan,
) -> Result<Vec<u8>, CliError> {
    refuse_in_vain(args, plan)?;
    let records: Vec<&Record> = plan.going().collect();
    let is_done = args.yes && !records.is_empty();
    if is_done {
        go(client, libvirt, &records, &plan.xml).await?;
    }
    let name = &plan.domain;
    let answer = Answer {
        domain: name.clone(),
        is_done,
        disks: plan.disks.iter().map(DiskAnswer::of).collect(),
        diff: unified((name, &format!("{name} on Hearth")), text, &plan.xml),
        command: (args.name.is_some() && !records.is_empty()).then(|| command(args, "")),
    };
    let text = show(global, &answer, written)?;
    let nothing = plan
        .disks
        .iter()
        .all(|disk| matches!(disk.fate, Fate::Stays(_)));
    if !nothing {
        return Ok(text);
    }
    print(&text)?;
    Err(CliError::new(
        Exit::Refused,
        format!("none of the disks of {name} can go to Hearth"),
    ))
}

/// Says why the one disk that was asked for stays where it is.
fn refuse_in_vain(args: &Adopt, plan: &Plan) -> Result<(), CliError> {
    let Some(wanted) = &args.disk else {
        return Ok(());
    };
    match plan.disks.first().map(|disk| &disk.fate) {
        Some(Fate::Stays(Refusal { reason, remedy })) => {
            let message = format!("{wanted} of {} stays where it is: {reason}", plan.domain);
            Err(CliError::new(Exit::Refused, message).with_remedy(remedy))
        }
        Some(Fate::Goes(_) | Fate::IsThere(_)) => Ok(()),
        None => Err(no_target(&plan.domain, wanted)),
    }
}

fn no_target(domain: &str, wanted: &str) -> CliError {
    CliError::new(Exit::NotFound, format!("{domain} has no disk '{wanted}'"))
        .with_remedy(format!("virsh domblklist {domain}"))
}

/// The command that does what was shown.
fn command(args: &Adopt, more: &str) -> String {
    let mut command = format!(
        "hearth adopt {}{more}",
        args.name.as_deref().unwrap_or_default()
    );
    for (option, value) in [
        ("--disk", args.disk.clone()),
        ("--libvirt", args.libvirt.clone()),
        ("--cache", args.cache.as_ref().map(ToString::to_string)),
    ] {
        if let Some(value) = value {
            let _ = write!(command, " {option} {value}");
        }
    }
    if args.via != crate::xml::FrontEndWord::Nbd {
        command += " --via vhost-user";
    }
    if args.write_policy != configuration::WritePolicy::default() {
        let _ = write!(command, " --write-policy {}", args.write_policy);
    }
    command + " --yes"
}

/// Attaches the disks and defines the domain; all or nothing.
async fn go(
    client: &Client,
    libvirt: &Libvirt,
    records: &[&Record],
    xml: &str,
) -> Result<(), CliError> {
    let mut attached = Vec::new();
    for record in records {
        match attach(client, record).await {
            Ok(Attached::Now) => attached.push(*record),
            Ok(Attached::Before) => {}
            Err(error) => return Err(taken_back(client, &attached, error).await),
        }
    }
    match libvirt.define(xml).await {
        Ok(()) => Ok(()),
        Err(error) => Err(taken_back(client, &attached, error).await),
    }
}

/// Detaches disks that were attached in vain; the error says so if that fails, too.
async fn taken_back(client: &Client, attached: &[&Record], mut error: CliError) -> CliError {
    for record in attached {
        if let Err(other) = detach(client, &record.name, OfDirty::Refuse).await {
            let (name, why) = (&record.name, &other.message);
            let _ = write!(error.message, "; and '{name}' stays attached: {why}");
        }
    }
    error
}

async fn undo(
    (client, libvirt): (&Client, &Libvirt),
    global: &Global,
    args: &Adopt,
    (document, root): (&Document<'_>, Element<'_>),
    busy: Option<Refusal>,
) -> Result<Vec<u8>, CliError> {
    let only = args.disk.as_deref();
    let back = giving_back(document, root, only).map_err(|error| unread(&error))?;
    let name = &back.domain;
    if back.records.is_empty() {
        let what = only.map_or_else(|| "no disk".to_owned(), |disk| format!("no disk '{disk}'"));
        let message = format!("{name} has {what} that hearth adopt put on Hearth");
        return Err(
            CliError::new(Exit::NotFound, message).with_remedy(format!("virsh domblklist {name}"))
        );
    }
    if let Some(Refusal { reason, remedy }) = busy {
        return Err(CliError::new(Exit::Refused, reason).with_remedy(remedy));
    }
    if args.yes {
        give_back(client, libvirt, &back, args.flush).await?;
    }
    let flush = if args.flush {
        " --undo --flush"
    } else {
        " --undo"
    };
    let answer = Answer {
        domain: name.clone(),
        is_done: args.yes,
        disks: back
            .records
            .iter()
            .map(|record| DiskAnswer::on_hearth(record, Outcome::GivenBack))
            .collect(),
        diff: unified(
            (name, &format!("{name} without Hearth")),
            document.text(),
            &back.xml,
        ),
        command: args.name.is_some().then(|| command(args, flush)),
    };
    show(global, &answer, written)
}

/// Detaches the disks and defines the domain; if a disk cannot be detached, or the domain not be defined, they are attached again.
async fn give_back(
    client: &Client,
    libvirt: &Libvirt,
    back: &GivingBack,
    flush: bool,
) -> Result<(), CliError> {
    let dirty = if flush {
        OfDirty::Flush
    } else {
        OfDirty::Refuse
    };
    let mut detached = Vec::new();
    let mut outcome = Ok(());
    for record in &back.records {
        // One that is not attached may have left bytes on flash: the daemon, which has it then, says so.
        outcome = attach(client, record).await.map(drop);
        if outcome.is_ok() {
            outcome = detach(client, &record.name, dirty).await;
        }
        if outcome.is_err() {
            break;
        }
        detached.push(record);
    }
    if outcome.is_ok() {
        outcome = libvirt.define(&back.xml).await;
    }
    let Err(mut error) = outcome else {
        return Ok(());
    };
    for record in detached {
        if let Err(other) = attach(client, record).await {
            let (name, why) = (&record.name, &other.message);
            let _ = write!(error.message, "; and '{name}' stays detached: {why}");
        }
    }
    Err(error)
}
