//! Scrubs of the caches' flash: begun by an operator or by the clock, gone on with after a restart.
//!
//! ```text
//!   cache scrub, scrub_every ─► pass: written down ─► shard reads ─► whole, stopped, or the flash is gone
//!                                  ▲     every LOOK: how far it is      └─► written down
//!                                  └── a daemon that starts goes on
//! ```
//!
//! The cache decides what is read and when. What is here is the memory over restarts: a pass of a large flash takes
//! days, and daemons are renewed meanwhile.

use super::control::Control;
use super::problems::of_cache_command;
use super::scrub_records::{PassRecord, found};
use super::shards::Shard;
use super::system::seconds_since_1970;
use api::problem::ProblemKind;
use api::scrub::{ScrubFound, ScrubRequest};
use api::types::{CacheStatus, Problem};
use cache::ScrubPass;
use configuration::Name;
use events::EventKind;
use shard::ScrubHandle;
use std::sync::Arc;
use std::time::Duration;
use units::Bytes;

/// How often it is looked how far passes are, and whether one is due.
const LOOK: Duration = Duration::from_secs(1);
/// How long a cache may take to say how far it is.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

async fn ask_status(shard: &Shard) -> Option<cache::ScrubStatus> {
    let asked = shard.ask(|shard, reply| ScrubHandle::of(shard).status(reply));
    tokio::time::timeout(ANSWER_TIME_MAX, asked)
        .await
        .ok()?
        .ok()
}

/// Begins a pass of the scrub of a cache's flash, or changes the rate of the one under way.
///
/// # Errors
/// If there is no such cache, its flash is not in use, or the rate is no size.
pub(crate) async fn scrub(
    control: &Control,
    name: &Name,
    asked: ScrubRequest,
) -> Result<CacheStatus, Problem> {
    control.refuse_when_stopping()?;
    let _one_at_a_time = control.alone().await;
    let shard = shard(control, name)?;
    let rate = match asked.rate {
        None => shard.config().scrub_rate.0,
        Some(text) => text.parse::<Bytes>().map_err(|error| {
            Problem::new(ProblemKind::Invalid, format!("rate '{text}': {error}"))
                .with_remedy("write a size, read in a second, such as 50MiB")
        })?,
    };
    // A pass of which the cache has yet to be told goes on where it was.
    let from = control.remembered().scrubs().record(name).pass();
    let from = from.map_or_else(ScrubPass::default, PassRecord::pass);
    begin(control, shard, rate, from).await?;
    Ok(cache_now(control, shard).await)
}

/// Ends the pass of the scrub of a cache's flash that is under way, if there is one.
///
/// # Errors
/// If there is no such cache, or it does not answer.
pub(crate) async fn stop(control: &Control, name: &Name) -> Result<CacheStatus, Problem> {
    let _one_at_a_time = control.alone().await;
    let shard = shard(control, name)?;
    let stopped = shard
        .ask(|shard, reply| ScrubHandle::of(shard).stop(reply))
        .await;
    stopped.map_err(|error| of_cache_command(name, &error))?;
    if let Some(pass) = end(control, name, None) {
        say_ended(name, "stopped", &pass.found());
    }
    Ok(cache_now(control, shard).await)
}

fn shard<'a>(control: &'a Control, name: &Name) -> Result<&'a Shard, Problem> {
    let shard = control.shards().get(name);
    shard.ok_or_else(|| Problem::no_such_cache(name.as_str()))
}

async fn cache_now(control: &Control, shard: &Shard) -> CacheStatus {
    let pulse = shard.pulse().await;
    control.observer().cache(shard, &pulse)
}

async fn begin(
    control: &Control,
    shard: &Shard,
    rate: Bytes,
    from: ScrubPass,
) -> Result<(), Problem> {
    let name = &shard.config().name;
    let before = ask_status(shard).await;
    let told = shard.ask(|shard, reply| ScrubHandle::of(shard).begin(rate, from, reply));
    told.await.map_err(|error| of_cache_command(name, &error))?;
    if before.is_some_and(|before| before.pass.is_some()) {
        tracing::info!(cache = %name, rate = %rate, "the scrub has another rate");
        return Ok(());
    }
    let passes = before.map_or(0, |before| before.whole_passes);
    let scrubs = control.remembered().scrubs();
    scrubs.begun(name, PassRecord::of(from, rate), passes);
    tracing::info!(
        event = EventKind::ScrubBegun.word(), cache = %name, rate = %rate, segment = from.segment,
        "the flash is scrubbed"
    );
    write(control);
    Ok(())
}

/// A pass is over: whole with what it found, or not. Returns how far it had come.
fn end(control: &Control, name: &Name, whole: Option<ScrubFound>) -> Option<PassRecord> {
    let whole = whole.map(|found| (seconds_since_1970(), found));
    let pass = control.remembered().scrubs().ended(name, whole);
    write(control);
    pass
}

fn say_ended(name: &Name, how: &'static str, found: &ScrubFound) {
    tracing::info!(
        event = EventKind::ScrubEnded.word(), cache = %name, how, blocks = found.blocks,
        damaged_clean = found.damaged_clean_blocks, damaged_dirty = found.damaged_dirty_blocks,
        damaged_lists = found.damaged_lists, "the scrub of the flash has ended: {how}"
    );
}

fn write(control: &Control) {
    let records = control.remembered().scrubs().to_write();
    if let Err(error) = control.remembered().dir().set_scrubs(records) {
        let error = units::errors::chain(&error);
        tracing::warn!(
            error,
            "how far scrubs are cannot be written down: a restart begins them anew"
        );
    }
}

/// Begins passes that are due, goes on with those of the last daemon, and writes down how far they are, for as long
/// as the daemon runs.
pub(super) async fn keep_scrubbing(control: Arc<Control>) {
    loop {
        tokio::time::sleep(LOOK).await;
        for shard in control.shards().all() {
            look(&control, shard).await;
        }
    }
}

async fn look(control: &Control, shard: &Shard) {
    let (config, scrubs) = (shard.config(), control.remembered().scrubs());
    let name = &config.name;
    if scrubs.record(name).pass().is_none() && config.scrub_every.is_none() {
        return;
    }
    let _one_at_a_time = control.alone().await;
    let Some(status) = ask_status(shard).await else {
        return;
    };
    let record = scrubs.record(name);
    match (record.pass(), scrubs.told(name), status.pass) {
        _ if status.segments == 0 => gave_up(control, name),
        (Some(_), Some(_), Some((pass, rate))) => go_on(control, name, pass, rate),
        (Some(_), Some(before), None) if status.whole_passes > before => {
            let last = found(&status.last);
            end(control, name, Some(last));
            say_ended(name, "whole", &last);
        }
        (Some(_), Some(_), None) => gave_up(control, name),
        (Some(pass), None, _) => {
            // Tried again at the next look.
            let _told = begin(control, shard, pass.rate(), pass.pass()).await;
        }
        (None, _, _) => {
            let every = config
                .scrub_every
                .map(|every| every.0.as_nanos() / 1_000_000_000);
            let since = |last: u64| seconds_since_1970().saturating_sub(last);
            let is_due = |every| {
                let last = record.last_whole_pass();
                last.is_none_or(|last| since(last) >= every)
            };
            if every.is_some_and(is_due) {
                let rate = config.scrub_rate.0;
                let _told = begin(control, shard, rate, ScrubPass::default()).await;
            }
        }
    }
}

/// The flash of a cache was given up while a pass was told of.
fn gave_up(control: &Control, name: &Name) {
    let was_told = control.remembered().scrubs().told(name).is_some();
    if was_told && let Some(pass) = end(control, name, None) {
        say_ended(name, "the flash is not in use", &pass.found());
    }
}

fn go_on(control: &Control, name: &Name, pass: ScrubPass, rate: Bytes) {
    let scrubs = control.remembered().scrubs();
    if scrubs.advanced(name, PassRecord::of(pass, rate)) {
        write(control);
    }
}
