//! A shard's thread starts: the flash is opened, and the loop begins.

use super::{Scratch, Shard};
use crate::cache_record::CacheRecord;
use crate::clients::Clients;
use crate::control::ShardHandle;
use crate::disks::Disks;
use crate::error::SpawnError;
use crate::failures::Repeats;
use crate::flash::FlashSide;
use crate::jobs::Jobs;
use crate::limits::RING_ENTRIES;
use crate::lost_blocks::LostBlocks;
use crate::memory::ClientMemory;
use crate::open;
use crate::owner_records::OwnerRecords;
use crate::progress::{Progress, ProgressFile};
use crate::records::Records;
use crate::retirement::RecordFile;
use crate::slow_flash::Told;
use crate::sources::Sources;
use crate::spec::ShardConfig;
use crate::standbys::Standbys;
use crate::standstill::Standstill;
use crate::status::RequestTimes;
use crate::throttles::Throttles;
use block_io::BufPool;
use ring::Ring;
use std::io;
use std::sync::mpsc;

/// The life of a shard's thread.
pub(super) fn run(config: ShardConfig, tell: &mpsc::Sender<Result<ShardHandle, SpawnError>>) {
    match start(config, tell) {
        Ok(shard) => shard.serve(),
        // The caller waits for this until the handle was sent; afterwards it can only be logged.
        Err(error) => {
            if let Err(mpsc::SendError(Err(error))) = tell.send(Err(error)) {
                tracing::error!(%error, "a shard could not be started");
            }
        }
    }
}

fn start(
    config: ShardConfig,
    tell: &mpsc::Sender<Result<ShardHandle, SpawnError>>,
) -> Result<Shard, SpawnError> {
    let (ring, pool) = (Ring::new(RING_ENTRIES)?, BufPool::new());
    let (sender, mailbox) = ring::mailbox(&ring)?;
    let record_file = RecordFile::new(&config.state_dir, &config.name);
    let found = open::look(&config, &record_file)?;
    let handle = ShardHandle::new(sender.clone());
    if tell.send(Ok(handle)).is_err() {
        return Err(io::Error::other("nobody waits for the shard").into());
    }
    let ready = open::open(found, &config, &record_file, &ring, &pool)?;
    let progress = ProgressFile::new(&config.state_dir, &config.name, ready.record.flash);
    let cache = &config.name;
    Ok(Shard {
        mailbox,
        sources: Sources::default(),
        now: ring.now(),
        turns: 0,
        flash: FlashSide::new(ready.flash),
        disks: Disks::new(),
        standbys: Standbys::new(config.lend_timeout),
        clients: Clients::default(),
        throttles: Throttles::default(),
        memory: ClientMemory::new(config.request_memory),
        jobs: Jobs::default(),
        records: Records::new(
            CacheRecord::new(cache, ready.record, record_file, sender.clone()),
            OwnerRecords::new(cache, sender.clone()),
            Progress::new(progress, sender),
            ready.retained,
        ),
        standstill: Standstill::new(),
        repeats: Repeats::default(),
        lost_blocks: LostBlocks::default(),
        told: Told::at_start(&ready.cache),
        opening: ready.opening,
        detached_times: RequestTimes::default(),
        scratch: Scratch::default(),
        cache: ready.cache,
        config,
        ring,
        pool,
    })
}
