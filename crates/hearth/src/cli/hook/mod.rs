//! `hearth hook`: what libvirt's hook has Hearth do when an adopted VM starts and ends.
//!
//! ```text
//!   prepare begin ──► each disk of the metadata: attached? ──yes──► the VM starts
//!                         │ no: attach it, and mark that
//!                         │ the daemon is down: stand in for it, or refuse the start
//!   release end ────► end what stood in; detach what is marked and has nothing dirty
//! ```

pub mod args;
mod marks;
mod stand_in;

use super::adopt::attaching::{Attached, attach, detach, known};
use super::adopt::record::{Record, records};
use super::args::Global;
use super::run::show;
use crate::domain::text_at;
use crate::terminal::exit::{CliError, Exit};
use api::client::Client;
use api::types::{DiskState, DiskStatus};
use api::write_back::OfDirty;
use args::{Hook, HookOf};
use marks::Marks;
use serde::Serialize;
use std::fmt::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a disk may be on its way before its VM is not started: less than the hook waits for this program.
const READY_TIME: Duration = Duration::from_secs(30);
/// How long a daemon that is being started anew may take before something stands in for it.
const RESTART_TIME: Duration = Duration::from_secs(5);
/// How long a client of a VM that has ended may take to go.
const LEAVE_TIME: Duration = Duration::from_secs(5);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(200);

/// What was done with a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Did {
    /// It was attached before, and stays so.
    WasAttached,
    Attached,
    /// Its file is served without Hearth.
    StoodIn,
    Detached,
    /// What served its file without Hearth has ended.
    StoodDown,
    /// The hook had not attached it.
    LeftAlone,
    /// It cannot be detached, for the reason that is given.
    StaysAttached,
}

/// A disk, and what was done with it.
#[derive(Debug, Serialize)]
struct Done {
    name: String,
    did: Did,
    reason: Option<String>,
}

/// What was done with a VM's disks.
#[derive(Debug, Serialize)]
struct AllDone {
    disks: Vec<Done>,
}

/// Does what libvirt's hook asks for.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    hook: &Hook,
) -> Result<Vec<u8>, CliError> {
    let marks = Marks::beside(&global.socket);
    let (Hook::Prepare(of) | Hook::Release(of)) = hook;
    let records = of_domain(of)?;
    let disks = match hook {
        Hook::Prepare(_) => prepare(client, &marks, &records, of.config.as_deref()).await?,
        Hook::Release(_) => release(client, &marks, &records).await?,
    };
    show(global, &AllDone { disks }, written)
}

fn of_domain(of: &HookOf) -> Result<Vec<Record>, CliError> {
    let xml = text_at(&of.domain)?;
    records(&xml).map_err(|error| CliError::of(Exit::Failed, &error))
}

/// Has all disks served; if one cannot be, none is left attached by this.
async fn prepare(
    client: &Client,
    marks: &Marks,
    records: &[Record],
    config: Option<&Path>,
) -> Result<Vec<Done>, CliError> {
    let mut done: Vec<Done> = Vec::new();
    for (at, record) in records.iter().enumerate() {
        match serve(client, marks, record, config).await {
            Ok(did) => done.push(Done {
                name: record.name.to_string(),
                did,
                reason: None,
            }),
            Err(error) => {
                // The VM does not start, and libvirt may not say that it has ended.
                let _ = release(client, marks, &records[..at]).await;
                return Err(error);
            }
        }
    }
    Ok(done)
}

async fn serve(
    client: &Client,
    marks: &Marks,
    record: &Record,
    config: Option<&Path>,
) -> Result<Did, CliError> {
    // One of an earlier run would keep the daemon from the file.
    stand_in::end(marks, record)?;
    let until = Instant::now() + RESTART_TIME;
    let mut attached = attach_in_time(client, record).await;
    while matches!(&attached, Err(error) if error.exit == Exit::Unreachable)
        && Instant::now() < until
    {
        tokio::time::sleep(LOOK).await;
        attached = attach_in_time(client, record).await;
    }
    match attached {
        Ok(Attached::Before) => Ok(Did::WasAttached),
        Ok(Attached::Now) => {
            marks
                .set(&record.name)
                .map_err(|error| CliError::of(Exit::Failed, &error))?;
            Ok(Did::Attached)
        }
        Err(error) if error.exit == Exit::Unreachable => {
            stand_in::start(marks, record, config)?;
            Ok(Did::StoodIn)
        }
        Err(error) => Err(error),
    }
}

/// Attaches a disk, or waits until one that is on its way is there.
async fn attach_in_time(client: &Client, record: &Record) -> Result<Attached, CliError> {
    let on_its_way = |status: &DiskStatus| {
        matches!(
            status.state,
            DiskState::Attaching | DiskState::Detaching | DiskState::Waiting
        )
    };
    wait_while(client, record, READY_TIME, on_its_way).await?;
    attach(client, record).await
}

/// Waits while the daemon says so of a disk, and not longer than this.
async fn wait_while(
    client: &Client,
    record: &Record,
    time: Duration,
    says: impl Fn(&DiskStatus) -> bool,
) -> Result<(), CliError> {
    let until = Instant::now() + time;
    loop {
        let status = known(client, &record.name).await?;
        if !status.as_ref().is_some_and(&says) || Instant::now() > until {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Lets all disks go that were attached for the VM. One that cannot go is no error: the VM has ended.
async fn release(
    client: &Client,
    marks: &Marks,
    records: &[Record],
) -> Result<Vec<Done>, CliError> {
    let mut done = Vec::new();
    for record in records {
        let gone = match stand_in::end(marks, record) {
            Ok(true) => Ok(Did::StoodDown),
            Ok(false) => let_go(client, marks, record).await,
            Err(error) => Err(error),
        };
        let (did, reason) = match gone {
            Ok(did) => (did, None),
            Err(error) => (Did::StaysAttached, Some(error.message)),
        };
        done.push(Done {
            name: record.name.to_string(),
            did,
            reason,
        });
    }
    Ok(done)
}

async fn let_go(client: &Client, marks: &Marks, record: &Record) -> Result<Did, CliError> {
    if !marks.is_set(&record.name) {
        return Ok(Did::LeftAlone);
    }
    wait_while(client, record, LEAVE_TIME, |status| status.connections > 0).await?;
    if known(client, &record.name).await?.is_some() {
        detach(client, &record.name, OfDirty::Refuse).await?;
    }
    marks.clear(&record.name);
    Ok(Did::Detached)
}

fn written(out: &mut String, done: &AllDone) -> fmt::Result {
    for disk in &done.disks {
        let did = match disk.did {
            Did::WasAttached => "was attached before",
            Did::Attached => "is attached",
            Did::StoodIn => "is served from its file without Hearth, since the daemon is down",
            Did::Detached => "is detached",
            Did::StoodDown => "is no longer served from its file without Hearth",
            Did::LeftAlone => "was not attached by the hook, and is left as it is",
            Did::StaysAttached => "stays attached",
        };
        let reason = disk
            .reason
            .as_ref()
            .map_or_else(String::new, |reason| format!(": {reason}"));
        writeln!(out, "{} {did}{reason}", disk.name)?;
    }
    Ok(())
}
