//! Recovery of dirty logs from flashes made by hand.
//!
//! Segments have 16 pages: chunks in the first 15, a footer in the last. Disk 0 is called 1, and
//! so on. What a block holds tells which write of it is meant.

use super::*;
use crate::dirty::log::{Found, What};
use crate::write_back::LockReason;
use crate::{FormatOptions, format};
use block_io::{FlashDone, FlashVerb};
use flash_format::{
    CheckpointPage, Descriptor, DirtyChunkHeader, DirtyRecord, DiskEntry, Erasure, ErasureKind,
    FooterPage, Geometry, JournalEntry, JournalPage, Position, SegmentKind, checksum,
};
use segment_log::Phase;
use units::{BlockIndex, DiskId, DiskSlot, FlashSlot};

const CAPACITY: Bytes = Bytes::mib(2);
const UUID: u128 = 7;
const CLEAN: SegmentKind = SegmentKind::Clean;
const DIRTY: SegmentKind = SegmentKind::Dirty;

fn at(generation: u64, page: u32) -> Position {
    Position::of_page(generation, page)
}

fn disk(number: u16) -> DiskSlot {
    DiskSlot::new(number)
}

fn content(block: u64, version: u8) -> [u8; PAGE_BYTES] {
    let mut bytes = [version; PAGE_BYTES];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes
}

/// What a guest does, as a chunk has it.
#[derive(Clone, Copy)]
enum Does {
    /// Writes a block for so many-th time.
    Writes(u64, u8),
    Erases(u64, u32),
}
use Does::{Erases, Writes};

/// A flash made by hand.
struct Hand {
    device: Vec<u8>,
    geometry: Geometry,
    disks: Vec<Option<DiskEntry>>,
    journal: Vec<JournalEntry>,
    /// Pages of the device that cannot be read.
    unreadable: Vec<u64>,
    /// Pages that read as something else so many times.
    garbled: Vec<(u64, u32)>,
    required: Option<u64>,
    left: Vec<LeftChunk>,
    void: Vec<DiskId>,
}

impl Hand {
    /// A cache that knows so many disks.
    fn of_disks(count: u16) -> Self {
        let options = FormatOptions {
            segment_bytes: Bytes::kib(64),
            ..FormatOptions::new(CAPACITY, UUID)
        };
        let mut hand = Self {
            device: vec![0; CAPACITY.to_usize()],
            geometry: Geometry::new(CAPACITY, Bytes::kib(64)).unwrap(),
            disks: vec![None; CheckpointPage::disks_of(0).unwrap().len()],
            journal: Vec::new(),
            unreadable: Vec::new(),
            garbled: Vec::new(),
            required: None,
            left: Vec::new(),
            void: Vec::new(),
        };
        for (offset, bytes) in format(&options).unwrap() {
            hand.write(offset, &bytes);
        }
        for number in 0..count {
            hand.disks[usize::from(number)] = Some(DiskEntry {
                id: DiskId::from_u128(u128::from(number) + 1),
                name: format!("vm{number}"),
                size: Bytes::mib(4),
                fingerprint: None,
                epoch: 1,
                destaged: Position::START,
                in_doubt: false,
                key: None,
            });
        }
        hand
    }

    fn write(&mut self, offset: Bytes, bytes: &[u8]) {
        self.device[offset.to_usize()..][..bytes.len()].copy_from_slice(bytes);
    }

    fn page(&mut self, segment: u32, page: u32) -> &mut [u8] {
        let offset = self.offset(segment, page).to_usize();
        &mut self.device[offset..offset + PAGE_BYTES]
    }

    fn offset(&self, segment: u32, page: u32) -> Bytes {
        let segment = self.geometry.segment_offset(SegmentIndex::new(segment));
        segment + Bytes::new(u64::from(page) * PAGE_BYTES as u64)
    }

    fn slot(&self, segment: u32, page: u32) -> FlashSlot {
        self.geometry.slot(SegmentIndex::new(segment), page)
    }

    fn opened(&mut self, segment: u32, number: u16, generation: u64, kind: SegmentKind) {
        self.journal.push(JournalEntry::Open {
            segment: SegmentIndex::new(segment),
            disk: disk(number),
            generation,
            kind,
        });
    }

    fn trusted(&mut self, segment: u32, page: u32) {
        let first = self.slot(segment, page);
        self.journal.push(JournalEntry::Trust { first, count: 1 });
    }

    fn destaged(&mut self, number: u16, to: Position) {
        let disk = disk(number);
        self.journal.push(JournalEntry::Destaged { disk, to });
    }

    /// A clean segment with these blocks, all of them trusted.
    fn clean_segment(&mut self, segment: u32, number: u16, generation: u64, blocks: &[(u64, u8)]) {
        self.opened(segment, number, generation, CLEAN);
        let mut descriptors = Vec::new();
        for (page, (block, version)) in (1..).zip(blocks) {
            let bytes = content(*block, *version);
            self.page(segment, page).copy_from_slice(&bytes);
            descriptors.push(Descriptor {
                block: BlockIndex::new(*block),
                checksum: checksum(&bytes),
                page,
            });
            self.trusted(segment, page);
        }
        let footer = FooterPage {
            segment: SegmentIndex::new(segment),
            generation,
            disk: disk(number),
            part: 0,
            total: u32::try_from(blocks.len()).unwrap(),
            blocks: descriptors,
        };
        self.page(segment, 15).copy_from_slice(&footer.encode(UUID));
    }

    /// A chunk of a dirty log, whole, on flash. Returns its last record's place.
    fn chunk(&mut self, header: &DirtyChunkHeader, does: &[Does]) -> Position {
        let (segment, page) = (header.segment.get(), header.page);
        self.page(segment, page)
            .copy_from_slice(&header.encode(UUID));
        for (page, bytes) in (page + 1..).zip(blocks_of(does)) {
            self.page(segment, page).copy_from_slice(&bytes);
        }
        header.last()
    }

    /// [`Hand::chunk`] of disk 0 whose header says how far the log was durable.
    fn log_chunk(
        &mut self,
        place: (u32, u64, u32),
        follows: Position,
        durable: Position,
        does: &[Does],
    ) -> Position {
        let mut header = chunk_header(place, 0, follows, does);
        header.durable = durable;
        self.chunk(&header, does)
    }

    fn put_tables(&mut self) {
        let page = CheckpointPage::Disks(self.disks.clone());
        let bytes = page.encode(&self.geometry, UUID, 1, 0);
        self.write(self.geometry.checkpoint_page_offset(0, 0), &bytes);
        let journal = JournalPage {
            sequence: 1,
            batch: 1,
            entries: std::mem::take(&mut self.journal),
        };
        let bytes = journal.encode(UUID);
        self.write(self.geometry.journal_page_offset(1), &bytes);
        let superblock = Superblock {
            uuid: UUID,
            sequence: 2,
            geometry: self.geometry,
            incarnation: 1,
            checkpoint: 1,
            checkpoint_area: 0,
            replay_from: 1,
            clean_end: None,
        };
        self.write(superblock.offset(), &superblock.encode());
    }

    /// Opens the cache that was made by hand.
    fn open(&mut self) -> Cache {
        self.put_tables();
        self.open_again()
    }

    /// Opens the cache as the last life has left it.
    fn open_again(&mut self) -> Cache {
        let (pool, now) = (BufPool::new(), Instant::ZERO);
        let mut recovery = Recovery::new(Config::default(), CAPACITY, self.required, pool, now);
        recovery.set_left(std::mem::take(&mut self.left));
        recovery.set_void(std::mem::take(&mut self.void));
        let recovered = loop {
            if let Some(result) = recovery.finished() {
                break result.unwrap();
            }
            let mut effects = Vec::new();
            recovery.take_effects(&mut effects);
            assert!(!effects.is_empty(), "recovery goes on");
            for effect in effects {
                let Effect::Flash(op) = effect else {
                    panic!("recovery needs nothing but the flash")
                };
                let done = self.carry_out(op);
                recovery.flash_done(done, now);
            }
        };
        recovered.cache.self_check();
        recovered.cache
    }

    /// Looks at the flash that was made by hand.
    fn inspect(&mut self) -> DirtyReport {
        self.put_tables();
        let mut inspection = Inspection::new(CAPACITY, BufPool::new(), Instant::ZERO);
        inspection.set_left(self.left.clone());
        let before = self.device.clone();
        loop {
            if let Some(result) = inspection.finished() {
                assert!(self.device == before, "nothing is written");
                return result.unwrap();
            }
            let mut effects = Vec::new();
            inspection.take_effects(&mut effects);
            assert!(!effects.is_empty(), "it goes on");
            for effect in effects {
                let Effect::Flash(op) = effect else {
                    panic!("it needs nothing but the flash")
                };
                let done = self.carry_out(op);
                inspection.flash_done(done, Instant::ZERO);
            }
        }
    }

    fn carry_out(&mut self, op: FlashOp) -> FlashDone {
        let mut done = FlashDone {
            token: op.token,
            buf: None,
            result: Ok(()),
        };
        match op.verb {
            FlashVerb::Read {
                offset,
                length,
                mut buf,
            } => {
                let range = offset.get()..offset.get() + length.get();
                let bad = |page: &u64| range.contains(&(page * PAGE_BYTES as u64));
                if self.unreadable.iter().any(bad) {
                    done.result = Err(IoError::Failed);
                }
                let bytes = &self.device[offset.to_usize()..][..length.to_usize()];
                buf[..bytes.len()].copy_from_slice(bytes);
                for (page, times) in &mut self.garbled {
                    let at = *page * PAGE_BYTES as u64;
                    if range.contains(&at) && *times > 0 {
                        *times -= 1;
                        buf[Bytes::new(at - range.start).to_usize()] ^= 1;
                    }
                }
                done.buf = Some(buf);
            }
            FlashVerb::Write { offset, data, .. } => self.write(offset, &data),
            FlashVerb::Flush => {}
        }
        done
    }
}

/// The header of a chunk of a disk, at a page of a segment of a generation.
fn chunk_header(
    (segment, generation, page): (u32, u64, u32),
    number: u16,
    follows: Position,
    does: &[Does],
) -> DirtyChunkHeader {
    let mut next = page;
    let mut record = |does: &Does| match does {
        Writes(block, version) => {
            next += 1;
            DirtyRecord::Data(Descriptor {
                block: BlockIndex::new(*block),
                checksum: checksum(&content(*block, *version)),
                page: next,
            })
        }
        Erases(first, blocks) => DirtyRecord::Erasure(Erasure {
            first: BlockIndex::new(*first),
            blocks: *blocks,
            kind: ErasureKind::Discard,
        }),
    };
    DirtyChunkHeader {
        segment: SegmentIndex::new(segment),
        generation,
        disk: disk(number),
        page,
        id: DiskId::from_u128(u128::from(number) + 1),
        size: Bytes::mib(4),
        epoch: 1,
        begins_interval: true,
        follows,
        durable: Position::START,
        records: does.iter().map(&mut record).collect(),
    }
}

fn blocks_of(does: &[Does]) -> Vec<[u8; PAGE_BYTES]> {
    let bytes = |does: &Does| match does {
        Writes(block, version) => Some(content(*block, *version)),
        Erases(..) => None,
    };
    does.iter().filter_map(bytes).collect()
}

/// What lasting memory has of a chunk.
fn left(header: &DirtyChunkHeader, does: &[Does]) -> LeftChunk {
    LeftChunk {
        head: header.lasting_head(),
        records: header.records.iter().map(DirtyRecord::to_bytes).collect(),
        pages: blocks_of(does).concat(),
    }
}

/// Blocks of a disk's log in the order in which they were written; erasures as their first block
/// and a count.
fn records(cache: &Cache, number: u16) -> Vec<(u64, u32)> {
    let flash = cache.flash.as_ref().unwrap();
    let Some(dirty) = flash.dirty.get(disk(number)) else {
        return Vec::new();
    };
    let records = dirty.log.records(dirty.log.base(), dirty.log.end());
    let told = records.map(|(_, record)| match record.what {
        What::Data { block, .. } => (block.get(), 0),
        What::Erasure(erasure) => (erasure.first.get(), erasure.blocks),
    });
    told.collect()
}

fn locked(cache: &Cache, number: u16) -> Option<LockReason> {
    let flash = cache.flash.as_ref().unwrap();
    flash.dirty.get(disk(number))?.locked
}

fn found(cache: &Cache, number: u16, block: u64) -> Found {
    let flash = cache.flash.as_ref().unwrap();
    flash.dirty.find(disk(number), BlockIndex::new(block))
}

/// Where a block's clean copy is.
fn clean(cache: &Cache, number: u16, block: u64) -> Option<FlashSlot> {
    let flash = cache.flash.as_ref().unwrap();
    flash.log.index().get(disk(number), BlockIndex::new(block))
}

fn phase(cache: &Cache, segment: u32) -> Phase {
    let flash = cache.flash.as_ref().unwrap();
    flash.log.segment(SegmentIndex::new(segment)).phase
}

fn watermark(cache: &Cache, number: u16) -> Position {
    let flash = cache.flash.as_ref().unwrap();
    flash.dirty.get(disk(number)).unwrap().log.watermark()
}

/// Disk 0 with a log in segments 2 (generation 10) and 5 (generation 11):
/// block 1, block 2 | block 1 again | block 3.
fn two_segments() -> Hand {
    let mut hand = Hand::of_disks(1);
    hand.opened(2, 0, 10, DIRTY);
    hand.opened(5, 0, 11, DIRTY);
    let does = [Writes(1, 1), Writes(2, 1)];
    let last = hand.log_chunk((2, 10, 0), Position::START, Position::START, &does);
    let last = hand.log_chunk((2, 10, 3), last, last, &[Writes(1, 2)]);
    hand.log_chunk((5, 11, 0), last, last, &[Writes(3, 1)]);
    hand
}

#[test]
fn a_log_comes_back_in_its_order_and_nowhere_else() {
    let mut hand = two_segments();
    let slot = hand.slot(2, 4);
    let mut cache = hand.open();
    for _ in 0..2 {
        assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
        assert_eq!(locked(&cache, 0), None);
        assert_eq!(found(&cache, 0, 1), Found::Dirty(slot));
        assert_eq!(clean(&cache, 0, 1), None);
        assert_eq!(
            (phase(&cache, 2), phase(&cache, 5)),
            (Phase::Dirty, Phase::Dirty)
        );
        let flash = cache.flash.as_ref().unwrap();
        assert_eq!(flash.checksums[slot.index()], checksum(&content(1, 2)));
        assert_eq!(flash.dirty.get(disk(0)).unwrap().log.intervals(), 3);
        // The next recovery finds the same.
        cache = hand.open_again();
    }
}

#[test]
fn a_torn_tail_is_cut_and_stays_cut() {
    let mut hand = two_segments();
    // The last block of segment 2 is torn, and what is behind it goes with it.
    let last = at(10, 2);
    let mut header = chunk_header((2, 10, 3), 0, last, &[Writes(1, 2)]);
    header.durable = last;
    hand.chunk(&header, &[Writes(1, 3)]);
    let mut header = chunk_header((5, 11, 0), 0, at(10, 4), &[Writes(3, 1)]);
    header.durable = last;
    hand.chunk(&header, &[Writes(3, 1)]);
    let cache = hand.open();
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0)]);
    assert_eq!(locked(&cache, 0), None);
    assert_eq!(phase(&cache, 5), Phase::Free);
    // Behind the cut may be anything: a chunk that would be damage is not looked at.
    let durable = hand.log_chunk((2, 10, 3), last, last, &[Writes(1, 2)]);
    hand.log_chunk((2, 10, 6), at(10, 5), durable, &[Writes(4, 1)]);
    let cache = hand.open_again();
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0)]);
    assert_eq!(locked(&cache, 0), None);
    // The log goes on in a new segment behind the cut.
    let generation = 3 << 32;
    let mut hand = two_segments();
    hand.page(2, 4).fill(0);
    let header = chunk_header((5, 11, 0), 0, at(10, 4), &[Writes(3, 1)]);
    hand.chunk(&header, &[Writes(3, 1)]);
    let header = chunk_header((2, 10, 3), 0, last, &[Writes(1, 2)]);
    hand.page(2, 3).copy_from_slice(&header.encode(UUID));
    let cache = hand.open();
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0)]);
    let segment = cache.flash.as_ref().unwrap().journal.next_sequence();
    let journal = JournalPage {
        sequence: segment,
        batch: segment,
        entries: vec![JournalEntry::Open {
            segment: SegmentIndex::new(7),
            disk: disk(0),
            generation,
            kind: DIRTY,
        }],
    };
    let offset = hand.geometry.journal_page_offset(segment);
    hand.write(offset, &journal.encode(UUID));
    hand.log_chunk((7, generation, 0), last, last, &[Writes(9, 1)]);
    let cache = hand.open_again();
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (9, 0)]);
    assert_eq!(locked(&cache, 0), None);
}

#[test]
fn rot_below_what_was_durable_locks_the_disk_and_frees_nothing() {
    let mut hand = two_segments();
    hand.page(2, 3)[100] ^= 1;
    let mut cache = hand.open();
    for _ in 0..2 {
        assert_eq!(locked(&cache, 0), Some(LockReason::Damaged));
        // What can be read is kept for the operator.
        assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(
            (phase(&cache, 2), phase(&cache, 5)),
            (Phase::Dirty, Phase::Dirty)
        );
        cache = hand.open_again();
    }
}

#[test]
fn rot_is_told_from_a_torn_tail_by_a_header_behind_it() {
    // In the last segment: a walk alone would end at the rot.
    let mut hand = Hand::of_disks(1);
    hand.opened(2, 0, 10, DIRTY);
    let last = hand.log_chunk(
        (2, 10, 0),
        Position::START,
        Position::START,
        &[Writes(1, 1)],
    );
    let last = hand.log_chunk((2, 10, 2), last, last, &[Writes(2, 1)]);
    hand.log_chunk((2, 10, 4), last, last, &[Writes(3, 1)]);
    hand.page(2, 2).fill(0xff);
    let cache = hand.open();
    assert_eq!(locked(&cache, 0), Some(LockReason::Damaged));
}

#[test]
fn a_place_that_cannot_be_read_is_no_torn_tail() {
    for page in [3, 4, 9] {
        let mut hand = two_segments();
        let header = chunk_header((5, 11, 0), 0, at(10, 4), &[Writes(3, 1)]);
        hand.chunk(&header, &[Writes(3, 1)]);
        let last = at(10, 2);
        let header = chunk_header((2, 10, 3), 0, last, &[Writes(1, 2)]);
        hand.chunk(&header, &[Writes(1, 2)]);
        let segment = if page == 9 { 5 } else { 2 };
        hand.unreadable = vec![hand.offset(segment, page).get() / PAGE_BYTES as u64];
        let cache = hand.open();
        assert_eq!(locked(&cache, 0), Some(LockReason::Damaged), "page {page}");
    }
}

#[test]
fn a_trusted_slot_above_the_watermark_is_clean() {
    let mut hand = two_segments();
    hand.trusted(2, 2);
    let cache = hand.open();
    assert_eq!(found(&cache, 0, 2), Found::Clean);
    assert_eq!(clean(&cache, 0, 2), Some(hand.slot(2, 2)));
    // A trusted one that was written again is not.
    let mut hand = two_segments();
    hand.trusted(2, 1);
    let cache = hand.open();
    assert_eq!(found(&cache, 0, 1), Found::Dirty(hand.slot(2, 4)));
    assert_eq!(clean(&cache, 0, 1), None);
    assert!(
        !cache
            .flash
            .as_ref()
            .unwrap()
            .trusted
            .contains(hand.slot(2, 1))
    );
}

#[test]
fn an_older_clean_copy_does_not_come_back() {
    let mut hand = two_segments();
    hand.clean_segment(6, 0, 9, &[(1, 0), (40, 0)]);
    let slot = hand.slot(6, 1);
    let cache = hand.open();
    assert_eq!(clean(&cache, 0, 1), None);
    assert_eq!(clean(&cache, 0, 40), Some(hand.slot(6, 2)));
    let flash = cache.flash.as_ref().unwrap();
    assert!(
        !flash.trusted.contains(slot),
        "a later life must not bring it"
    );
}

#[test]
fn what_is_written_after_an_erasure_counts_and_the_rest_reads_as_zeroes() {
    let mut hand = Hand::of_disks(1);
    hand.clean_segment(6, 0, 9, &[(12, 0)]);
    hand.opened(2, 0, 10, DIRTY);
    let does = [Writes(11, 1), Erases(10, 5), Writes(13, 1)];
    hand.log_chunk((2, 10, 0), Position::START, Position::START, &does);
    let cache = hand.open();
    assert_eq!(records(&cache, 0), [(11, 0), (10, 5), (13, 0)]);
    let until = |block| Found::Erased(BlockIndex::new(block));
    assert_eq!(found(&cache, 0, 11), until(13));
    assert_eq!(found(&cache, 0, 13), Found::Dirty(hand.slot(2, 2)));
    assert_eq!(found(&cache, 0, 14), until(15));
    assert_eq!(clean(&cache, 0, 12), None);
}

#[test]
fn what_is_below_the_watermark_is_clean_if_it_is_trusted() {
    let mut hand = two_segments();
    hand.destaged(0, at(10, 2));
    hand.trusted(2, 2);
    let cache = hand.open();
    assert_eq!(records(&cache, 0), [(1, 0), (3, 0)]);
    assert_eq!(watermark(&cache, 0), at(10, 2));
    assert_eq!(clean(&cache, 0, 2), Some(hand.slot(2, 2)));
    assert_eq!(phase(&cache, 2), Phase::Dirty);
}

#[test]
fn a_segment_below_the_watermark_is_an_ordinary_one() {
    let mut hand = two_segments();
    hand.destaged(0, at(10, 4));
    hand.trusted(2, 4);
    let cache = hand.open();
    assert_eq!(records(&cache, 0), [(3, 0)]);
    // It had no footer yet, so its chunks are walked.
    assert_eq!(clean(&cache, 0, 1), Some(hand.slot(2, 4)));
    assert_eq!(phase(&cache, 2), Phase::Closed);
    // The origin has everything, and what is not trusted does not count.
    let mut hand = two_segments();
    hand.destaged(0, at(11, 1));
    hand.trusted(5, 1);
    let cache = hand.open();
    assert!(cache.flash.as_ref().unwrap().dirty.get(disk(0)).is_none());
    assert_eq!(clean(&cache, 0, 3), Some(hand.slot(5, 1)));
    assert_eq!(
        (phase(&cache, 2), phase(&cache, 5)),
        (Phase::Free, Phase::Closed)
    );
}

#[test]
fn damage_below_the_watermark_is_none() {
    let mut hand = two_segments();
    hand.destaged(0, at(10, 2));
    hand.page(2, 0).fill(0xff);
    let cache = hand.open();
    assert_eq!(records(&cache, 0), [(1, 0), (3, 0)]);
    assert_eq!(locked(&cache, 0), None);
}

#[test]
fn chunks_of_an_earlier_use_of_a_segment_are_not_the_logs() {
    let mut hand = two_segments();
    // Segment 5 was segment of generation 8 before: behind the new chunk lies an old one.
    let old = chunk_header((5, 8, 2), 0, at(8, 1), &[Writes(77, 1)]);
    hand.chunk(&old, &[Writes(77, 1)]);
    let cache = hand.open();
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
    assert_eq!(locked(&cache, 0), None);
}

#[test]
fn the_damage_of_one_disk_is_not_anothers() {
    let mut hand = two_segments();
    hand.disks[1] = hand.disks[0].clone().map(|entry| DiskEntry {
        id: DiskId::from_u128(2),
        ..entry
    });
    hand.opened(8, 1, 12, DIRTY);
    let does = [Writes(1, 9)];
    let header = chunk_header((8, 12, 0), 1, Position::START, &does);
    hand.chunk(&header, &does);
    hand.page(2, 3).fill(0xff);
    let cache = hand.open();
    assert_eq!(locked(&cache, 0), Some(LockReason::Damaged));
    assert_eq!(
        (locked(&cache, 1), records(&cache, 1)),
        (None, vec![(1, 0)])
    );
}

#[test]
fn a_lost_page_of_the_segment_table_locks_what_is_found_without_it() {
    let mut hand = two_segments();
    hand.journal.clear();
    hand.put_tables();
    let first = (0..).find(|page| !CheckpointPage::segments_of(&hand.geometry, *page).is_empty());
    let offset = hand.geometry.checkpoint_page_offset(0, first.unwrap());
    hand.write(offset, &[0; PAGE_BYTES]);
    let mut cache = hand.open_again();
    for _ in 0..2 {
        assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
        assert_eq!(locked(&cache, 0), Some(LockReason::Unbelievable));
        assert_eq!(
            (phase(&cache, 2), phase(&cache, 5)),
            (Phase::Dirty, Phase::Dirty)
        );
        // The next recovery finds whole tables, and that they are not to be believed.
        cache = hand.open_again();
    }
}

#[test]
fn a_lost_page_of_the_disk_table_is_made_up_from_the_log() {
    let mut hand = two_segments();
    hand.put_tables();
    let offset = hand.geometry.checkpoint_page_offset(0, 0);
    hand.write(offset, &[0; PAGE_BYTES]);
    let cache = hand.open_again();
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
    assert_eq!(locked(&cache, 0), Some(LockReason::Unbelievable));
    let entry = cache.flash.as_ref().unwrap().disks.get(disk(0)).unwrap();
    assert_eq!(
        (entry.id, entry.size),
        (DiskId::from_u128(1), Bytes::mib(4))
    );
}

#[test]
fn a_gap_in_the_journal_makes_clean_blocks_void_and_locks_dirty_ones() {
    let mut hand = two_segments();
    hand.clean_segment(6, 0, 9, &[(40, 0)]);
    hand.put_tables();
    let beyond = JournalPage {
        sequence: 3,
        batch: 3,
        entries: vec![],
    };
    let offset = hand.geometry.journal_page_offset(3);
    hand.write(offset, &beyond.encode(UUID));
    let cache = hand.open_again();
    assert_eq!(clean(&cache, 0, 40), None);
    assert_eq!(locked(&cache, 0), Some(LockReason::Unbelievable));
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
}

#[test]
fn a_retired_incarnation_keeps_its_dirty_log() {
    let mut hand = two_segments();
    hand.clean_segment(6, 0, 9, &[(40, 0)]);
    hand.required = Some(5);
    let cache = hand.open();
    assert_eq!(clean(&cache, 0, 40), None);
    assert_eq!(locked(&cache, 0), None);
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
}

#[test]
fn what_a_killed_process_had_in_memory_is_found_and_written() {
    let mut hand = two_segments();
    // One chunk behind the last, and one in a segment of which the journal does not know yet.
    let (first, second) = ([Writes(4, 1), Erases(0, 1)], [Writes(5, 1)]);
    let header = chunk_header((5, 11, 2), 0, at(11, 1), &first);
    let last = header.last();
    hand.left.push(left(&header, &first));
    let header = chunk_header((9, 12, 0), 0, last, &second);
    hand.left.push(left(&header, &second));
    let mut cache = hand.open();
    for _ in 0..2 {
        let all = [(1, 0), (2, 0), (1, 0), (3, 0), (4, 0), (0, 1), (5, 0)];
        assert_eq!(records(&cache, 0), all);
        assert_eq!(locked(&cache, 0), None);
        assert_eq!(hand.page(9, 1), content(5, 1));
        // The next recovery finds them on flash.
        cache = hand.open_again();
    }
}

#[test]
fn what_was_in_memory_goes_before_what_is_torn_on_flash() {
    let mut hand = two_segments();
    let does = [Writes(3, 1)];
    let header = chunk_header((5, 11, 0), 0, at(10, 4), &does);
    hand.left.push(left(&header, &does));
    hand.page(5, 1).fill(0);
    let cache = hand.open();
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
    assert_eq!(hand.page(5, 1), content(3, 1));
}

#[test]
fn what_memory_has_of_a_segment_that_was_freed_since_does_not_count() {
    let mut hand = two_segments();
    let does = [Writes(4, 1)];
    let header = chunk_header((9, 8, 0), 0, Position::START, &does);
    hand.left.push(left(&header, &does));
    hand.opened(9, 0, 9, CLEAN);
    hand.journal.push(JournalEntry::Free {
        segment: SegmentIndex::new(9),
        generation: 9,
    });
    let cache = hand.open();
    assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
}

#[test]
fn the_operator_sees_what_is_dirty_and_where_it_lies() {
    let mut hand = two_segments();
    let does = [Erases(7, 2), Writes(4, 1)];
    let header = chunk_header((5, 11, 2), 0, at(11, 1), &does);
    hand.left.push(left(&header, &does));
    hand.destaged(0, at(10, 1));
    hand.trusted(5, 1);
    let report = hand.inspect();
    assert_eq!((report.uuid, report.in_doubt), (UUID, false));
    let [log] = &report.logs[..] else {
        panic!("one disk is dirty")
    };
    assert_eq!((log.id, &*log.name), (DiskId::from_u128(1), "vm0"));
    assert_eq!((log.epoch, log.watermark), (1, at(10, 1)));
    assert_eq!(log.locked, None);
    let told: Vec<(u64, u64, bool)> = log
        .records
        .iter()
        .map(|record| match &record.what {
            FoundWhat::Block {
                block, is_settled, ..
            } => (record.interval, block.get(), *is_settled),
            FoundWhat::Erasure(erasure) => (record.interval, erasure.first.get(), false),
        })
        .collect();
    let expected = [
        (0, 2, false),
        (1, 1, false),
        (2, 3, true),
        (3, 7, false),
        (3, 4, false),
    ];
    assert_eq!(told, expected);
    // The bytes are where the report says.
    for (record, (block, version)) in [(1, (1, 2)), (4, (4, 1))] {
        let FoundWhat::Block {
            bytes, checksum, ..
        } = &log.records[record].what
        else {
            panic!("it is a block")
        };
        let bytes = match bytes {
            FoundBytes::Flash(offset) => hand.device[offset.to_usize()..][..PAGE_BYTES].to_vec(),
            FoundBytes::Memory(bytes) => bytes.clone(),
        };
        assert_eq!(bytes, content(block, version));
        assert_eq!(*checksum, flash_format::checksum(&bytes));
    }
}

#[test]
fn a_damaged_log_is_shown_with_what_is_left_of_it() {
    let mut hand = two_segments();
    hand.page(2, 3).fill(0xff);
    let report = hand.inspect();
    assert_eq!(report.logs[0].locked, Some(LockReason::Damaged));
    assert_eq!(report.logs[0].records.len(), 3);
}

#[test]
fn a_log_that_the_operator_gives_up_is_void_for_good() {
    let mut hand = two_segments();
    hand.clean_segment(6, 0, 9, &[(40, 0)]);
    hand.page(2, 3).fill(0xff);
    hand.void.push(DiskId::from_u128(1));
    let mut cache = hand.open();
    for _ in 0..2 {
        assert!(cache.flash.as_ref().unwrap().dirty.get(disk(0)).is_none());
        assert_eq!(clean(&cache, 0, 40), None);
        assert_eq!(
            (phase(&cache, 2), phase(&cache, 5)),
            (Phase::Free, Phase::Free)
        );
        cache = hand.open_again();
    }
}

#[test]
fn what_a_medium_returns_wrong_once_is_read_again() {
    // A header in the middle, the header and the data of the last chunk.
    for (segment, page) in [(2, 3), (5, 0), (5, 1)] {
        let mut hand = two_segments();
        let place = hand.offset(segment, page).get() / PAGE_BYTES as u64;
        hand.garbled.push((place, 2));
        let does = [Writes(3, 1)];
        let header = chunk_header((5, 11, 0), 0, at(10, 4), &does);
        hand.chunk(&header, &does);
        let cache = hand.open();
        assert_eq!(records(&cache, 0), [(1, 0), (2, 0), (1, 0), (3, 0)]);
        assert_eq!(locked(&cache, 0), None);
    }
}
