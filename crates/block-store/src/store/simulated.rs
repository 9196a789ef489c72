//! A store of blocks that are nothing, on a flash that ends every operation at once.
//!
//! What the store decides is the daemon's own: append, rest, trust, commit, checkpoint, reclaim. Of flash there is
//! only the count of what would be written. Blocks are numbered from zero over all disks, in 32 bits. Every
//! disk is attached, and its origin has durably what it was given.

use super::Store;
use crate::checkpoint::Checkpoint;
use crate::chunks::Entry;
use crate::config::Config;
use crate::dirty::DirtyDisks;
use crate::disks::{DiskTable, Served, slots};
use crate::effects::{Effect, Errand, Own};
use crate::identity::Identity;
use crate::payload::Nothing;
use crate::ports::{Ports, Tag};
use crate::trust::Trust;
use crate::trusted::Trusted;
use dirty_log::Found;
use flash_format::Geometry;
use segment_log::{Dense, SegmentLog, StreamKey};
use std::collections::BTreeMap;
use units::{BlockIndex, Bytes, DiskId, DiskSlot};

/// The caller of such a store: reads nothing, and has no effects.
pub struct Simulated;

impl Tag for Simulated {
    type Effect = Effect;
    type Payload = Nothing;
}

/// An empty store of blocks that are nothing, on a flash that is laid out like this, and its ports.
pub fn empty(geometry: Geometry, config: Config) -> (Store<Nothing>, Ports<Simulated>) {
    let identity = Identity {
        uuid: 0,
        incarnation: 1,
        geometry,
    };
    let found = super::Found {
        identity,
        segments: SegmentLog::new(geometry, Dense::new(), config.reclaim.build()),
        payload: Nothing::new(&geometry),
        trust: Trust::new(Trusted::new(geometry), BTreeMap::new()),
        disks: DiskTable::from(Vec::new()),
        logs: DirtyDisks::default(),
        checkpoint: Checkpoint::of_nothing(),
        journal_next: 0,
    };
    let mut store = Store::new(found, config);
    for disk in slots() {
        store.origins_mut().attached(disk, true);
    }
    (store, Ports::of_nothing())
}

/// A disk comes under write-back: it has a dirty log from now on. What the daemon's tables say of it is
/// not written.
pub fn give_log(store: &mut Store<Nothing>, disk: DiskSlot) {
    let served = Served {
        id: DiskId::from_u128(disk.index() as u128 + 1),
        name: String::new(),
        size: Bytes::ZERO,
        fingerprint: None,
        epoch: 1,
        key: None,
    };
    store.disks.enter(disk, served);
    store.write_back().give_log(disk);
}

/// Whether a block is cached; marks it as referenced.
#[inline]
pub fn touch(store: &mut Store<Nothing>, disk: DiskSlot, block: BlockIndex) -> bool {
    store.segments.touch(disk, block).is_some()
}

/// Where the bytes of a block would be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Memory: its chunk is open, or it was erased.
    Memory,
    /// Flash.
    Flash,
    /// The origin.
    Origin,
}

/// Where the bytes of a block of a disk with a dirty log would be read from; marks a clean copy as referenced.
pub fn locate(store: &mut Store<Nothing>, disk: DiskSlot, block: BlockIndex) -> Source {
    let slot = match store.dirty_logs().find(disk, block) {
        Found::Erased(_) => return Source::Memory,
        Found::Dirty(slot) => slot,
        Found::Clean => match store.segments.touch(disk, block) {
            Some(slot) => slot,
            None => return Source::Origin,
        },
    };
    match store.writer.open_chunk_of(&store.segments, slot) {
        Some(_) => Source::Memory,
        None => Source::Flash,
    }
}

/// Admits the first of these blocks of one source: as many as nothing comes of but that they wait in memory, up to the
/// first that is cached. Returns how many: [`Store::admit`] takes the one behind them.
#[inline]
pub fn admit_quietly(
    store: &mut Store<Nothing>,
    ports: &mut Ports<Simulated>,
    disk: DiskSlot,
    source: segment_log::Source,
    blocks: impl Iterator<Item = BlockIndex> + Clone,
) -> usize {
    let count = store.origins.write_count(disk);
    let rests = source == segment_log::Source::Update;
    // Beyond its limit a block at rest is trusted early, which the journal is told.
    let most = if rests {
        u32::try_from(store.resting.room()).unwrap_or(u32::MAX)
    } else {
        u32::MAX
    };
    let (writer, mut streams) = store.writer();
    let key = StreamKey::of(disk, source);
    let entry = |block| Entry {
        block,
        source,
        count,
    };
    let entries = blocks.clone().map(|block| (entry(block), &()));
    let quiet = writer.append_quietly(ports, &mut streams, key, source, entries, most);
    let Some(quiet) = quiet else {
        return 0;
    };
    if rests {
        let (mut copies, resting) = store.copies();
        for (at, block) in (0..quiet.count).zip(blocks) {
            let slot = quiet.first.slot.advance(at);
            resting.rest(ports, &mut copies, disk, block, slot, count);
        }
    }
    quiet.count as usize
}

/// The trusted copies of these blocks go to rest, with what is committed next.
pub fn rest_beside(
    store: &mut Store<Nothing>,
    ports: &mut Ports<Simulated>,
    disk: DiskSlot,
    beside: impl Iterator<Item = BlockIndex>,
) {
    let (mut copies, resting) = store.copies();
    resting.rest_beside(ports, &mut copies, disk, beside);
}

/// Has a store do all that it can do at this time: what it asks of the flash ends at once. False if it
/// asked nothing, so that nothing was written and nothing has left.
#[inline]
pub fn settle(store: &mut Store<Nothing>, ports: &mut Ports<Simulated>) -> bool {
    store.pump(ports);
    let Some(first) = ports.next_ended() else {
        return false;
    };
    end(store, ports, first);
    true
}

/// Ends what was asked of the flash, and what that leads to.
fn end(store: &mut Store<Nothing>, ports: &mut Ports<Simulated>, first: Errand) {
    let mut next = Some(first);
    while let Some(mut errand) = next {
        loop {
            store.completed(ports, Own(errand), true, Some(()));
            match ports.next_ended() {
                Some(other) => errand = other,
                None => break,
            }
        }
        store.pump(ports);
        next = ports.next_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Stats;
    use units::Instant;

    const DISK: DiskSlot = DiskSlot::new(3);

    #[test]
    fn a_log_of_nothing_goes_to_flash_and_becomes_clean() {
        let geometry = Geometry::of_slots(256, Bytes::kib(64)).unwrap();
        let (mut store, mut ports) = empty(geometry, Config::default());
        give_log(&mut store, DISK);
        let block = |number: u64| BlockIndex::new(number % 10);
        for number in 0..20 {
            ports.set_now(Instant::from_nanos(number));
            let log = &mut store.write_back();
            log.log_block(&mut ports, DISK, block(number), &&())
                .unwrap();
        }
        let end = store.write_back().flush_log(&mut ports, DISK);
        settle(&mut store, &mut ports);
        let dirty = store.dirty_logs().get(DISK).unwrap();
        assert_eq!(dirty.durable(), end);
        assert_eq!(dirty.log().distinct(), Bytes::kib(40));
        assert_eq!(ports.stats().flash_written.dirty, 20 * 4096);
        assert!(matches!(
            store.dirty_logs().find(DISK, block(4)),
            Found::Dirty(_)
        ));
        store.write_back().settle(&mut ports, DISK, end);
        settle(&mut store, &mut ports);
        assert_eq!(store.dirty_logs().find(DISK, block(4)), Found::Clean);
        assert!((0..10).all(|number| touch(&mut store, DISK, block(number))));
        store.self_check();
    }

    /// What a store does when requests of these lengths rewrite blocks, each behind as many that are rewritten
    /// and filled in turn, so that no two slots that come to rest lie beside each other.
    fn rewritten(lengths: &[u64], quietly: bool) -> (Stats, bool) {
        let geometry = Geometry::of_slots(1 << 15, Bytes::mib(1)).unwrap();
        let (mut store, mut ports) = empty(geometry, Config::default());
        let mut next = 0;
        let mut was_quiet = false;
        for length in lengths {
            let single = (0..2 * length).map(|at| match at % 2 {
                0 => (segment_log::Source::Update, 1),
                _ => (segment_log::Source::Fill, 1),
            });
            for (source, length) in single.chain([(segment_log::Source::Update, *length)]) {
                let end = next + length;
                while next < end {
                    if quietly {
                        let blocks = (next..end).map(BlockIndex::new);
                        let count = admit_quietly(&mut store, &mut ports, DISK, source, blocks);
                        was_quiet |= count > 1;
                        next += count as u64;
                    }
                    if next < end {
                        let block = BlockIndex::new(next);
                        store.admit(&mut ports, DISK, block, source, &());
                        settle(&mut store, &mut ports);
                        next += 1;
                    }
                }
            }
        }
        store.self_check();
        (ports.stats().clone(), was_quiet)
    }

    #[test]
    fn blocks_that_are_admitted_together_come_to_rest_as_they_would_alone() {
        let lengths = [100; 60];
        let (together, were_together) = rewritten(&lengths, true);
        let (alone, _) = rewritten(&lengths, false);
        assert!(were_together);
        assert!(alone.retrusted_blocks > 0, "some are trusted early");
        assert_eq!(together, alone);
    }
}
