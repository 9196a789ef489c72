//! `hearth cache scrub`: what is on flash is read and verified while the daemon serves.

use super::args::Global;
use super::run::show;
use crate::event_log;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::progress::Progress;
use crate::terminal::quantity;
use api::client::{Client, Method};
use api::scrub::{ScrubFound, ScrubPass, ScrubRequest, ScrubStatus};
use api::types::{CacheStatus, Status};
use clap::Args;
use configuration::Name;
use std::fmt::{self, Write as _};
use std::time::Duration;
use units::Bytes;

/// How often `--wait` asks how far the scrub is.
const LOOK: Duration = Duration::from_millis(500);

/// Arguments of `cache scrub`.
#[derive(Debug, Args)]
pub struct Scrub {
    /// The cache's name
    pub name: Name,
    /// What is read in a second at most; `scrub_rate` of the configuration, 50MiB, unless it is given
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<Bytes>,
    /// End the scrub that is under way
    #[arg(long, conflicts_with_all = ["rate", "wait"])]
    pub stop: bool,
    /// Wait until the scrub has ended
    #[arg(long)]
    pub wait: bool,
}

/// Does what was asked and returns what to print.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    asked: &Scrub,
) -> Result<Vec<u8>, CliError> {
    let path = format!("/v1/caches/{}/scrub", asked.name);
    let mut cache: CacheStatus = if asked.stop {
        client
            .send(Method::DELETE, &path, None::<&ScrubRequest>)
            .await?
    } else {
        let rate = asked.rate.map(|rate| rate.to_string());
        let body = ScrubRequest { rate };
        client.send(Method::POST, &path, Some(&body)).await?
    };
    if asked.wait {
        cache = ended(client, &asked.name, cache).await?;
    }
    show(global, &cache, done)
}

/// Waits until no pass is under way.
async fn ended(
    client: &Client,
    name: &Name,
    mut cache: CacheStatus,
) -> Result<CacheStatus, CliError> {
    let mut progress = Progress::new("scrubbing");
    while let Some(pass) = cache.scrub.pass {
        progress.part_of(pass.segment, pass.segments, "segments");
        tokio::time::sleep(LOOK).await;
        cache = of(client, name).await?;
    }
    // The daemon notes the end of a pass once a second.
    tokio::time::sleep(3 * LOOK).await;
    of(client, name).await
}

async fn of(client: &Client, name: &Name) -> Result<CacheStatus, CliError> {
    let status: Status = client.get("/v1/status").await?;
    let found = status.caches.into_iter().find(|cache| cache.name == *name);
    found.ok_or_else(|| {
        CliError::new(
            Exit::Failed,
            format!("there is no cache '{name}' any more: hearth status lists the caches"),
        )
    })
}

fn done(out: &mut String, cache: &CacheStatus) -> fmt::Result {
    let words = words(&cache.scrub);
    let words = words.unwrap_or_else(|| "no scrub is under way, and none has ended".to_owned());
    writeln!(out, "{}: {words}", cache.name)
}

/// The scrub of a cache in a line; none if there never was one.
pub(super) fn words(scrub: &ScrubStatus) -> Option<String> {
    if let Some(pass) = &scrub.pass {
        return Some(under_way(pass));
    }
    let at = scrub.last_whole_pass?;
    Some(format!(
        "the last one ended at {}: {}",
        event_log::time(units::number::real(at)),
        found(&scrub.last)
    ))
}

fn under_way(pass: &ScrubPass) -> String {
    format!(
        "at segment {} of {}, {} a second at most: {}",
        pass.segment,
        pass.segments,
        quantity::bytes(pass.rate),
        found(&pass.found)
    )
}

fn found(found: &ScrubFound) -> String {
    let parts = [
        (found.damaged_clean_blocks, "damaged that origins have"),
        (found.damaged_dirty_blocks, "DAMAGED THAT NO ORIGIN HAS"),
        (found.damaged_lists, "damaged lists of a segment's blocks"),
    ];
    let damaged = parts.iter().filter(|(count, _)| *count > 0);
    let mut damaged: Vec<String> = damaged
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if damaged.is_empty() {
        damaged.push("no damage".to_owned());
    }
    let examined = quantity::counted(found.blocks, "block");
    format!("{examined} examined, {}", damaged.join(", "))
}
