//! What one host has cached of one disk: which blocks, which version of each, and which of them the origin lacks.

use crate::sets::Sets;
use crate::setup::Cache;
use flash_format::SEGMENT_BYTES_MIN;
use policy::reclaim::Kind;
use segment_log::Source;
use simulator::simulated_store::SimulatedStore;
use units::{Bytes, DiskSlot, Instant};

const DISK: DiskSlot = DiskSlot::new(0);
/// A log has free and half full segments; so many of them are small beside a cache.
const SEGMENTS: u64 = 128;

enum Store {
    Daemon(Box<SimulatedStore>),
    Sets(Sets),
}

/// What is cached of one disk at one host.
pub(crate) struct Copies {
    store: Store,
    /// By block: the version that is cached; 0: none is.
    versions: Vec<u32>,
    /// By block: when it came.
    came: Vec<u64>,
    comings: u64,
    /// By block: the origin lacks it.
    dirty: Vec<bool>,
    /// How many that are.
    dirty_count: u32,
    left: Vec<u32>,
}

/// The size of segments of which a log of that many blocks has enough.
fn segment(blocks: u32) -> Bytes {
    let most = u64::from(blocks) * units::BLOCK_BYTES / SEGMENTS;
    let mut bytes = SEGMENT_BYTES_MIN.get();
    while bytes * 2 <= most && bytes < flash_format::SEGMENT_BYTES_DEFAULT.get() {
        bytes *= 2;
    }
    Bytes::new(bytes)
}

impl Copies {
    /// Nothing is cached yet.
    pub(crate) fn new(
        cache: Cache,
        capacity: u32,
        blocks: u32,
        seed: u64,
    ) -> Result<Self, flash_format::FormatError> {
        let store = match cache {
            Cache::Daemon => {
                let store = SimulatedStore::new(capacity, segment(capacity), Kind::default())?;
                Store::Daemon(Box::new(store))
            }
            Cache::Sets { ways, spread } => {
                Store::Sets(Sets::new(capacity, blocks, ways, spread, seed))
            }
        };
        Ok(Self {
            store,
            versions: vec![0; blocks as usize],
            came: vec![0; blocks as usize],
            comings: 0,
            dirty: vec![false; blocks as usize],
            dirty_count: 0,
            left: Vec::new(),
        })
    }

    /// Time has passed.
    pub(crate) fn advance(&mut self, now: Instant) {
        if let Store::Daemon(store) = &mut self.store {
            store.advance(now);
        }
    }

    /// The version that is cached of a block; it is used.
    pub(crate) fn touch(&mut self, block: u32) -> Option<u32> {
        let is_cached = match &mut self.store {
            Store::Daemon(store) => store.touch(DISK, block),
            Store::Sets(sets) => sets.touch(block),
        };
        is_cached.then(|| self.versions[block as usize])
    }

    /// The version that is cached of a block.
    pub(crate) fn version(&self, block: u32) -> Option<u32> {
        Some(self.versions[block as usize]).filter(|version| *version > 0)
    }

    /// A block comes in, in place of one that was cached of it. Dirty blocks that had to leave for it are told, with
    /// their versions.
    pub(crate) fn insert(&mut self, block: u32, version: u32) -> Vec<(u32, u32)> {
        let mut left = std::mem::take(&mut self.left);
        left.clear();
        let is_there = match &mut self.store {
            Store::Daemon(store) => {
                let known = store.contains(DISK, block);
                if known {
                    store.invalidate(DISK, block);
                }
                let source = if known { Source::Update } else { Source::Fill };
                store.insert(DISK, block, source, &mut |_, gone| left.push(gone))
            }
            Store::Sets(sets) => {
                left.extend(sets.insert(block));
                true
            }
        };
        self.comings += 1;
        self.versions[block as usize] = if is_there { version } else { 0 };
        self.came[block as usize] = self.comings;
        let mut dirty = Vec::new();
        for gone in left.drain(..) {
            let was = std::mem::take(&mut self.versions[gone as usize]);
            if self.clean(gone) {
                dirty.push((gone, was));
            }
        }
        self.left = left;
        dirty
    }

    /// A block that is cached is written, before time begins: the origin lacks it.
    pub(crate) fn begin_dirty(&mut self, block: u32, version: u32) {
        self.versions[block as usize] = version;
        self.soil(block);
    }

    /// A block leaves, if it is cached.
    pub(crate) fn remove(&mut self, block: u32) {
        if self.versions[block as usize] == 0 {
            return;
        }
        match &mut self.store {
            Store::Daemon(store) => {
                store.invalidate(DISK, block);
            }
            Store::Sets(sets) => sets.remove(block),
        }
        self.versions[block as usize] = 0;
        self.clean(block);
    }

    /// The origin lacks a block that is cached.
    pub(crate) fn soil(&mut self, block: u32) {
        self.dirty_count += u32::from(!self.dirty[block as usize]);
        self.dirty[block as usize] = true;
    }

    /// The origin, or another host, has it. Whether it lacked it.
    pub(crate) fn clean(&mut self, block: u32) -> bool {
        let was = std::mem::take(&mut self.dirty[block as usize]);
        self.dirty_count -= u32::from(was);
        was
    }

    /// Whether the origin lacks a block.
    pub(crate) fn is_dirty(&self, block: u32) -> bool {
        self.dirty[block as usize]
    }

    /// How many blocks the origin lacks.
    pub(crate) fn dirty_blocks(&self) -> u32 {
        self.dirty_count
    }

    /// The blocks that the origin lacks, in order of address.
    pub(crate) fn dirty(&self) -> Vec<u32> {
        if self.dirty_count == 0 {
            return Vec::new();
        }
        let blocks = (0_u32..).zip(&self.dirty);
        let dirty = blocks.filter(|(_, is_dirty)| **is_dirty);
        dirty.map(|(block, _)| block).collect()
    }

    /// What is cached, the newest first: as it came into a log, or as it was used last.
    pub(crate) fn list(&self) -> Vec<u32> {
        let age = |block: u32| match &self.store {
            Store::Daemon(_) => self.came[block as usize],
            Store::Sets(sets) => sets.age(block),
        };
        let blocks = (0_u32..).zip(&self.versions);
        let cached = blocks.filter(|(_, version)| **version > 0);
        let mut list: Vec<u32> = cached.map(|(block, _)| block).collect();
        list.sort_unstable_by_key(|block| std::cmp::Reverse(age(*block)));
        list
    }
}
