//! `hearth recover`: what waits on flash for its origin, without the daemon.

mod answer;
pub mod args;
mod keys;
mod places;

use crate::offline::OfflineError;
use crate::offline::recover::{
    self, FileTarget, Looked, OriginTarget, Standing, Target, TargetError, Verified, sizes,
};
use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::quantity;
use crate::terminal::{print, shown, to_json};
use answer::{Done, Listed, ListedLog};
use args::{KeyArgs, Places, Recover};
use at_rest::XtsCipher;
use block_io::BlockCipher;
use cache::LogReport;
use configuration::{DiskConfig, disk_id};
use device::retained::RetainedError;
use device::uring::OpenError;
use origin::{Keeping, OriginSpec};
use places::{Known, Place, STOP_THE_DAEMON, no_origin};
use std::path::{Path, PathBuf};
use units::Bytes;

/// Does what was asked and returns what to print.
pub(super) fn run(command: &Recover, json: bool) -> Result<Vec<u8>, CliError> {
    match command {
        Recover::List { flash, places } => {
            let listed = list(flash, places, |_| None)?;
            shown(json, &listed, answer::listed)
        }
        Recover::Verify {
            flash,
            disk,
            places,
        } => verify(flash, disk.as_deref(), places, json),
        Recover::Destage {
            flash,
            disk,
            places,
            key,
            force,
            dry_run,
            ..
        } => {
            let places = (places, key);
            let done = destage(flash, disk, places, *force, *dry_run)?;
            shown(json, &done, answer::done)
        }
        Recover::Export {
            flash,
            disk,
            to,
            onto,
            places,
            key,
            dry_run,
        } => {
            let file = to.as_deref().map(Goal::New);
            let file = file.or(onto.as_deref().map(Goal::Copy));
            let file = file.ok_or_else(|| CliError::new(Exit::Usage, "give --to or --onto"))?;
            let done = export(flash, disk, file, (places, key), *dry_run)?;
            shown(json, &done, answer::done)
        }
        Recover::Drop {
            flash,
            disk,
            places,
            dry_run,
            ..
        } => {
            let done = give_up(flash.as_deref(), disk, places, *dry_run)?;
            shown(json, &done, answer::done)
        }
    }
}

fn look(flash: &Path, known: &Known) -> Result<Looked, CliError> {
    recover::look(flash, known.memory(flash).as_ref()).map_err(|error| explain(&error))
}

fn explain(error: &OfflineError) -> CliError {
    let refused = |error: &OfflineError| {
        CliError::new(Exit::Refused, chain(error)).with_remedy(STOP_THE_DAEMON)
    };
    match error {
        OfflineError::Open(OpenError::InUse { .. })
        | OfflineError::Memory(RetainedError::InUse { .. }) => refused(error),
        OfflineError::Target(TargetError::Open(origin::OpenError::InUse { .. })) => {
            CliError::new(Exit::Refused, chain(error))
                .with_remedy("detach the disk from the daemon that serves it, or stop that")
        }
        OfflineError::Target(TargetError::Origin { .. }) => {
            CliError::new(Exit::Failed, chain(error))
                .with_remedy("restore the origin and repeat the command: nothing is lost")
        }
        _ => CliError::new(Exit::Failed, chain(error)),
    }
}

fn list(
    flash: &Path,
    places: &Places,
    verified: impl Fn((&Looked, &LogReport)) -> Option<Verified>,
) -> Result<Listed, CliError> {
    let known = Known::of(places)?;
    let looked = look(flash, &known)?;
    let mut disks = Vec::new();
    for log in &looked.report.logs {
        let place = known.place(&log.name, log.id)?;
        let mut listed = ListedLog::new(log, looked.report.uuid, place.as_ref());
        listed.verified = verified((&looked, log));
        disks.push(listed);
    }
    Ok(Listed {
        flash: flash.display().to_string(),
        cache: format!("{:032x}", looked.report.uuid),
        in_doubt: looked.report.in_doubt,
        disks,
    })
}

/// What a flash has that origins lack, or may lack: disks, and for each how much. While a daemon uses
/// the state directory, and not this flash, no owner's record is looked at: then all of it may.
///
/// # Errors
/// If that cannot be known.
pub(super) fn at_stake(
    flash: &Path,
    config: Option<&Path>,
) -> Result<Vec<(String, Bytes)>, CliError> {
    let places = Places {
        config: config.map(Path::to_owned),
        origin: None,
        state_dir: None,
    };
    let known = match Known::of(&places) {
        Ok(known) => Some(known),
        Err(error) if error.exit == Exit::Refused => None,
        Err(error) => return Err(error),
    };
    let memory = known.as_ref().and_then(|known| known.memory(flash));
    let looked = recover::look(flash, memory.as_ref()).map_err(|error| explain(&error))?;
    let mut stake = Vec::new();
    for log in &looked.report.logs {
        let place = match &known {
            Some(known) => known.place(&log.name, log.id)?,
            None => None,
        };
        let standing = place.map(|place| place.standing(log, looked.report.uuid));
        if standing == Some(Standing::Void) {
            continue;
        }
        let (blocks, erased) = sizes(log);
        let name = if log.name.is_empty() {
            log.id.to_string()
        } else {
            log.name.clone()
        };
        stake.push((name, blocks + erased));
    }
    Ok(stake)
}

/// Refuses a disk whose origin may lack bytes: some wait on a flash of this configuration, or the owner's record names a cache
/// that may have some. No daemon uses the state directory meanwhile.
///
/// # Errors
/// With the reason; also if that cannot be known.
pub(super) fn nothing_waits(disk: &DiskConfig, config: &Path) -> Result<(), CliError> {
    let refused = |why: String| CliError::new(Exit::Refused, why);
    let name = &disk.name;
    let known = Known::of(&Places {
        config: Some(config.to_owned()),
        origin: Some(disk.origin.clone()),
        state_dir: None,
    })?;
    let id = disk_id(disk);
    let place = known.place(name.as_str(), id)?;
    let record = place.as_ref().and_then(|place| place.found.as_ref());
    let record = record.map(|owner| owner.record);
    let mut caches = Vec::new();
    for flash in known.caches() {
        let looked = look(&flash, &known)?;
        let uuid = looked.report.uuid;
        caches.push(uuid);
        if looked.report.in_doubt {
            let why = format!(
                "the flash {} is damaged, so it is not known whether it has bytes of '{name}' that its origin lacks",
                flash.display()
            );
            return Err(refused(why));
        }
        let mut logs = looked.report.logs.iter().filter(|log| log.id == id);
        if let Some(log) = logs.find(|log| Standing::of(log, uuid, record) != Standing::Void) {
            let (blocks, erased) = sizes(log);
            let bytes = quantity::bytes((blocks + erased).get());
            return Err(refused(format!(
                "the flash {} has {bytes} of '{name}' that its origin lacks",
                flash.display()
            )));
        }
    }
    match record {
        Some(record) if record.open => Err(refused(format!(
            "the owner's record of '{name}' says that a cache may have bytes that its origin lacks"
        ))),
        Some(record) if record.cache != 0 && !caches.contains(&record.cache) => Err(refused(
            format!("the owner's record of '{name}' names a cache of another host"),
        )),
        _ => Ok(()),
    }
}

fn verify(
    flash: &Path,
    disk: Option<&str>,
    places: &Places,
    json: bool,
) -> Result<Vec<u8>, CliError> {
    let is_asked =
        |log: &LogReport| disk.is_none_or(|disk| log.name == disk || log.id.to_string() == disk);
    let mut listed = list(flash, places, |(looked, log)| {
        let mut progress = Progress::new("verifying");
        let all = is_asked(log).then(|| looked.content(log));
        all.map(|content| content.verify(&mut |done, _| progress.count(done)))
    })?;
    listed.disks.retain(|log| log.verified.is_some());
    if let (Some(disk), true) = (disk, listed.disks.is_empty()) {
        return Err(nothing_of(disk, flash));
    }
    let text = shown(json, &listed, answer::listed)?;
    let wrong = |log: &&ListedLog| {
        log.locked.is_some()
            || log
                .verified
                .as_ref()
                .is_some_and(|found| found.blocks_bad > 0)
    };
    let wrong = listed.disks.iter().filter(wrong).count();
    if wrong == 0 {
        return Ok(text);
    }
    print(&text)?;
    let message = format!(
        "something is wrong with {} on {}",
        quantity::counted(wrong as u64, "disk"),
        flash.display()
    );
    Err(CliError::new(Exit::Damaged, message).with_remedy(
        "hearth recover export --to FILE saves what is whole; destage --force brings it to the origin; drop gives it up",
    ))
}

fn nothing_of(disk: &str, flash: &Path) -> CliError {
    let message = format!(
        "nothing of the disk '{disk}' on {} waits for its origin",
        flash.display()
    );
    CliError::new(Exit::NotFound, message)
        .with_remedy(format!("hearth recover list {}", flash.display()))
}

fn log_of<'a>(looked: &'a Looked, disk: &str, flash: &Path) -> Result<&'a LogReport, CliError> {
    looked.log(disk).ok_or_else(|| nothing_of(disk, flash))
}

fn place_of(known: &Known, disk: &str, log: &LogReport) -> Result<Place, CliError> {
    known.place(disk, log.id)?.ok_or_else(|| no_origin(disk))
}

/// Refuses a log that is not whole.
fn whole(
    looked: &Looked,
    log: &LogReport,
    flash: &Path,
    force: bool,
) -> Result<Verified, CliError> {
    let mut progress = Progress::new("verifying");
    let found = looked
        .content(log)
        .verify(&mut |done, _| progress.count(done));
    let locked = log.locked.map(|reason| reason.to_string());
    let wrong = match (locked, found.blocks_bad) {
        (None, 0) => return Ok(found),
        (Some(reason), 0) => reason,
        (_, bad) => format!("{bad} blocks are not what was written"),
    };
    if force {
        return Ok(found);
    }
    let remedy = format!(
        "hearth recover export {0} --disk {1} --to FILE saves what is whole; destage --force --yes-lose-data brings it to the origin",
        flash.display(),
        log.name
    );
    Err(CliError::new(Exit::Damaged, wrong).with_remedy(remedy))
}

fn destage(
    flash: &Path,
    disk: &str,
    (places, key): (&Places, &KeyArgs),
    force: bool,
    dry_run: bool,
) -> Result<Done, CliError> {
    let known = Known::of(places)?;
    let looked = look(flash, &known)?;
    let log = log_of(&looked, disk, flash)?;
    let cipher = keys::cipher_of(&known, key, log, disk)?;
    let mut place = place_of(&known, disk, log)?;
    place.is_not_anothers(disk, Some(looked.report.uuid))?;
    let standing = place.standing(log, looked.report.uuid);
    let is_ours = matches!(standing, Standing::Waiting | Standing::Locked);
    if !is_ours && !force {
        let message = format!(
            "the owner's record says that the bytes of '{disk}' on this flash are {}: they may be older than the origin's",
            standing.word()
        );
        return Err(CliError::new(Exit::Refused, message).with_remedy(
            "hearth recover export --onto a copy of the origin, and look; destage --force --yes-lose-data brings them although they may be older",
        ));
    }
    let found = whole(&looked, log, flash, force)?;
    let mut done = Done {
        action: "destage",
        disk: log.name.clone(),
        dry_run,
        bytes: sizes(log).0.get(),
        blocks_bad: found.blocks_bad,
        target: format!("the origin {}", place.origin),
        closed_epoch: None,
    };
    if dry_run {
        return Ok(done);
    }
    let keeping = known.keeping()?;
    let mut target = open(OriginTarget::open(&place.origin, log.size, &keeping))?;
    let mut bring = || {
        place.is_file(target.identity(), force)?;
        place.lock()?;
        write(&looked, log, cipher.as_ref(), &mut target)?;
        // Still under the origin's lock.
        close(&place, log.epoch)
    };
    let brought = bring();
    drop(target);
    settle(&keeping, &place.origin);
    done.closed_epoch = Some(brought?);
    Ok(done)
}

/// Remembers over a restart of the host which writes the origin's server may still carry out.
fn settle(keeping: &Keeping, origin: &OriginSpec) {
    if let Err(error) = origin::settle(origin, keeping, false) {
        tracing::error!(%origin, %error,
            "writes that may still land are not recorded over a restart of the host");
    }
}

fn open<T>(target: Result<T, TargetError>) -> Result<T, CliError> {
    target.map_err(|error| explain(&error.into()))
}

fn write(
    looked: &Looked,
    log: &LogReport,
    cipher: Option<&XtsCipher>,
    target: &mut dyn Target,
) -> Result<(), CliError> {
    let mut progress = Progress::new("writing");
    let written = looked
        .content(log)
        .decrypted_by(cipher.map(|cipher| -> &dyn BlockCipher { cipher }))
        .write(target, &mut |done, _| progress.count(done));
    written.map_err(|error| explain(&error.into()))
}

fn close(place: &Place, epoch: u64) -> Result<u64, CliError> {
    let before = place.found.as_ref().map(|owner| owner.record);
    recover::close(&place.record(), before, epoch)
        .map_err(|error| CliError::of(Exit::Failed, &error))
}

/// Where an export goes.
#[derive(Clone, Copy)]
enum Goal<'a> {
    New(&'a Path),
    Copy(&'a Path),
}

fn export(
    flash: &Path,
    disk: &str,
    goal: Goal<'_>,
    (places, key): (&Places, &KeyArgs),
    dry_run: bool,
) -> Result<Done, CliError> {
    let known = Known::of(places)?;
    let looked = look(flash, &known)?;
    let log = log_of(&looked, disk, flash)?;
    let cipher = keys::cipher_of(&known, key, log, disk)?;
    let (Goal::New(path) | Goal::Copy(path)) = goal;
    let mut progress = Progress::new("verifying");
    let found = looked
        .content(log)
        .verify(&mut |done, _| progress.count(done));
    drop(progress);
    let done = Done {
        action: "export",
        disk: log.name.clone(),
        dry_run,
        bytes: sizes(log).0.get(),
        blocks_bad: found.blocks_bad,
        target: path.display().to_string(),
        closed_epoch: None,
    };
    if dry_run {
        return Ok(done);
    }
    let mut target = open(match goal {
        Goal::New(path) => FileTarget::create(path, log.size),
        Goal::Copy(path) => FileTarget::open(path, log.size),
    })?;
    write(&looked, log, cipher.as_ref(), &mut target)?;
    if let Goal::New(path) = goal {
        let mut map = path.as_os_str().to_owned();
        map.push(".map");
        let text = to_json(&target.pieces)?;
        std::fs::write(PathBuf::from(map), text)
            .map_err(|error| CliError::of(Exit::Failed, &error))?;
    }
    Ok(done)
}

fn give_up(
    flash: Option<&Path>,
    disk: &str,
    places: &Places,
    dry_run: bool,
) -> Result<Done, CliError> {
    let known = Known::of(places)?;
    let looked = flash.map(|flash| look(flash, &known)).transpose()?;
    // A daemon with another state directory holds these, whatever its origins are.
    let _flash = match flash {
        Some(_) => Vec::new(),
        None => known.lock_caches()?,
    };
    let log = looked.as_ref().and_then(|looked| looked.log(disk));
    let id = log.map(|log| log.id).or_else(|| known.id(disk));
    let Some(id) = id else {
        return Err(CliError::new(
            Exit::NotFound,
            format!("neither the flash nor the configuration knows a disk '{disk}'"),
        )
        .with_remedy("name the configuration with --config, or the disk by its identity"));
    };
    let mut place = known.place(disk, id)?.ok_or_else(|| no_origin(disk))?;
    place.is_not_anothers(disk, looked.as_ref().map(|looked| looked.report.uuid))?;
    // A daemon of another host that serves the disk holds the lock of a file. An origin that cannot be
    // reached is served by nobody.
    let lock = match origin::open(&place.origin, false) {
        Err(error @ origin::OpenError::InUse { .. }) => {
            return Err(explain(&TargetError::Open(error).into()));
        }
        opened => opened.ok(),
    };
    let log_epoch = log.map_or(0, |log| log.epoch);
    let closed_epoch = if dry_run {
        None
    } else {
        place.lock()?;
        Some(close(&place, log_epoch)?)
    };
    drop(lock);
    Ok(Done {
        action: "drop",
        disk: disk.to_owned(),
        dry_run,
        bytes: log.map_or(0, |log| sizes(log).0.get()),
        blocks_bad: 0,
        target: place.owner.path().display().to_string(),
        closed_epoch,
    })
}
