//! Retained memory, which outlives the process, for a shard's cache: accepted writes that are not on flash.
//!
//! A file by the cache's name in the folder for such memory. It takes no memory until a disk comes
//! under write-back.

use crate::spec::ShardConfig;
use cache::{Committed, LeftChunk, RetainedUpdate};
use device::retained::Left;
use units::errors::chain;

/// The memory, if it could be had.
pub(crate) struct RetainedMemory(Option<device::retained::RetainedMemory>);

impl RetainedMemory {
    /// Opens it for the cache of this identity. What a process that was killed has left in it is
    /// given to the recovery.
    pub(crate) fn open(config: &ShardConfig, cache: u128) -> (Self, Vec<LeftChunk>) {
        let path = config.runtime_dir.join(format!("{}.lasting", config.name));
        let places = config.cache.retained_places as usize;
        match device::retained::RetainedMemory::open(&path, cache, places) {
            Ok((retained, left)) => (Self(Some(retained)), left.into_iter().map(chunk).collect()),
            Err(error) => {
                tracing::warn!(
                    cache = config.name,
                    error = chain(&error),
                    "no disk of this cache can be under write-back"
                );
                (Self(None), Vec::new())
            }
        }
    }

    /// None, for a cache without flash.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// How far the cache's flash was durable, as a process that was killed has noted it.
    pub(crate) fn committed(&self) -> Committed {
        let counters = self
            .0
            .as_ref()
            .map(device::retained::RetainedMemory::counters);
        let [superblock, journal] = counters.unwrap_or_default();
        Committed {
            superblock,
            journal,
        }
    }

    /// Notes how far it is.
    pub(crate) fn note_committed(&mut self, committed: Committed) {
        if let Some(memory) = &mut self.0 {
            memory.set_counters([committed.superblock, committed.journal]);
        }
    }

    /// Takes the memory that a disk under write-back needs. False if it cannot be had.
    pub(crate) fn reserve(&self) -> bool {
        let reserved = self
            .0
            .as_ref()
            .map(device::retained::RetainedMemory::reserve);
        if let Some(Err(error)) = &reserved {
            tracing::error!(error = chain(error), "no disk can come under write-back");
        }
        matches!(reserved, Some(Ok(())))
    }

    /// Carries out what the cache tells it.
    ///
    /// # Panics
    /// If it was not reserved.
    pub(crate) fn carry_out(&mut self, what: &RetainedUpdate) {
        let memory = self.0.as_mut();
        let memory = memory.expect("a disk comes under write-back when there is such memory");
        match what {
            RetainedUpdate::Begin { place, head } => memory.begin(*place as usize, head),
            RetainedUpdate::Push {
                place,
                record,
                page,
            } => {
                let page = page.as_ref();
                let page = page.map(|(number, bytes)| (*number as usize, &bytes[..]));
                memory.push(*place as usize, record, page);
            }
            RetainedUpdate::Clear { place } => memory.clear(*place as usize),
        }
    }
}

fn chunk(left: Left) -> LeftChunk {
    LeftChunk {
        head: left.head,
        records: left.records,
        pages: left.pages,
    }
}
