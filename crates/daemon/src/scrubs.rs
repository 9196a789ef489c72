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
use super::shards::Shard;
use api::problem::ProblemKind;
use api::scrub::{ScrubFound, ScrubRequest, ScrubStatus};
use api::types::{CacheStatus, Problem};
use cache::{ScrubPass, Scrubbed};
use configuration::Name;
use events::EventKind;
use serde::{Deserialize, Serialize};
use shard::ShardHandle;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use units::Bytes;

/// How often it is looked how far passes are, and whether one is due.
const LOOK: Duration = Duration::from_secs(1);
/// How long a cache may take to say how far it is.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// How often it is written down how far a pass is: so much of it is read again after a crash.
const WRITE_PAUSE: Duration = Duration::from_secs(10);

/// What is remembered of the scrub of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScrubRecord {
    /// The pass that is under way.
    pass: Option<PassRecord>,
    /// When the last whole pass ended, in seconds since 1970.
    last_whole_pass: Option<u64>,
    /// What it found.
    last: ScrubFound,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PassRecord {
    rate: u64,
    segment: u32,
    found: ScrubFound,
}

/// The records by the name of their cache.
pub(super) type ScrubRecords = BTreeMap<Name, ScrubRecord>;

/// What is known of the scrubs of all caches.
#[derive(Debug)]
pub(super) struct Scrubs(Mutex<Known>);

#[derive(Debug)]
struct Known {
    records: ScrubRecords,
    /// Caches that were told of their pass since the daemon was started, and how many whole passes they had had then.
    told: BTreeMap<Name, u64>,
    written: Option<Instant>,
}

impl Scrubs {
    pub(super) fn new(records: ScrubRecords) -> Self {
        Self(Mutex::new(Known {
            records,
            told: BTreeMap::new(),
            written: None,
        }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, name: &Name) -> ScrubRecord {
        let known = self.known();
        known.records.get(name).copied().unwrap_or_default()
    }

    fn told(&self, name: &Name) -> Option<u64> {
        self.known().told.get(name).copied()
    }

    /// Adds to what a cache says of its scrub what is remembered of it.
    pub(super) fn complete(&self, name: &Name, status: &mut ScrubStatus) {
        let record = self.record(name);
        status.last_whole_pass = record.last_whole_pass;
        status.last = record.last;
    }
}

fn found(of: &Scrubbed) -> ScrubFound {
    ScrubFound {
        blocks: of.blocks,
        damaged_clean_blocks: of.damaged_clean,
        damaged_dirty_blocks: of.damaged_dirty,
        damaged_lists: of.damaged_lists,
    }
}

/// What a cache says of its scrub, for the API; what only the records know is left out.
pub(super) fn status(of: &cache::ScrubStatus) -> ScrubStatus {
    let pass = of.pass.map(|(pass, rate)| api::scrub::ScrubPass {
        rate: rate.get(),
        segment: pass.segment.into(),
        segments: of.segments.into(),
        found: found(&pass.found),
    });
    ScrubStatus {
        pass,
        total: found(&of.total),
        ..ScrubStatus::default()
    }
}

impl PassRecord {
    fn of(pass: ScrubPass, rate: Bytes) -> Self {
        Self {
            rate: rate.get(),
            segment: pass.segment,
            found: found(&pass.found),
        }
    }

    fn pass(self) -> ScrubPass {
        let found = self.found;
        ScrubPass {
            segment: self.segment,
            found: Scrubbed {
                blocks: found.blocks,
                damaged_clean: found.damaged_clean_blocks,
                damaged_dirty: found.damaged_dirty_blocks,
                damaged_lists: found.damaged_lists,
            },
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

async fn ask_status(shard: &Shard) -> Option<cache::ScrubStatus> {
    let asked = shard.ask(ShardHandle::scrub_status);
    tokio::time::timeout(ANSWER_TIME_MAX, asked)
        .await
        .ok()?
        .ok()
}

impl Control {
    /// Begins a pass of the scrub of a cache's flash, or changes the rate of the one under way.
    ///
    /// # Errors
    /// If there is no such cache, its flash is not in use, or the rate is no size.
    pub async fn scrub(&self, name: &Name, asked: ScrubRequest) -> Result<CacheStatus, Problem> {
        self.refuse_when_stopping()?;
        let _one_at_a_time = self.alone().await;
        let shard = self.shards().get(name);
        let shard = shard.ok_or_else(|| Problem::no_such_cache(name.as_str()))?;
        let rate = match asked.rate {
            None => shard.config().scrub_rate.0,
            Some(text) => text.parse::<Bytes>().map_err(|error| {
                Problem::new(ProblemKind::Invalid, format!("rate '{text}': {error}"))
                    .with_remedy("write a size, read in a second, such as 50MiB")
            })?,
        };
        // A pass of which the cache has yet to be told goes on where it was.
        let from = self.remembered().scrubs().record(name).pass;
        let from = from.map_or_else(ScrubPass::default, PassRecord::pass);
        begin(self, shard, rate, from).await?;
        Ok(self.cache_now(shard).await)
    }

    /// Ends the pass of the scrub of a cache's flash that is under way, if there is one.
    ///
    /// # Errors
    /// If there is no such cache, or it does not answer.
    pub async fn stop_scrub(&self, name: &Name) -> Result<CacheStatus, Problem> {
        let _one_at_a_time = self.alone().await;
        let shard = self.shards().get(name);
        let shard = shard.ok_or_else(|| Problem::no_such_cache(name.as_str()))?;
        let stopped = shard.ask(ShardHandle::stop_scrub).await;
        stopped.map_err(|error| of_cache_command(name, &error))?;
        if let Some(pass) = end(self, name, None) {
            say_ended(name, "stopped", &pass.found);
        }
        Ok(self.cache_now(shard).await)
    }

    async fn cache_now(&self, shard: &Shard) -> CacheStatus {
        let pulse = shard.pulse().await;
        self.observer().cache(shard, &pulse)
    }
}

async fn begin(
    control: &Control,
    shard: &Shard,
    rate: Bytes,
    from: ScrubPass,
) -> Result<(), Problem> {
    let name = &shard.config().name;
    let before = ask_status(shard).await;
    let told = shard.ask(|shard, reply| shard.scrub(rate, from, reply));
    told.await.map_err(|error| of_cache_command(name, &error))?;
    if before.is_some_and(|before| before.pass.is_some()) {
        tracing::info!(cache = %name, rate = %rate, "the scrub has another rate");
        return Ok(());
    }
    {
        let mut known = control.remembered().scrubs().known();
        let passes = before.map_or(0, |before| before.whole_passes);
        known.told.insert(name.clone(), passes);
        let record = known.records.entry(name.clone()).or_default();
        record.pass = Some(PassRecord::of(from, rate));
    }
    tracing::info!(
        event = EventKind::ScrubBegun.word(), cache = %name, rate = %rate, segment = from.segment,
        "the flash is scrubbed"
    );
    write(control);
    Ok(())
}

/// A pass is over: whole with what it found, or not. Returns how far it had come.
fn end(control: &Control, name: &Name, whole: Option<ScrubFound>) -> Option<PassRecord> {
    let pass = {
        let mut known = control.remembered().scrubs().known();
        known.told.remove(name);
        let record = known.records.entry(name.clone()).or_default();
        if let Some(found) = whole {
            record.last_whole_pass = Some(now());
            record.last = found;
        }
        record.pass.take()
    };
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
    let records = {
        let mut known = control.remembered().scrubs().known();
        known.written = Some(Instant::now());
        known.records.clone()
    };
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
    if scrubs.record(name).pass.is_none() && config.scrub_every.is_none() {
        return;
    }
    let _one_at_a_time = control.alone().await;
    let Some(status) = ask_status(shard).await else {
        return;
    };
    let record = scrubs.record(name);
    match (record.pass, scrubs.told(name), status.pass) {
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
            let _told = begin(control, shard, Bytes::new(pass.rate), pass.pass()).await;
        }
        (None, _, _) => {
            let every = config
                .scrub_every
                .map(|every| every.0.as_nanos() / 1_000_000_000);
            let since = |last: u64| now().saturating_sub(last);
            let is_due = |every| {
                let last = record.last_whole_pass;
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
        say_ended(name, "the flash is not in use", &pass.found);
    }
}

fn go_on(control: &Control, name: &Name, pass: ScrubPass, rate: Bytes) {
    let is_due = {
        let mut known = control.remembered().scrubs().known();
        let record = known.records.entry(name.clone()).or_default();
        record.pass = Some(PassRecord::of(pass, rate));
        let written = known.written;
        written.is_none_or(|written| written.elapsed() >= WRITE_PAUSE)
    };
    if is_due {
        write(control);
    }
}
