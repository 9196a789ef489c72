//! The shards, and waiting for their answers without blocking a thread.

use super::flash_size::FlashSize;
use super::registry::Entry;
use api::problem::ProblemKind;
use api::types::Problem;
use configuration::{CacheConfig, Name};
use shard::{Reply, ShardError, ShardHandle, ShardStatus};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a shard may take to tell its state before it is shown as silent. It answers
/// between two turns of its loop, within milliseconds, once its flash is open.
const STATUS_TIME_MAX: Duration = Duration::from_secs(2);

/// A cache's shard.
pub(super) struct Shard {
    handle: ShardHandle,
    config: CacheConfig,
    flash: Option<FlashSize>,
    has_answered: AtomicBool,
}

/// What a shard says when it is asked how it is.
pub(super) enum Pulse {
    /// Its state.
    Status(Box<ShardStatus>),
    /// It has not answered yet since it was started: it is opening its flash.
    Opening,
    /// It does not answer any more.
    Silent,
}

impl Shard {
    pub(super) fn new(handle: ShardHandle, config: CacheConfig) -> Self {
        Self {
            handle,
            flash: FlashSize::of(&config.path),
            config,
            has_answered: AtomicBool::new(false),
        }
    }

    pub(super) fn handle(&self) -> &ShardHandle {
        &self.handle
    }

    pub(super) fn config(&self) -> &CacheConfig {
        &self.config
    }

    /// What its flash was like at the start; none if it could not be used.
    pub(super) fn flash(&self) -> Option<FlashSize> {
        self.flash
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        send: impl FnOnce(&ShardHandle, Reply<T>),
    ) -> Result<T, ShardError> {
        ask(&self.handle, send).await
    }

    pub(super) async fn pulse(&self) -> Pulse {
        let asked = self.ask(ShardHandle::status);
        match tokio::time::timeout(STATUS_TIME_MAX, asked).await {
            Ok(Ok(status)) => {
                self.has_answered.store(true, Ordering::Relaxed);
                Pulse::Status(Box::new(status))
            }
            Err(_) if !self.has_answered.load(Ordering::Relaxed) => Pulse::Opening,
            Ok(Err(_)) | Err(_) => Pulse::Silent,
        }
    }
}

/// Sends a command to a shard. What comes back has its answer, or is closed if the shard has ended.
pub(super) fn send<T: Send + 'static>(
    handle: &ShardHandle,
    command: impl FnOnce(&ShardHandle, Reply<T>),
) -> oneshot::Receiver<Result<T, ShardError>> {
    let (sender, answer) = oneshot::channel();
    command(
        handle,
        Box::new(move |result| {
            // Nobody waits any more if the request's client has gone.
            let _ = sender.send(result);
        }),
    );
    answer
}

/// Sends a command to a shard and waits for its answer.
pub(super) async fn ask<T: Send + 'static>(
    handle: &ShardHandle,
    command: impl FnOnce(&ShardHandle, Reply<T>),
) -> Result<T, ShardError> {
    let answer = send(handle, command);
    answer.await.unwrap_or(Err(ShardError::Ended))
}

/// The shards by the name of their cache.
#[derive(Default)]
pub(super) struct Shards(BTreeMap<Name, Shard>);

impl Shards {
    pub(super) fn add(&mut self, shard: Shard) {
        self.0.insert(shard.config.name.clone(), shard);
    }

    pub(super) fn get(&self, name: &Name) -> Option<&Shard> {
        self.0.get(name)
    }

    /// The shard that serves a disk.
    ///
    /// # Errors
    /// If its cache is not there.
    pub(super) fn of(&self, entry: &Entry) -> Result<&Shard, Problem> {
        self.get(&entry.cache).ok_or_else(|| {
            let detail = format!("there is no cache '{}'", entry.cache);
            Problem::new(ProblemKind::NoSuchCache, detail)
        })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Shard> {
        self.0.values()
    }

    /// What all caches have of flash.
    pub(super) fn flash_bytes(&self) -> u64 {
        let caches = self.all().filter_map(Shard::flash);
        caches.map(|flash| flash.device.get()).sum()
    }

    /// How each cache is.
    pub(super) async fn pulses(&self) -> Pulses<'_> {
        let mut pulses = Vec::new();
        for shard in self.all() {
            pulses.push((shard, shard.pulse().await));
        }
        pulses
    }
}

/// How each cache was when it was asked.
pub(super) type Pulses<'a> = Vec<(&'a Shard, Pulse)>;

/// The states of the caches that have answered.
pub(super) fn states(pulses: Pulses<'_>) -> BTreeMap<Name, Box<ShardStatus>> {
    let mut states = BTreeMap::new();
    for (shard, pulse) in pulses {
        if let Pulse::Status(status) = pulse {
            states.insert(shard.config().name.clone(), status);
        }
    }
    states
}
