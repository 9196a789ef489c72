//! Making a cache of what is on flash: the store is recovered, and writes its first checkpoint. No request
//! is served before that is complete.

use crate::api::{Config, Effect};
use crate::cache::Cache;
use crate::flash_use::FlashUse;
use crate::ports::Ports;
use block_io::{BufPool, FlashDone, IoError};
use block_store::{ColdReason, Committed, DirtyReport, LeftChunk, OpenError};
use units::{Bytes, DiskId, Instant};

/// A cache that is ready, and what was found.
pub struct Recovered {
    /// The cache.
    pub cache: Cache,
    /// Blocks that came back.
    pub blocks: u64,
    /// Slots that were trusted but whose descriptors were lost or contradicted each other.
    pub blocks_lost: u64,
    /// Why nothing came back, if that is so.
    pub cold: Option<ColdReason>,
    /// Whether the last life ended with a clean stop.
    pub clean: bool,
}

impl std::fmt::Debug for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Recovered({} blocks, {} lost, cold: {:?})",
            self.blocks, self.blocks_lost, self.cold
        )
    }
}

enum Stage {
    Store(Box<block_store::Recovery>),
    /// The cache is there and writes its first checkpoint.
    Opening {
        recovered: Box<Recovered>,
        checkpoint: u64,
    },
    Failed(OpenError),
    Taken,
}

/// The state machine that opens a cache. Driven like [`Cache`]: effects out, completions in.
pub struct Recovery {
    config: Config,
    pool: BufPool,
    stage: Stage,
}

impl Recovery {
    /// Begins to open the cache on a device of `capacity` bytes. `incarnation_required` is the
    /// least incarnation that the host still trusts, if it has recorded one for this cache.
    pub fn new(
        config: Config,
        capacity: Bytes,
        incarnation_required: Option<u64>,
        pool: BufPool,
        now: Instant,
    ) -> Self {
        let store = block_store::Recovery::new(
            config.of_store(),
            capacity,
            incarnation_required,
            pool.clone(),
            now,
        );
        Self {
            config,
            pool,
            stage: Stage::Store(Box::new(store)),
        }
    }

    /// See [`block_store::Recovery::set_served`].
    pub fn set_served(&mut self, incarnation: u64) {
        if let Stage::Store(store) = &mut self.stage {
            store.set_served(incarnation);
        }
    }

    /// See [`block_store::Recovery::set_committed`].
    pub fn set_committed(&mut self, committed: Committed) {
        if let Stage::Store(store) = &mut self.stage {
            store.set_committed(committed);
        }
    }

    /// See [`block_store::Recovery::set_left`].
    pub fn set_left(&mut self, left: Vec<LeftChunk>) {
        if let Stage::Store(store) = &mut self.stage {
            store.set_left(left);
        }
    }

    /// See [`block_store::Recovery::set_void`].
    pub fn set_void(&mut self, disks: Vec<DiskId>) {
        if let Stage::Store(store) = &mut self.stage {
            store.set_void(disks);
        }
    }

    /// Moves what is to be done to the end of `into`, in order.
    pub fn take_effects(&mut self, into: &mut Vec<Effect>) {
        match &mut self.stage {
            Stage::Store(store) => into.extend(store.take_operations().map(Effect::Flash)),
            Stage::Opening { recovered, .. } => recovered.cache.take_effects(into),
            Stage::Failed(_) | Stage::Taken => {}
        }
    }

    /// A flash operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this recovery, or has ended before.
    pub fn flash_done(&mut self, done: FlashDone, now: Instant) {
        match &mut self.stage {
            Stage::Store(store) => {
                store.flash_done(done, now);
                match store.finished() {
                    None => {}
                    Some(Ok(found)) => self.open(found, now),
                    Some(Err(error)) => self.stage = Stage::Failed(error),
                }
            }
            Stage::Opening { recovered, .. } => recovered.cache.flash_done(done, now),
            Stage::Failed(_) | Stage::Taken => {}
        }
    }

    fn open(&mut self, mut found: block_store::Recovered, now: Instant) {
        let store = found.ports(self.pool.clone(), now);
        let ports = Ports::over(store, self.pool.clone(), now);
        let flash = FlashUse::InUse(found.store);
        let mut cache = Cache::new(self.config.clone(), ports, flash);
        cache.open(now);
        let recovered = Recovered {
            cache,
            blocks: found.blocks,
            blocks_lost: found.blocks_lost,
            cold: found.cold,
            clean: found.clean,
        };
        self.stage = Stage::Opening {
            recovered: Box::new(recovered),
            checkpoint: found.checkpoint,
        };
    }

    /// The cache, when it is ready, or why it cannot be; once.
    pub fn finished(&mut self) -> Option<Result<Recovered, OpenError>> {
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Failed(error) => Some(Err(error)),
            Stage::Opening {
                recovered,
                checkpoint,
            } => match recovered.cache.facts().has_checkpoint(checkpoint) {
                None => Some(Err(OpenError::Io(IoError::Failed))),
                Some(true) => Some(Ok(*recovered)),
                Some(false) => {
                    self.stage = Stage::Opening {
                        recovered,
                        checkpoint,
                    };
                    None
                }
            },
            stage @ (Stage::Store(_) | Stage::Taken) => {
                self.stage = stage;
                None
            }
        }
    }

    /// How far the reading has come: parts done and parts in all, of the present stage.
    pub fn progress(&self) -> (u64, u64) {
        match &self.stage {
            Stage::Store(store) => store.progress(),
            Stage::Opening { .. } | Stage::Failed(_) | Stage::Taken => (0, 0),
        }
    }
}

/// The state machine that looks for what is dirty. Driven like [`Recovery`]: effects out,
/// completions in; all effects are reads of the flash.
pub struct Inspection(block_store::Inspection);

impl Inspection {
    /// Begins to look at the cache on a device of `capacity` bytes.
    pub fn new(capacity: Bytes, pool: BufPool, now: Instant) -> Self {
        Self(block_store::Inspection::new(capacity, pool, now))
    }

    /// See [`block_store::Recovery::set_left`].
    pub fn set_left(&mut self, left: Vec<LeftChunk>) {
        self.0.set_left(left);
    }

    /// Moves what is to be done to the end of `into`, in order.
    pub fn take_effects(&mut self, into: &mut Vec<Effect>) {
        into.extend(self.0.take_operations().map(Effect::Flash));
    }

    /// A flash operation has ended.
    ///
    /// # Panics
    /// If it was not issued by this, or has ended before.
    pub fn flash_done(&mut self, done: FlashDone, now: Instant) {
        self.0.flash_done(done, now);
    }

    /// What was found, or why nothing could be; once.
    pub fn finished(&mut self) -> Option<Result<DirtyReport, OpenError>> {
        self.0.finished()
    }
}
