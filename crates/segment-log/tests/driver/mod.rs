//! The shortest driver of a log that stores nothing: each write ends at once unless it is told to be
//! late, and there is no journal.

#![allow(dead_code, reason = "each test uses what it needs")]

use flash_format::{Geometry, SegmentIndex};
use policy::reclaim::Kind;
use segment_log::{After, Begin, Dense, Move, SegmentLog, Source, Step, StreamKey, Victim};
use units::{BlockIndex, Bytes, DiskSlot, Instant, TenantSlot};

/// A segment that was taken from somebody.
#[derive(Debug)]
pub(crate) struct Loss {
    /// How far above its share its owner was.
    pub(crate) excess: i64,
    /// How far above its share the highest was.
    pub(crate) highest: i64,
}

pub(crate) struct Driver {
    pub(crate) log: SegmentLog<Dense, ()>,
    pages: usize,
    /// By slot: disk and key.
    contents: Vec<Option<(DiskSlot, u32)>>,
    tenants: Vec<Option<TenantSlot>>,
    pub(crate) refused: u64,
    pub(crate) losses: Vec<Loss>,
    pub(crate) free_at_reclaim_max: usize,
    pub(crate) appended: u64,
    pub(crate) kept: u64,
    read: Vec<u64>,
    evicted: Vec<u64>,
    /// No footer can be read.
    pub(crate) footers_lost: bool,
    /// A block that is forgotten between its being kept and the index being pointed at its new place.
    pub(crate) forgotten_meanwhile: Option<u32>,
    /// What the log said that it evicted, in its order.
    pub(crate) told: Vec<(DiskSlot, u32)>,
    /// Where the survivors of each victim were to go.
    pub(crate) survivors: Vec<StreamKey>,
    /// Writes end when [`Self::end_writes`] says so.
    pub(crate) late: bool,
    on_their_way: Vec<SegmentIndex>,
    next: u32,
    now: u64,
}

impl Driver {
    /// Segments of 16 pages: 14 blocks, a header and a footer.
    pub(crate) fn new(segments: u32, kind: Kind) -> Self {
        Self::of_pages(segments, 16, kind)
    }

    /// Segments of so many pages, of which one is the footer's.
    pub(crate) fn of_pages(segments: u32, pages: u32, kind: Kind) -> Self {
        let size = Bytes::new(u64::from(pages) * 4096);
        let geometry = Geometry::of_slots(segments * pages, size).unwrap();
        Self {
            log: SegmentLog::new(geometry, Dense::new(), kind.build()),
            pages: pages as usize,
            contents: vec![None; (segments * pages) as usize],
            tenants: vec![None; DiskSlot::COUNT],
            refused: 0,
            losses: Vec::new(),
            free_at_reclaim_max: 0,
            appended: 0,
            kept: 0,
            read: vec![0; DiskSlot::COUNT],
            evicted: vec![0; DiskSlot::COUNT],
            footers_lost: false,
            forgotten_meanwhile: None,
            told: Vec::new(),
            survivors: Vec::new(),
            late: false,
            on_their_way: Vec::new(),
            next: 1 << 20,
            now: 0,
        }
    }

    /// Blocks of a disk that were fetched.
    pub(crate) fn read_of(&self, disk: DiskSlot) -> u64 {
        self.read[disk.index()]
    }

    pub(crate) fn evicted_of(&self, disk: DiskSlot) -> u64 {
        self.evicted[disk.index()]
    }

    /// A block that nobody has read.
    pub(crate) fn read_new(&mut self, disk: DiskSlot) {
        self.next += 1;
        assert!(!self.read(disk, self.next));
    }

    /// Blocks of different disks have different names in the index, which does not know disks.
    pub(crate) fn read(&mut self, disk: DiskSlot, number: u32) -> bool {
        let key = Self::key(disk, number);
        if self.log.touch(disk, block(key)).is_some() {
            return true;
        }
        self.read[disk.index()] += 1;
        let stream = StreamKey::of(disk, Source::Fill);
        if let Some(slot) = self.append(stream, Source::Fill, disk, key) {
            self.log.enter(disk, block(key), slot).unwrap();
            self.appended += 1;
        } else {
            self.refused += 1;
            self.read[disk.index()] -= 1;
        }
        self.reclaim();
        false
    }

    const fn key(disk: DiskSlot, number: u32) -> u32 {
        number * 8 + disk.get() as u32 % 8
    }

    pub(crate) fn is_cached(&self, disk: DiskSlot, number: u32) -> bool {
        let key = Self::key(disk, number);
        segment_log::Index::get(self.log.index(), disk, block(key)).is_some()
    }

    pub(crate) fn heat(&self, disk: DiskSlot, number: u32) -> u8 {
        self.log.heat(disk, block(Self::key(disk, number)))
    }

    pub(crate) fn was_warm(&self, disk: DiskSlot, number: u32) -> bool {
        self.log.was_warm(disk, block(Self::key(disk, number)))
    }

    /// A write of a block: its copy, if there is one, is forgotten and appended again.
    pub(crate) fn rewrite(&mut self, disk: DiskSlot, number: u32) {
        let key = Self::key(disk, number);
        if self.log.forget(disk, block(key)).is_none() {
            return;
        }
        let stream = StreamKey::of(disk, Source::Update);
        let slot = self.append(stream, Source::Update, disk, key).unwrap();
        self.log.enter(disk, block(key), slot).unwrap();
        self.appended += 1;
        self.reclaim();
    }

    pub(crate) fn append(
        &mut self,
        stream: StreamKey,
        source: Source,
        disk: DiskSlot,
        key: u32,
    ) -> Option<units::FlashSlot> {
        self.now += 1;
        let now = Instant::from_nanos(self.now);
        loop {
            match self.log.prepare(stream, now) {
                Step::Ready => break,
                Step::NoSegment => return None,
                Step::Close => self.close(stream),
                Step::Opened { segment, .. } => {
                    let start = segment.index() * self.pages;
                    self.contents[start..start + self.pages].fill(None);
                }
                Step::ChunkOpened { .. } => {}
            }
        }
        let placed = self.log.place(stream, source, now);
        self.contents[placed.slot.index()] = Some((disk, key));
        match placed.after {
            After::Nothing => {}
            After::Seal => self.seal(stream),
            After::Close => self.close(stream),
        }
        Some(placed.slot)
    }

    pub(crate) fn seal(&mut self, stream: StreamKey) {
        if let Some(sealed) = self.log.seal(stream) {
            self.written(sealed.segment);
        }
    }

    pub(crate) fn close(&mut self, stream: StreamKey) {
        self.seal(stream);
        if let Some(closed) = self.log.close(stream) {
            self.written(closed.segment);
        }
    }

    fn written(&mut self, segment: SegmentIndex) {
        if self.late {
            self.on_their_way.push(segment);
        } else {
            self.log.table_mut().write_ended(segment);
        }
    }

    /// Everything that was to be written is on flash.
    pub(crate) fn end_writes(&mut self) {
        for segment in std::mem::take(&mut self.on_their_way) {
            self.log.table_mut().write_ended(segment);
        }
    }

    pub(crate) fn set_tenant(&mut self, disk: DiskSlot, tenant: Option<TenantSlot>) {
        self.log.table_mut().set_tenant(disk, tenant);
        self.tenants[disk.index()] = tenant;
    }

    fn excess_of(&self, tenant: Option<TenantSlot>) -> i64 {
        tenant.map_or(i64::MAX, |tenant| {
            i64::from(self.log.table().held(tenant)) - i64::from(self.log.table().share(tenant))
        })
    }

    pub(crate) fn reclaim(&mut self) {
        loop {
            let free = self.log.table().free_count();
            let highest = (0..8)
                .map(TenantSlot::new)
                .map(|t| self.excess_of(Some(t)))
                .max();
            let nobody = self.log.table().held_by_nobody() > 0;
            let before: Vec<i64> = self.tenants.iter().map(|t| self.excess_of(*t)).collect();
            match self.log.begin_reclaim() {
                Begin::Enough | Begin::Wait => return,
                Begin::Close(stream) => self.close(stream),
                Begin::Reclaim(victim) => {
                    self.free_at_reclaim_max = self.free_at_reclaim_max.max(free);
                    self.losses.push(Loss {
                        excess: before[victim.disk().index()],
                        highest: if nobody { i64::MAX } else { highest.unwrap() },
                    });
                    self.reclaim_one(victim);
                }
            }
        }
    }

    fn reclaim_one(&mut self, mut victim: Victim) {
        let (segment, disk) = (victim.segment(), victim.disk());
        self.survivors.push(victim.survivors());
        let geometry = *self.log.table().geometry();
        let start = segment.index() * self.pages;
        let in_it: Vec<(u32, u32)> = (1..geometry.segment_pages() - 1)
            .filter(|_| !self.footers_lost)
            .filter_map(|page| Some((self.contents[start + page as usize]?.1, page)))
            .collect();
        for (key, page) in &in_it {
            if !victim.keeps(&mut self.log, block(*key), *page) {
                continue;
            }
            let stream = victim.survivors();
            if let Some(to) = self.append(stream, Source::Survivor, disk, *key) {
                self.kept += 1;
                let from = geometry.slot(segment, *page);
                victim.moved(Move {
                    block: block(*key),
                    from,
                    to,
                });
            }
        }
        self.seal(victim.survivors());
        let forgotten = self.forgotten_meanwhile.take();
        let forgotten = forgotten.map(|number| block(Self::key(disk, number)));
        for moved in victim.take_moves() {
            if Some(moved.block) == forgotten {
                // It is cached again, elsewhere, by the time that the index is pointed.
                assert_eq!(self.log.forget(disk, moved.block), Some(moved.from));
                self.log.enter(disk, moved.block, moved.to).unwrap();
                assert!(
                    !victim.point_at(&mut self.log, &moved),
                    "the survivor is dead"
                );
                continue;
            }
            assert!(victim.point_at(&mut self.log, &moved));
        }
        let left = in_it.into_iter().map(|(key, page)| (block(key), page));
        let told = &mut self.told;
        let number = |block: BlockIndex| u32::try_from(block.get() / 8).unwrap();
        let tell = |block| told.push((disk, number(block)));
        let dropped = victim.evict(&mut self.log, left, tell);
        self.evicted[disk.index()] += u64::from(dropped);
        self.log.table_mut().release(segment);
    }
}

const fn block(key: u32) -> BlockIndex {
    BlockIndex::new(key as u64)
}
