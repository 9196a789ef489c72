//! Flashes made by hand, and what a recovery makes of them.

use super::super::*;
use crate::lock::LockReason;
use crate::{Config, Effect, FormatOptions, Ports, Purpose, Store, format};
use dirty_log::{Found, What};
use flash_format::{
    CheckpointPage, Descriptor, DirtyChunkHeader, DirtyRecord, DiskEntry, Erasure, ErasureKind,
    FooterPage, Geometry, JournalEntry, JournalPage, Position, SegmentEntry, SegmentKind,
    SegmentState, checksum,
};
use medium::FlashBytes;
use segment_log::Phase;
use units::{BlockIndex, DiskId, DiskSlot, Duration, FlashSlot};

pub(super) const CAPACITY: Bytes = Bytes::mib(2);
pub(super) const UUID: u128 = 7;
pub(super) const CLEAN: SegmentKind = SegmentKind::Clean;
pub(super) const DIRTY: SegmentKind = SegmentKind::Dirty;

pub(super) fn at(generation: u64, page: u32) -> Position {
    Position::of_page(generation, page)
}

pub(super) fn disk(number: u16) -> DiskSlot {
    DiskSlot::new(number)
}

pub(super) fn content(block: u64, version: u8) -> [u8; PAGE_BYTES] {
    let mut bytes = [version; PAGE_BYTES];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes
}

/// What a guest does, as a chunk has it.
#[derive(Clone, Copy)]
pub(super) enum Does {
    /// Writes a block for so many-th time.
    Writes(u64, u8),
    Erases(u64, u32),
}
pub(super) use Does::{Erases, Writes};

/// A store that was opened, with what it asks for.
pub(super) struct Opened {
    pub(super) store: Box<Store>,
    ports: Ports<()>,
}

impl Opened {
    /// Carries out what the store asks of the flash; each operation takes its pace. False if it asks
    /// for nothing.
    fn step(&mut self, hand: &mut Hand, now: &mut Instant) -> bool {
        let mut effects = Vec::new();
        self.ports.take_effects(&mut effects);
        let goes_on = !effects.is_empty();
        for effect in effects {
            let Effect::Flash(op) = effect else {
                panic!("it needs nothing but the flash")
            };
            let done = medium::carry_out(hand, op);
            *now = *now + hand.pace;
            self.ports.set_now(*now);
            let (Purpose::Store(own), _) = self.ports.completed(done.token) else {
                panic!("nobody reads")
            };
            self.store
                .completed(&mut self.ports, own, done.result.is_ok(), done.buf);
            self.store.pump(&mut self.ports);
        }
        goes_on
    }

    /// Time has passed, and everything is done that follows.
    pub(super) fn tick(&mut self, hand: &mut Hand, mut now: Instant) {
        self.ports.set_now(now);
        self.store.tick(&mut self.ports, false);
        self.store.pump(&mut self.ports);
        while self.step(hand, &mut now) {}
    }
}

/// A flash made by hand.
pub(super) struct Hand {
    pub(super) device: Vec<u8>,
    pub(super) geometry: Geometry,
    pub(super) disks: Vec<Option<DiskEntry>>,
    pub(super) journal: Vec<JournalEntry>,
    /// Pages of the device that cannot be read.
    pub(super) unreadable: Vec<u64>,
    /// Pages that read as something else so many times.
    pub(super) garbled: Vec<(u64, u32)>,
    /// How long each operation takes.
    pub(super) pace: Duration,
    /// Where the cache has written, in order.
    pub(super) written: Vec<Offset>,
    pub(super) required: Option<u64>,
    pub(super) served: u64,
    pub(super) committed: Committed,
    pub(super) left: Vec<LeftChunk>,
    pub(super) void: Vec<DiskId>,
}

impl Hand {
    /// A cache that knows so many disks.
    pub(super) fn of_disks(count: u16) -> Self {
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
            pace: Duration::ZERO,
            written: Vec::new(),
            required: None,
            served: 0,
            committed: Committed::default(),
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
                logged: Position::START,
                in_doubt: false,
                key: None,
            });
        }
        hand
    }

    pub(super) fn write(&mut self, offset: Offset, bytes: &[u8]) {
        self.device[offset.to_usize()..][..bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn page(&mut self, segment: u32, page: u32) -> &mut [u8] {
        let offset = self.offset(segment, page).to_usize();
        &mut self.device[offset..offset + PAGE_BYTES]
    }

    pub(super) fn offset(&self, segment: u32, page: u32) -> Offset {
        let segment = self.geometry.segment_offset(SegmentIndex::new(segment));
        segment + Bytes::new(u64::from(page) * PAGE_BYTES as u64)
    }

    pub(super) fn slot(&self, segment: u32, page: u32) -> FlashSlot {
        self.geometry.slot(SegmentIndex::new(segment), page)
    }

    pub(super) fn opened(&mut self, segment: u32, number: u16, generation: u64, kind: SegmentKind) {
        self.journal.push(JournalEntry::Open {
            segment: SegmentIndex::new(segment),
            disk: disk(number),
            generation,
            kind,
        });
    }

    pub(super) fn trusted(&mut self, segment: u32, page: u32) {
        let first = self.slot(segment, page);
        self.journal.push(JournalEntry::Trust { first, count: 1 });
    }

    pub(super) fn destaged(&mut self, number: u16, to: Position) {
        let disk = disk(number);
        self.journal.push(JournalEntry::Destaged { disk, to });
    }

    pub(super) fn logged(&mut self, number: u16, to: Position) {
        let disk = disk(number);
        self.journal.push(JournalEntry::Logged { disk, to });
    }

    /// A clean segment with these blocks, all of them trusted.
    pub(super) fn clean_segment(
        &mut self,
        segment: u32,
        number: u16,
        generation: u64,
        blocks: &[(u64, u8)],
    ) {
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

    /// A chunk of a dirty log, whole, on opened.store. Returns its last record's place.
    pub(super) fn chunk(&mut self, header: &DirtyChunkHeader, does: &[Does]) -> Position {
        let (segment, page) = (header.segment.get(), header.page);
        self.page(segment, page)
            .copy_from_slice(&header.encode(UUID));
        for (page, bytes) in (page + 1..).zip(blocks_of(does)) {
            self.page(segment, page).copy_from_slice(&bytes);
        }
        header.last()
    }

    /// [`Hand::chunk`] of disk 0 whose header says how far the log was durable.
    pub(super) fn log_chunk(
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

    pub(super) fn put_tables(&mut self) {
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

    /// The table says of a segment that it is free, and where a log was cut in it when it was not.
    pub(super) fn cut_when_free(&mut self, segment: u32, cut: u32) {
        let geometry = self.geometry;
        let is_its = |page: &u64| CheckpointPage::segments_of(&geometry, *page).contains(&segment);
        let page = (0..1000).find(is_its).expect("it is in the table");
        let bitmap = geometry.segment_pages().div_ceil(8) as usize;
        let entry = |number| SegmentEntry {
            state: SegmentState::Free,
            disk: disk(0),
            generation: 0,
            cut: (number == segment).then_some(cut),
            trusted: vec![0; bitmap],
        };
        let entries = CheckpointPage::segments_of(&geometry, page).map(entry);
        let bytes = CheckpointPage::Segments(entries.collect()).encode(&geometry, UUID, 1, page);
        self.write(geometry.checkpoint_page_offset(0, page), &bytes);
    }

    /// Opens the store that was made by hand.
    pub(super) fn open(&mut self) -> Opened {
        self.put_tables();
        self.open_again()
    }

    /// Opens the store as the last life has left it.
    pub(super) fn open_again(&mut self) -> Opened {
        let (pool, mut now) = (BufPool::new(), Instant::ZERO);
        let config = Config::default();
        let mut recovery = Recovery::new(config, CAPACITY, self.required, pool.clone(), now);
        recovery.set_served(self.served);
        recovery.set_committed(self.committed);
        recovery.set_left(std::mem::take(&mut self.left));
        recovery.set_void(std::mem::take(&mut self.void));
        let mut found = loop {
            if let Some(result) = recovery.finished() {
                break result.unwrap();
            }
            let operations: Vec<FlashOp> = recovery.take_operations().collect();
            assert!(!operations.is_empty(), "recovery goes on");
            for op in operations {
                let done = medium::carry_out(self, op);
                now = now + self.pace;
                recovery.flash_done(done, now);
            }
        };
        let ports = found.ports(pool, now);
        let checkpoint = found.checkpoint;
        let mut opened = Opened {
            store: found.store,
            ports,
        };
        opened.store.pump(&mut opened.ports);
        while !opened.store.facts().has_checkpoint(checkpoint) {
            assert!(opened.step(self, &mut now), "the opening goes on");
        }
        opened.store.self_check();
        opened
    }

    /// Whether this is a place in the journal.
    pub(super) fn is_journal(&self, offset: Offset) -> bool {
        let first = self.geometry.journal_page_offset(0);
        let length = self.geometry.journal_pages() * PAGE_BYTES as u64;
        (first..first + Bytes::new(length)).contains(&offset)
    }

    /// Looks at the flash that was made by hand.
    pub(super) fn inspect(&mut self) -> DirtyReport {
        self.put_tables();
        self.inspect_again()
    }

    /// Looks at the flash as it is.
    pub(super) fn inspect_again(&mut self) -> DirtyReport {
        let mut inspection = Inspection::new(CAPACITY, BufPool::new(), Instant::ZERO);
        inspection.set_left(self.left.clone());
        let before = self.device.clone();
        loop {
            if let Some(result) = inspection.finished() {
                assert!(self.device == before, "nothing is written");
                return result.unwrap();
            }
            let operations: Vec<FlashOp> = inspection.take_operations().collect();
            assert!(!operations.is_empty(), "it goes on");
            for op in operations {
                let done = medium::carry_out(self, op);
                inspection.flash_done(done, Instant::ZERO);
            }
        }
    }
}

impl FlashBytes for Hand {
    fn load(&mut self, offset: Offset, into: &mut [u8]) -> Result<(), IoError> {
        let range = offset.get()..offset.get() + into.len() as u64;
        let bad = |page: &u64| range.contains(&(page * PAGE_BYTES as u64));
        let is_readable = !self.unreadable.iter().any(bad);
        into.copy_from_slice(&self.device[offset.to_usize()..][..into.len()]);
        for (page, times) in &mut self.garbled {
            let at = *page * PAGE_BYTES as u64;
            if range.contains(&at) && *times > 0 {
                *times -= 1;
                into[Bytes::new(at - range.start).to_usize()] ^= 1;
            }
        }
        is_readable.then_some(()).ok_or(IoError::Failed)
    }

    fn store(&mut self, offset: Offset, data: &[u8], _durable: bool) -> Result<(), IoError> {
        self.written.push(offset);
        self.write(offset, data);
        Ok(())
    }
}

/// The header of a chunk of a disk, at a page of a segment of a generation.
pub(super) fn chunk_header(
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

pub(super) fn blocks_of(does: &[Does]) -> Vec<[u8; PAGE_BYTES]> {
    let bytes = |does: &Does| match does {
        Writes(block, version) => Some(content(*block, *version)),
        Erases(..) => None,
    };
    does.iter().filter_map(bytes).collect()
}

/// What retained memory has of a chunk.
pub(super) fn left(header: &DirtyChunkHeader, does: &[Does]) -> LeftChunk {
    LeftChunk {
        head: header.retained_head(),
        records: header.records.iter().map(DirtyRecord::to_bytes).collect(),
        pages: blocks_of(does).concat(),
    }
}

/// Blocks of a disk's log in the order in which they were written; erasures as their first block
/// and a count.
pub(super) fn records(opened: &Opened, number: u16) -> Vec<(u64, u32)> {
    let Some(dirty) = opened.store.dirty_logs().get(disk(number)) else {
        return Vec::new();
    };
    let records = dirty.log().records(dirty.log().base(), dirty.log().end());
    let told = records.map(|(_, record)| match record.what {
        What::Data { block, .. } => (block.get(), 0),
        What::Erasure(erasure) => (erasure.first.get(), erasure.blocks),
    });
    told.collect()
}

pub(super) fn locked(opened: &Opened, number: u16) -> Option<LockReason> {
    opened.store.dirty_logs().get(disk(number))?.locked()
}

pub(super) fn found(opened: &Opened, number: u16, block: u64) -> Found {
    opened
        .store
        .dirty_logs()
        .find(disk(number), BlockIndex::new(block))
}

/// Where a block's clean copy is.
pub(super) fn clean(opened: &Opened, number: u16, block: u64) -> Option<FlashSlot> {
    opened
        .store
        .facts()
        .copy_of(disk(number), BlockIndex::new(block))
}

pub(super) fn phase(opened: &Opened, segment: u32) -> Phase {
    opened.store.phase_of(SegmentIndex::new(segment))
}

pub(super) fn watermark(opened: &Opened, number: u16) -> Position {
    opened
        .store
        .dirty_logs()
        .get(disk(number))
        .unwrap()
        .log()
        .watermark()
}
