//! `hearth migrate`: disks that roam, and their hand-overs.

pub mod args;
mod check;
mod domain;
mod prepare;
mod render;
mod shown;
mod watch;

use super::args::Global;
use super::run::show;
use crate::terminal::exit::CliError;
use crate::terminal::progress;
use api::client::{Client, Method};
use api::roaming::{RoamingDisk, RoamingDisks};
use args::Migrate;
use shown::Shown;

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
            if *watch {
                return watch::run(client, global, name).await;
            }
            match Shown::of(client, name).await? {
                Shown::Disk(disk) => show(global, &*disk, render::disk),
                Shown::Disks(disks) => show(global, &disks, render::disks),
                Shown::Image(image) => show(global, &*image, render::image),
            }
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
