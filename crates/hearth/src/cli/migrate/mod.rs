//! `hearth migrate`: disks that roam, and their hand-overs.

pub mod args;
mod check;
mod domain;
mod prepare;
mod render;
mod watch;

use super::args::Global;
use super::run::show;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::progress;
use api::client::{Client, Method};
use api::roaming::{RoamingDisk, RoamingDisks};
use args::Migrate;
use configuration::Name;

/// Does what was asked and returns what to print.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    command: &Migrate,
) -> Result<Vec<u8>, CliError> {
    match command {
        Migrate::List => {
            let disks: RoamingDisks = client.get("/v1/roaming").await?;
            show(global, &disks, render::list)
        }
        Migrate::Show { name, watch } => {
            if let Some(disks) = of_vm(client, name).await? {
                if *watch {
                    let error = CliError::new(Exit::Usage, format!("'{name}' has several disks"));
                    let one = &disks.disks[0].name;
                    return Err(error.with_remedy(format!("hearth migrate show {one} --watch")));
                }
                return show(global, &disks, render::disks);
            }
            let path = format!("/v1/roaming/{name}");
            if *watch {
                return watch::run(client, global, &path).await;
            }
            let disk: RoamingDisk = client.get(&path).await?;
            show(global, &disk, render::disk)
        }
        Migrate::Take {
            name, lose_dirty, ..
        } => {
            let path = format!(
                "/v1/roaming/{name}/take?yes_its_owner_is_dead=true&lose_dirty={lose_dirty}"
            );
            let sent = client.send::<(), _>(Method::POST, &path, None);
            let disk: RoamingDisk = progress::waiting(format!("taking {name}"), sent).await?;
            show(global, &disk, render::disk)
        }
        Migrate::Check(arguments) => check::run(client, global, arguments).await,
        Migrate::Prepare(arguments) => prepare::run(client, global, arguments).await,
        Migrate::Abort { name } => prepare::abort(client, global, name).await,
        Migrate::Set(arguments) => prepare::set(client, global, arguments).await,
    }
}

/// The disks of a VM of this name that roam, if it has several.
async fn of_vm(client: &Client, name: &Name) -> Result<Option<RoamingDisks>, CliError> {
    let mut all: RoamingDisks = client.get("/v1/roaming").await?;
    all.disks.retain(|disk| disk.vm == *name);
    Ok((all.disks.len() > 1).then_some(all))
}
