//! `hearth migrate prepare`, `abort` and `set`.

use super::args::{Prepare, Set};
use super::check::{Found, escaped, of_domain};
use super::render;
use crate::cli::args::Global;
use crate::cli::run::show;
use crate::terminal::exit::CliError;
use crate::terminal::progress;
use api::client::{Client, Method};
use api::roaming::{MoveSettings, RoamingDisks};
use configuration::{Name, Text};

/// Prepares for the move of a disk, of a VM, or of the disks of a domain that Hearth serves.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    arguments: &Prepare,
) -> Result<Vec<u8>, CliError> {
    let query = arguments.to.as_ref();
    let query = query.map_or_else(String::new, |to| format!("?to={}", escaped(to)));
    let names = match (&arguments.name, &arguments.domain) {
        (Some(name), _) => vec![name.clone()],
        (None, Some(path)) => of_domain(client, path)
            .await?
            .1
            .into_iter()
            .filter_map(Found::name)
            .collect(),
        (None, None) => Vec::new(),
    };
    let mut all = RoamingDisks::default();
    for name in &names {
        let path = format!("/v1/roaming/{name}/prepare{query}");
        let sent = client.send::<(), RoamingDisks>(Method::POST, &path, None);
        let one = progress::waiting(format!("preparing {name}"), sent).await?;
        let mut disks = std::mem::take(&mut all.disks);
        disks.extend(one.disks);
        all = RoamingDisks { disks, ..one };
    }
    show(global, &all, render::list)
}

/// Ends what was prepared.
pub(super) async fn abort(
    client: &Client,
    global: &Global,
    name: &Name,
) -> Result<Vec<u8>, CliError> {
    let path = format!("/v1/roaming/{name}/abort");
    let all: RoamingDisks = client.send::<(), _>(Method::POST, &path, None).await?;
    show(global, &all, render::list)
}

/// Says how a cache comes.
pub(super) async fn set(
    client: &Client,
    global: &Global,
    arguments: &Set,
) -> Result<Vec<u8>, CliError> {
    let path = format!("/v1/roaming/{}/set", arguments.name);
    let settings = MoveSettings {
        strategy: arguments.strategy,
        rate: arguments.rate.map(Text),
    };
    let all: RoamingDisks = client.send(Method::POST, &path, Some(&settings)).await?;
    show(global, &all, render::list)
}
