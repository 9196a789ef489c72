//! The index: descriptors of every used segment, for the slots that are trusted.

use super::chain::Chunk;
use super::logs::FoundLog;
use super::tables::Replayed;
use super::{ColdReason, Recovered};
use crate::checkpoint::Checkpoint;
use crate::chunks::Content;
use crate::config::Config;
use crate::dirty::{DirtyDisk, DirtyDisks};
use crate::guard::{Guard, holds};
use crate::identity::Identity;
use crate::index::{Index, Located};
use crate::journal::Ticket;
use crate::payload::Pages;
use crate::store::{self, Store};
use crate::trust::Trust;
use crate::trusted::Trusted;
use crate::walk::{Walked, blocks_of, next_header};
use dirty_log::{Found, Record, What};
use flash_format::{
    Descriptor, DirtyChunkHeader, DirtyRecord, Geometry, PAGE_BYTES, SegmentEntry, SegmentIndex,
    SegmentKind, SegmentState, Superblock, read_footer,
};
use segment_log::{Entered, FlashWritten, Phase, SegmentLog};
use std::collections::BTreeMap;
use units::{Bytes, Instant, Offset, Set};

/// What has been read so far.
pub(super) struct Segments {
    superblock: Superblock,
    geometry: Geometry,
    disks: Vec<Option<flash_format::DiskEntry>>,
    log: SegmentLog<Index, Content>,
    dirty: DirtyDisks,
    cuts: BTreeMap<SegmentIndex, u32>,
    trusted: Trusted,
    checksums: Vec<u32>,
    journal_next: u64,
    cold: Option<ColdReason>,
    lost: u64,
    done: u64,
    total: u64,
    /// Blocks that two trusted slots claim: neither is believed.
    contradicted: Vec<Located>,
    /// What a footer said and what of it is entered: memory that every segment uses again.
    descriptors: Vec<Descriptor>,
    found: Vec<Located>,
}

/// Frees segments that claim the same generation: we give each out once, so neither is ours.
fn free_doubles(segments: &mut [SegmentEntry]) {
    let used = |entry: &&SegmentEntry| entry.state != SegmentState::Free;
    let mut seen = Set::default();
    let mut doubled = Set::default();
    for entry in segments.iter().filter(used) {
        if !seen.insert(entry.generation) {
            doubled.insert(entry.generation);
        }
    }
    for entry in segments {
        if entry.state != SegmentState::Free && doubled.contains(&entry.generation) {
            entry.state = SegmentState::Free;
            entry.trusted.fill(0);
        }
    }
}

/// Makes what was found of each dirty log the log that the cache goes on with.
fn dirty_disks(
    geometry: &Geometry,
    segments: &[SegmentEntry],
    found: &[FoundLog],
    trusted: &Trusted,
    now: Instant,
) -> DirtyDisks {
    let mut disks = DirtyDisks::default();
    for log in found.iter().filter(|log| log.is_dirty()) {
        let mut dirty = DirtyDisk::new(log.watermark);
        let mut settled = Vec::new();
        let its = (0..).map(SegmentIndex::new).zip(segments);
        let its = its.filter(|(_, entry)| {
            entry.disk == log.disk && entry.state == SegmentState::Used(SegmentKind::Dirty)
        });
        let by_age: BTreeMap<u64, SegmentIndex> = its
            .map(|(index, entry)| (entry.generation, index))
            .collect();
        for (generation, segment) in by_age {
            dirty.opened(segment, Ticket::default());
            let here = |chunk: &&Chunk| {
                (chunk.header.segment, chunk.header.generation) == (segment, generation)
            };
            for Chunk { header, .. } in log.chunks.iter().filter(here) {
                if header.begins_interval {
                    dirty.found_flush();
                }
                for (at, record) in header.records() {
                    if at <= dirty.log().last() {
                        continue;
                    }
                    let what = match record {
                        DirtyRecord::Erasure(erasure) => What::Erasure(*erasure),
                        DirtyRecord::Data(data) => {
                            let slot = geometry.slot(segment, data.page);
                            if trusted.contains(slot) {
                                settled.push(dirty.log().end());
                            }
                            let block = data.block;
                            What::Data { block, slot }
                        }
                    };
                    dirty.found(Record { at, what }, now);
                }
            }
        }
        // A flush may have been answered behind the last record: only what follows would say so.
        if holds(Guard::RecoveryEndsInterval) {
            dirty.found_flush();
        }
        // Only a log that went to the origin out of order has such records, and may skip others.
        if !settled.is_empty() {
            dirty.found_trusted(settled.into_iter());
        }
        dirty.found_in(log.epoch(), log.locked());
        disks.set(log.disk, Some(dirty));
    }
    disks
}

impl Segments {
    pub(super) fn new(
        mut replayed: Replayed,
        logs: &[FoundLog],
        config: &Config,
        now: Instant,
    ) -> Self {
        let geometry = replayed.superblock.geometry;
        free_doubles(&mut replayed.segments);
        let slots = u32::try_from(geometry.slots() - 1).unwrap_or(u32::MAX);
        let uuid = replayed.superblock.uuid;
        // The uuid is random: nobody outside can choose blocks that collide.
        let seed = u64::try_from(uuid & u128::from(u64::MAX)).expect("the low half fits");
        // Headers and footers take slots that no block ever has.
        let blocks = geometry.segment_count() * geometry.segment_blocks_max();
        let index = Index::for_blocks(blocks, slots, seed);
        let found = replayed.segments.iter().map(|entry| {
            let used = match entry.state {
                SegmentState::Free => None,
                SegmentState::Used(kind) => Some((entry.disk, kind)),
            };
            (used, entry.generation)
        });
        let log = SegmentLog::recovered(geometry, index, config.reclaim.build(), found);
        let total = log.table().closed_count() as u64;
        let trusted = Trusted::recovered(geometry, &replayed.segments);
        let dirty = dirty_disks(&geometry, &replayed.segments, logs, &trusted, now);
        let numbered = (0..).map(SegmentIndex::new).zip(&replayed.segments);
        let dirty_kind = SegmentState::Used(SegmentKind::Dirty);
        let cuts = numbered
            .filter(|(_, entry)| entry.state == dirty_kind)
            .filter_map(|(index, entry)| Some((index, entry.cut?)))
            .collect();
        let mut segments = Self {
            dirty,
            cuts,
            superblock: replayed.superblock,
            geometry,
            disks: replayed.disks,
            log,
            trusted,
            checksums: vec![
                0;
                usize::try_from(geometry.slots()).expect("slots are 32-bit numbers")
            ],
            journal_next: replayed.journal_next,
            cold: replayed.cold,
            lost: 0,
            done: 0,
            total,
            contradicted: Vec::new(),
            descriptors: Vec::new(),
            found: Vec::new(),
        };
        for chunk in logs.iter().flat_map(|log| &log.chunks) {
            segments.enter_log_chunk(&chunk.header);
        }
        segments
    }

    /// Enters what of a dirty log's chunk is clean, and keeps the checksums of the rest.
    fn enter_log_chunk(&mut self, header: &DirtyChunkHeader) {
        let segment = self.log.table().get(header.segment);
        if !segment.is_dirty || segment.generation != header.generation {
            return;
        }
        let descriptors = blocks_of(header);
        for at in &descriptors {
            let slot = self.geometry.slot(header.segment, at.page);
            self.checksums[slot.index()] = at.checksum;
        }
        self.enter(header.segment, &descriptors);
    }

    pub(super) fn progress(&self) -> (u64, u64) {
        (self.done, self.total)
    }

    /// The footers to be read: segment, offset, pages.
    pub(super) fn footers(&self) -> Vec<(u32, Offset, usize)> {
        let pages = self.geometry.footer_pages();
        let first = self.geometry.segment_pages() - pages;
        let footer = |segment| {
            (
                SegmentIndex::get(segment),
                self.page_offset(segment, first),
                pages as usize,
            )
        };
        self.log.table().closed().map(footer).collect()
    }

    fn page_offset(&self, segment: SegmentIndex, page: u32) -> Offset {
        self.geometry.segment_offset(segment) + Bytes::new(u64::from(page) * PAGE_BYTES as u64)
    }

    /// A footer has come. Without a whole one the segment was open at the end, or its footer is
    /// lost: returns where the walk from chunk to chunk begins.
    pub(super) fn footer_read(
        &mut self,
        segment: u32,
        bytes: Option<&[u8]>,
    ) -> Option<(u32, Offset)> {
        let segment = SegmentIndex::new(segment);
        let mut descriptors = std::mem::take(&mut self.descriptors);
        descriptors.clear();
        let whole = bytes.is_some_and(|bytes| self.decode_footer(segment, bytes, &mut descriptors));
        if whole {
            self.enter(segment, &descriptors);
            self.segment_done();
        }
        self.descriptors = descriptors;
        (!whole).then(|| (0, self.page_offset(segment, 0)))
    }

    fn decode_footer(
        &self,
        segment: SegmentIndex,
        bytes: &[u8],
        into: &mut Vec<Descriptor>,
    ) -> bool {
        let expected = self.log.table().get(segment);
        let (generation, disk) = (expected.generation, expected.disk);
        let uuid = self.superblock.uuid;
        read_footer(bytes, &self.geometry, uuid, segment, generation, disk, into).is_ok()
    }

    /// A page that may be a chunk header has come. Returns where the next one would be.
    pub(super) fn chunk_header_read(
        &mut self,
        segment: u32,
        page: u32,
        bytes: Option<&[u8]>,
    ) -> Option<(u32, Offset)> {
        let segment = SegmentIndex::new(segment);
        let page_bytes = bytes.and_then(|bytes| bytes.first_chunk::<PAGE_BYTES>());
        let of = self.log.table().get(segment);
        let walked = Walked {
            uuid: self.superblock.uuid,
            segment,
            generation: of.generation,
            disk: of.disk,
        };
        let blocks = page_bytes.and_then(|bytes| walked.blocks(&self.geometry, page, bytes));
        let Some(blocks) = blocks else {
            self.segment_done();
            return None;
        };
        self.enter(segment, &blocks);
        let Some(next) = next_header(&self.geometry, page, blocks.len()) else {
            self.segment_done();
            return None;
        };
        Some((next, self.page_offset(segment, next)))
    }

    fn segment_done(&mut self) {
        self.done += 1;
    }

    /// Enters the trusted ones of a segment's blocks into the index.
    fn enter(&mut self, segment: SegmentIndex, descriptors: &[Descriptor]) {
        let disk = self.log.table().get(segment).disk;
        let dirty = self.dirty.get(disk).map(DirtyDisk::log);
        let pages = self.geometry.segment_pages() as usize;
        let checksums = &mut self.checksums[segment.index() * pages..][..pages];
        self.found.clear();
        for descriptor in descriptors {
            let slot = self.geometry.slot(segment, descriptor.page);
            if self.trusted.contains(slot) {
                // Whatever the origin or another copy has: the log is newer.
                let is_clean = dirty.is_none_or(|log| log.find(descriptor.block) == Found::Clean);
                if !is_clean && holds(Guard::DirtyBeatsClean) {
                    self.trusted.clear(slot, 1);
                    continue;
                }
                checksums[descriptor.page as usize] = descriptor.checksum;
                self.found.push(Located {
                    disk,
                    block: descriptor.block,
                    slot,
                });
            }
        }
        let found = &self.found;
        let (trusted, contradicted) = (&mut self.trusted, &mut self.contradicted);
        self.log.enter_batch(found, |i, entered| match entered {
            Entered::New => {}
            // The index now has the new one in the old one's stead.
            Entered::Instead(old) => {
                trusted.clear(old, 1);
                contradicted.push(found[i]);
            }
            Entered::Full => trusted.clear(found[i].slot, 1),
        });
    }

    /// The store of what was found, about to write its first checkpoint.
    pub(super) fn into_store(mut self, config: Config, written: FlashWritten) -> Recovered {
        self.drop_contradicted();
        self.drop_undescribed();
        self.free_empty();
        let blocks = self.log.index().len() as u64;
        let checkpoint_number = self.superblock.checkpoint + 1;
        // Generations of a life that left no trace in the journal are never used again.
        // An earlier life had opened the cache with an earlier checkpoint, and opened less than
        // 2^32 segments.
        if holds(Guard::Generation) {
            self.log
                .table_mut()
                .start_generations(checkpoint_number << 32);
        }
        let mut checkpoint = Checkpoint::new(
            self.superblock.checkpoint,
            self.superblock.checkpoint_area,
            self.superblock.sequence,
        );
        let first = checkpoint.want();
        let found = store::Found {
            identity: Identity {
                uuid: self.superblock.uuid,
                incarnation: self.superblock.incarnation,
                geometry: self.geometry,
            },
            segments: self.log,
            payload: Pages::new(self.checksums),
            trust: Trust::new(self.trusted, self.cuts),
            disks: self.disks.into(),
            logs: self.dirty,
            checkpoint,
            journal_next: self.journal_next,
        };
        let store = Store::new(found, config);
        let clean = self.superblock.clean_end.is_some() && self.cold.is_none();
        Recovered {
            store: Box::new(store),
            checkpoint: first,
            blocks,
            blocks_lost: self.lost,
            cold: self.cold,
            clean,
            written,
        }
    }

    fn drop_contradicted(&mut self) {
        for located in std::mem::take(&mut self.contradicted) {
            if let Some(slot) = self.log.forget(located.disk, located.block) {
                self.trusted.clear(slot, 1);
                self.lost += 2;
            }
        }
    }

    /// Slots that are trusted but of which no descriptor was found hold nothing that counts.
    fn drop_undescribed(&mut self) {
        let mut undescribed = Set::default();
        let full = |phase| matches!(phase, Phase::Closed | Phase::Dirty);
        let segments = self.log.table().iter();
        let segments = segments.filter(|(_, segment)| full(segment.phase));
        let segments: Vec<SegmentIndex> = segments.map(|(index, _)| index).collect();
        for segment in segments {
            let trusted = self.trusted.count(segment);
            let described = self.log.table().get(segment).live;
            if trusted != described {
                self.lost += u64::from(trusted - described);
                self.trusted.clear_segment(segment);
                undescribed.insert(segment);
            }
        }
        if undescribed.is_empty() {
            return;
        }
        for entry in self.log.index().iter() {
            if undescribed.contains(&self.geometry.segment_of(entry.slot)) {
                self.trusted.set(entry.slot, 1);
            }
        }
    }

    /// Segments in which nothing counts are free.
    fn free_empty(&mut self) {
        let empty = |segment: &SegmentIndex| self.log.table().get(*segment).live == 0;
        let segments: Vec<SegmentIndex> = self.log.table().closed().filter(empty).collect();
        for segment in segments {
            self.trusted.clear_segment(segment);
            self.log.table_mut().release(segment);
        }
    }
}
