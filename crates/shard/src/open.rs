//! Opening a shard's flash: what is on it, may it be believed, and what if not.
//!
//! ```text
//!  flash opens ─► superblock ─► identity recorded ─► recovery ─► cache
//!      │              │                                │
//!      └──────────────┴── cannot be used ──────────────┘
//!                               ▼
//!             retirement recorded ─► cache without flash
//! ```
//!
//! Flash that cannot be used never keeps the disks from being served: promise two. But first
//! it is recorded that the flash must not be believed when it comes back, since the origin
//! moves on meanwhile: promise one. If even that is impossible, the shard does not start.

use crate::error::SpawnError;
use crate::latency::Timed;
use crate::limits::{OPENING_SILENCE_MAX, READS_TAKEN_IN};
use crate::progress::ProgressFile;
use crate::retained::RetainedMemory;
use crate::retirement::{Record, RecordFile};
use crate::spec::ShardConfig;
use crate::standstill::Standstill;
use crate::status::Opening;
use block_io::{BufPool, FailureKind};
use cache::{Cache, Committed, Effect, LeftChunk, Recovered, Recovery};
use device::Device;
use device::interleaved::Interleaved;
use device::uring::{FlashFile, OpenError, UringDevice};
use events::EventKind;
use flash_format::{FormatError, PAGE_BYTES, PageBytes, SUPERBLOCK_OFFSETS, Superblock};
use ring::Ring;
use units::errors::chain;
use units::{Duration, Instant};

/// The flash of a shard, through the ring and timed.
pub(crate) type Flash = Interleaved<Timed<UringDevice>>;

/// A shard's cache that is ready to serve.
pub(crate) struct Ready {
    pub(crate) cache: Cache,
    /// None if the cache is without flash.
    pub(crate) flash: Option<Flash>,
    pub(crate) opening: Opening,
    pub(crate) record: Record,
    pub(crate) retained: RetainedMemory,
}

/// Flash that may be used as far as its superblock and the host's record tell; or why not.
pub(crate) enum Found {
    Usable { file: FlashFile, record: Record },
    Unusable { reason: String, record: Record },
}

/// Why flash cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot read the superblock")]
    Read(#[source] std::io::Error),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Recovery(#[from] cache::OpenError),
    #[error("the flash gave no answer for {OPENING_SILENCE_MAX} while the cache was being opened")]
    Silent,
    #[error("the ring failed")]
    Ring(#[source] std::io::Error),
}

/// Looks at the flash and records what has to be remembered before it is used or not.
///
/// # Errors
/// [`SpawnError::Record`] and [`SpawnError::InUse`].
pub(crate) fn look(config: &ShardConfig, file: &RecordFile) -> Result<Found, SpawnError> {
    let known = file.load()?.unwrap_or_default();
    let found = match examine(config) {
        Ok((flash, superblock)) => {
            let never_used = superblock.sequence == 0;
            let record = known.before_use(superblock.uuid, superblock.incarnation, never_used);
            Found::Usable {
                file: flash,
                record,
            }
        }
        Err(Unusable::Open(error @ OpenError::InUse { .. })) => {
            return Err(SpawnError::InUse(error));
        }
        Err(error) => Found::Unusable {
            reason: chain(&error),
            record: known.without_flash(0),
        },
    };
    let (Found::Usable { record, .. } | Found::Unusable { record, .. }) = &found;
    if *record != known {
        file.store(*record)?;
    }
    Ok(found)
}

fn examine(config: &ShardConfig) -> Result<(FlashFile, Superblock), Unusable> {
    let file = FlashFile::open(&config.flash)?;
    let mut page = BufPool::new().take(PAGE_BYTES);
    let mut slots = [[0; PAGE_BYTES]; 2];
    for (slot, offset) in slots.iter_mut().zip(SUPERBLOCK_OFFSETS) {
        let whole = file.read(offset, &mut page).map_err(Unusable::Read)?;
        if !whole {
            return Err(FormatError::NotACache.into());
        }
        slot.copy_from_slice(&page[..PAGE_BYTES]);
    }
    let [a, b]: [&PageBytes; 2] = [&slots[0], &slots[1]];
    let superblock = Superblock::choose([a, b], file.capacity())?;
    Ok((file, superblock))
}

/// Makes a cache of what was found.
///
/// # Errors
/// [`SpawnError::Record`].
pub(crate) fn open(
    found: Found,
    config: &ShardConfig,
    file: &RecordFile,
    ring: &Ring,
    pool: &BufPool,
) -> Result<Ready, SpawnError> {
    let began = ring.now();
    let (reason, record) = match found {
        Found::Unusable { reason, record } => (reason, record),
        Found::Usable {
            file: flash,
            record,
        } => {
            let device = UringDevice::new(flash, ring, pool);
            let mut flash: Flash = Interleaved::new(Timed::new(device));
            let (retained, left) = RetainedMemory::open(config, record.flash);
            let progress = ProgressFile::new(&config.state_dir, &config.name, record.flash);
            let committed = progress.load().max(retained.committed());
            let known = Known {
                record,
                committed,
                left,
            };
            match recover(config, known, &mut flash, ring, pool) {
                Ok(recovered) => {
                    let record = record.in_use(recovered.cache.facts().status().incarnation);
                    file.store(record)?;
                    let ready = recovered_cache(config, recovered, flash, record, ring, began);
                    return Ok(Ready { retained, ..ready });
                }
                Err(error) => {
                    let retired = record.without_flash(0);
                    file.store(retired)?;
                    (chain(&error), retired)
                }
            }
        }
    };
    let kind = FailureKind::FlashUnusable;
    tracing::error!(event = EventKind::FlashUnusable.word(),
        kind = kind.name(), message_id = kind.message_id(),
        cache = config.name, flash = %config.flash.display(), reason,
        "the flash cannot be used: every disk of this cache is served from its origin");
    let opening = Opening {
        time: ring.now() - began,
        ..Opening::default()
    };
    Ok(Ready {
        cache: Cache::bypassed(config.cache.clone(), pool.clone(), reason, ring.now()),
        flash: None,
        opening,
        record,
        retained: RetainedMemory::none(),
    })
}

fn recovered_cache(
    config: &ShardConfig,
    recovered: Recovered,
    flash: Flash,
    record: Record,
    ring: &Ring,
    began: Instant,
) -> Ready {
    let opening = Opening {
        time: ring.now() - began,
        blocks: recovered.blocks,
        blocks_lost: recovered.blocks_lost,
        cold: recovered.cold.map(|reason| reason.to_string()),
        clean: recovered.clean,
    };
    let cache = &config.name;
    if let Some(reason) = &opening.cold {
        tracing::warn!(
            event = EventKind::CacheEmpty.word(),
            cache,
            reason,
            "the cache starts empty"
        );
    }
    tracing::info!(event = EventKind::CacheReady.word(),
        cache, blocks = opening.blocks, lost = opening.blocks_lost,
        clean = opening.clean, time = %opening.time, "the cache is ready");
    Ready {
        cache: recovered.cache,
        flash: Some(flash),
        opening,
        record,
        retained: RetainedMemory::none(),
    }
}

/// What the host knows of a cache beside its flash.
struct Known {
    record: Record,
    committed: Committed,
    /// Chunks in retained memory.
    left: Vec<LeftChunk>,
}

/// Drives a recovery to its end.
fn recover(
    config: &ShardConfig,
    known: Known,
    flash: &mut Flash,
    ring: &Ring,
    pool: &BufPool,
) -> Result<Recovered, Unusable> {
    let (settings, pool) = (config.cache.clone(), pool.clone());
    let least = Some(known.record.least);
    let mut recovery = Recovery::new(settings, flash.capacity(), least, pool, ring.now());
    recovery.set_served(known.record.served);
    recovery.set_committed(known.committed);
    recovery.set_left(known.left);
    let (mut effects, mut done, mut ready) = (Vec::new(), Vec::new(), Vec::new());
    let mut heard = ring.now();
    let mut standstill = Standstill::new();
    loop {
        submit(&mut recovery, &mut effects, flash, ring.now());
        if let Some(finished) = recovery.finished() {
            return Ok(finished?);
        }
        standstill.waits(ring.now(), Some(OPENING_SILENCE_MAX));
        ring.submit_and_wait(Some(OPENING_SILENCE_MAX))
            .map_err(Unusable::Ring)?;
        if standstill.ended(ring.now()).is_some() {
            // That was our silence, not the flash's.
            ring.submit_and_wait(Some(Duration::ZERO))
                .map_err(Unusable::Ring)?;
            heard = ring.now();
        }
        // Who is ready does not matter here; the loop looks at everything when it begins.
        ring.take_ready(&mut ready);
        ready.clear();
        let now = ring.now();
        flash.poll(now, &mut done);
        if !done.is_empty() {
            heard = now;
        }
        for (number, one) in (1..).zip(done.drain(..)) {
            recovery.flash_done(one, now);
            if number % READS_TAKEN_IN == 0 {
                submit(&mut recovery, &mut effects, flash, now);
                ring.submit();
            }
        }
        if now - heard >= OPENING_SILENCE_MAX {
            return Err(Unusable::Silent);
        }
    }
}

/// Hands what a recovery asks for to the flash.
fn submit(recovery: &mut Recovery, effects: &mut Vec<Effect>, flash: &mut Flash, now: Instant) {
    recovery.take_effects(effects);
    for effect in effects.drain(..) {
        // A cache that is being opened has no disks, so it asks for nothing else.
        if let Effect::Flash(op) = effect {
            flash.submit(op, now);
        }
    }
}
