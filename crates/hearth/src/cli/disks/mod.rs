//! `hearth disk`: one request to the daemon, and while that takes long, how far it has come.

pub mod args;
mod origin_keys;

use super::args::Global;
use super::limits;
use super::render;
use super::run::show;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::output::json;
use crate::terminal::{Progress, progress, quantity};
use api::client::Client;
use api::client::Method;
use api::types::{DiskState, DiskStatus, Disks};
use api::write_back::{Barrier, DiskChange, OfDirty};
use args::{Attach, Disk, Set};
use configuration::{
    DiskConfig, DiskNbdConfig, DiskVhostConfig, LimitsConfig, Name, OriginConfig, OriginFormat,
    Text, WriteBackConfig, WritePolicy,
};
use origin_keys::with_keys;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How often it is looked how far a disk has come.
const LOOK: Duration = Duration::from_millis(500);

/// A request to the daemon.
struct Asked {
    /// What is waited for, in words.
    waiting_for: String,
    method: Method,
    path: String,
    body: Option<serde_json::Value>,
    /// Whether it ends when the disk's origin has what it lacks.
    drains: bool,
}

/// Does what was asked and returns what to print.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    command: &Disk,
) -> Result<Vec<u8>, CliError> {
    let path = |name: &Name, rest: &str| format!("/v1/disks/{name}{rest}");
    match command {
        Disk::List => {
            let disks: Disks = client.get("/v1/disks").await?;
            return show(global, &disks, render::disks);
        }
        Disk::Show { name } => {
            let disk: DiskStatus = client.get(&path(name, "")).await?;
            return show(global, &disk, render::disk);
        }
        Disk::Barrier { name } => {
            let asked = Asked {
                waiting_for: format!("bringing what {name} lacks to its origin"),
                method: Method::POST,
                path: path(name, "/barrier"),
                body: None,
                drains: true,
            };
            let barrier: Barrier = send(client, name, &asked).await?;
            return show(global, &barrier, render::barrier);
        }
        _ => {}
    }
    let (name, asked) = asked(command)?;
    let disk: DiskStatus = send(client, name, &asked).await?;
    if global.json {
        return show(global, &disk, render::disk);
    }
    Ok(format!("{}\n", done(command, &disk)).into_bytes())
}

/// The request that a command makes, and the disk that it is about.
fn asked(command: &Disk) -> Result<(&Name, Asked), CliError> {
    let path = |name: &Name, rest: &str| format!("/v1/disks/{name}{rest}");
    let plain = |waiting_for: String, method, path| Asked {
        waiting_for,
        method,
        path,
        body: None,
        drains: false,
    };
    Ok(match command {
        Disk::Attach(attach) => {
            let message = format!("attaching {}", attach.name);
            let query = format!("without_store={}", attach.without_store);
            let Some(origin) = &attach.origin else {
                let path = path(&attach.name, &format!("/attach?{query}"));
                return Ok((&attach.name, plain(message, Method::POST, path)));
            };
            let mut asked = plain(message, Method::POST, format!("/v1/disks?{query}"));
            asked.body = Some(json(&disk_config(attach, origin)?)?);
            (&attach.name, asked)
        }
        Disk::Detach(detach) => {
            let dirty = detach.of_dirty();
            let word = json(&dirty)?;
            let query = format!(
                "?force={}&dirty={}&yes_lose_data={}&erase={}",
                detach.force,
                word.as_str().unwrap_or_default(),
                detach.yes_lose_data,
                detach.erase
            );
            let message = format!("detaching {}", detach.name);
            let mut asked = plain(message, Method::DELETE, path(&detach.name, &query));
            asked.drains = dirty == OfDirty::Flush;
            (&detach.name, asked)
        }
        Disk::Drop { name } => {
            let message = format!("dropping the blocks of {name}");
            (name, plain(message, Method::POST, path(name, "/drop")))
        }
        Disk::Resize { name } => {
            let message = format!("resizing {name}");
            (name, plain(message, Method::POST, path(name, "/resize")))
        }
        Disk::Set(set) => (&set.name, change(set)?),
        Disk::Flush { name, wait } => {
            let message = format!("flushing {name}");
            let path = path(name, &format!("/flush?wait={wait}"));
            let mut asked = plain(message, Method::POST, path);
            asked.drains = *wait;
            (name, asked)
        }
        Disk::List | Disk::Show { .. } | Disk::Barrier { .. } => {
            return Err(CliError::new(Exit::Failed, "this command asks otherwise"));
        }
    })
}

fn change(set: &Set) -> Result<Asked, CliError> {
    let waiting_for = format!("changing {}", set.name);
    if set.reset {
        return Ok(Asked {
            waiting_for,
            method: Method::DELETE,
            path: format!("/v1/disks/{}/settings", set.name),
            body: None,
            drains: true,
        });
    }
    let change = DiskChange {
        write_policy: set.write_policy,
        write_back: set.write_back.change(),
        limits: set.limits.change(),
    };
    Ok(Asked {
        waiting_for,
        method: Method::PATCH,
        path: format!("/v1/disks/{}", set.name),
        body: Some(json(&change)?),
        drains: matches!(
            set.write_policy,
            Some(WritePolicy::Around | WritePolicy::Through)
        ),
    })
}

/// Sends a request; while a disk drains, shows how much is left.
async fn send<A: DeserializeOwned>(
    client: &Client,
    name: &Name,
    asked: &Asked,
) -> Result<A, CliError> {
    let sent = client.send::<_, A>(asked.method.clone(), &asked.path, asked.body.as_ref());
    if !asked.drains {
        return Ok(progress::waiting(asked.waiting_for.clone(), sent).await?);
    }
    let mut sent = std::pin::pin!(sent);
    let mut progress = Progress::new("to the origin");
    let mut most = 0;
    loop {
        if let Ok(answer) = tokio::time::timeout(LOOK, &mut sent).await {
            return Ok(answer?);
        }
        // A look that fails shows nothing; the answer itself says what is wrong.
        let look = client.get::<DiskStatus>(&format!("/v1/disks/{name}")).await;
        if let Some(write_back) = look.ok().and_then(|disk| disk.write_back) {
            most = most.max(write_back.log_bytes);
            progress.at(most - write_back.log_bytes, most);
        }
    }
}

/// What a command did, in a line.
fn done(command: &Disk, disk: &DiskStatus) -> String {
    let name = &disk.name;
    let lacking = disk.write_back.as_ref().map_or(0, |now| now.dirty_bytes);
    match command {
        Disk::Attach(_) => format!(
            "{name} is attached: {} in cache {}, {} blocks of it warm",
            disk.size_bytes
                .map_or("unknown size".to_owned(), quantity::bytes),
            disk.cache,
            disk.warm_blocks
        ),
        Disk::Detach(_) if disk.state == DiskState::Waiting => forgotten(disk),
        Disk::Detach(detach) if detach.keep && lacking > 0 => format!(
            "{name} is detached; {} that its origin lacks stay on the flash of cache {}",
            quantity::bytes(lacking),
            disk.cache
        ),
        Disk::Detach(_) => format!("{name} is detached"),
        Disk::Drop { .. } => format!("{name} has {} cached blocks", disk.cached_blocks),
        Disk::Resize { .. } => format!(
            "{name} has {}",
            disk.size_bytes
                .map_or("unknown size".to_owned(), quantity::bytes)
        ),
        Disk::Set(set) if set.limits.change().is_nothing() => {
            format!("{name}: writes go {}", disk.write_policy)
        }
        Disk::Set(_) => format!(
            "{name}: writes go {}; limits: {}",
            disk.write_policy,
            limits::words(&disk.limits)
        ),
        Disk::Flush { wait: false, .. } if lacking > 0 => format!(
            "{name} is being flushed: {} to go; hearth disk flush {name} --wait waits for it",
            quantity::bytes(lacking)
        ),
        Disk::Flush { .. } => format!("{name} is flushed"),
        Disk::List | Disk::Show { .. } | Disk::Barrier { .. } => String::new(),
    }
}

/// What is left of a disk that waited and is forgotten.
fn forgotten(disk: &DiskStatus) -> String {
    let (name, cache) = (&disk.name, &disk.cache);
    let Some(kept) = &disk.kept else {
        return format!(
            "{name} is forgotten, and was not attached; what the flash of cache {cache} has of it stays there, and cannot be read now"
        );
    };
    if kept.dirty_bytes == 0 && kept.locked.is_none() {
        return format!(
            "{name} is forgotten, and was not attached; {} cached blocks stay on the flash of cache {cache}, and nothing that its origin lacks",
            kept.cached_blocks
        );
    }
    let key = if kept.has_data_key {
        " and its data key"
    } else {
        ""
    };
    let record = kept.owner_record.as_ref();
    let record = record.map_or_else(String::new, |path| format!(" ({path})"));
    format!(
        "{name} is forgotten, and was not attached; {} that its origin may lack stay on the flash of cache {cache}, with its owner's record{record}{key}\n\
         to bring them to the origin: attach the disk again, or stop the daemon: hearth recover list, then destage, export or drop",
        quantity::bytes(kept.dirty_bytes),
    )
}

fn disk_config(attach: &Attach, origin: &OriginConfig) -> Result<DiskConfig, CliError> {
    let mut origin =
        with_keys(origin, &attach.origin_keys).map_err(|why| CliError::new(Exit::Usage, why))?;
    if let OriginConfig::File(file) = &mut origin
        && attach.raw
    {
        file.format = OriginFormat::Raw;
    }
    if let OriginConfig::Nbd(nbd) = &mut origin {
        nbd.connections = attach.connections.unwrap_or(nbd.connections);
    }
    if let Some(time) = attach.request_timeout {
        origin.set_request_timeout(time);
    }
    let mut write_back = WriteBackConfig::default();
    attach.write_back.change().apply(&mut write_back);
    let mut limits = LimitsConfig::default();
    attach.limits.change().apply(&mut limits);
    let clients: Vec<_> = attach.nbd_clients.iter().cloned().map(Text).collect();
    Ok(DiskConfig {
        vm: attach.vm.clone(),
        cache: attach.cache.clone(),
        write_policy: attach.write_policy,
        write_back,
        limits,
        read_only: attach.read_only,
        shared: attach.shared,
        size: attach.size.map(Text),
        id: attach.id.map(Text),
        nbd: DiskNbdConfig {
            clients: (!clients.is_empty()).then_some(clients),
            socket: attach.nbd_socket.clone(),
            socket_mode: attach.nbd_socket_mode.map(Text),
            socket_group: attach.nbd_socket_group.clone(),
        },
        vhost_user: DiskVhostConfig {
            socket: attach.vhost_socket.clone().map(Text),
            sector_size: Text(attach.sector_size),
            serial: attach.serial.clone(),
        },
        ..DiskConfig::new(attach.name.clone(), origin)
    })
}
