//! The log: index, table and streams, and the counts that tie them together.

use crate::heat::{Census, Written, heat_of, mark_of};
use crate::index::{Entered, Full, Index, Located, Marked};
use crate::segment::{Phase, Segment};
use crate::streams::{OpenSegment, StreamKey, Streams};
use crate::table::Table;
use flash_format::{Geometry, SegmentIndex, SegmentKind};
use policy::reclaim::Reclaim;
use units::{BlockIndex, DiskSlot, FlashSlot};

/// The bookkeeping of a cache that is a log of segments. `I` says where blocks are, `C` is what
/// the driver keeps of each open segment. See the crate's header.
pub struct SegmentLog<I, C> {
    pub(crate) index: I,
    pub(crate) table: Table,
    pub(crate) streams: Streams<C>,
    /// Cached blocks by disk.
    pub(crate) cached: Vec<u64>,
    pub(crate) policy: Box<dyn Reclaim<SegmentIndex>>,
    /// The hottest that a block can get.
    heat_max: u8,
    /// Blocks appended so far, survivors apart: the log's clock.
    pub(crate) appended: u64,
    written: Written,
    /// A stream was not opened because too many are.
    pub(crate) turned_away: bool,
}

impl<I: Index, C> SegmentLog<I, C> {
    /// An empty log with an empty index.
    pub fn new(geometry: Geometry, index: I, policy: Box<dyn Reclaim<SegmentIndex>>) -> Self {
        Self::over(Table::new(geometry), index, policy)
    }

    /// A log of segments of which some are in use: `found` has for each its disk and what it is
    /// for, or none if it is free, and the generation of its last use. Their blocks are entered
    /// afterwards ([`SegmentLog::enter_batch`]).
    ///
    /// # Panics
    /// If two used segments have one generation.
    pub fn recovered(
        geometry: Geometry,
        index: I,
        policy: Box<dyn Reclaim<SegmentIndex>>,
        found: impl Iterator<Item = (Option<(DiskSlot, SegmentKind)>, u64)>,
    ) -> Self {
        Self::over(Table::recovered(geometry, found), index, policy)
    }

    fn over(table: Table, index: I, policy: Box<dyn Reclaim<SegmentIndex>>) -> Self {
        Self {
            index,
            table,
            streams: Streams::new(),
            cached: vec![0; DiskSlot::COUNT],
            heat_max: policy.heat_max(),
            policy,
            appended: 0,
            written: Written::new(),
            turned_away: false,
        }
    }

    /// The segments: what each is, who holds how many.
    #[inline]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The same, to say what becomes of segments.
    pub fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Where blocks are.
    pub fn index(&self) -> &I {
        &self.index
    }

    /// Blocks of a disk that are cached.
    #[inline]
    pub fn cached_blocks(&self, disk: DiskSlot) -> u64 {
        self.cached[disk.index()]
    }

    /// A stream's open segment.
    #[inline]
    pub fn stream(&self, key: StreamKey) -> Option<&OpenSegment<C>> {
        self.streams.get(key)
    }

    /// What the driver keeps of a stream's open segment.
    #[inline]
    pub fn content_mut(&mut self, key: StreamKey) -> Option<&mut C> {
        Some(&mut self.streams.get_mut(key)?.content)
    }

    /// Every stream that has an open segment, in a fixed order.
    pub fn stream_keys(&self) -> Vec<StreamKey> {
        self.streams.iter().map(|(key, _)| key).collect()
    }

    /// Where a block that is asked for lies, if it is cached; it becomes hotter.
    #[inline]
    pub fn touch(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        let (table, heat_max) = (&mut self.table, self.heat_max);
        let was = self.index.change(disk, block, |at| Marked {
            slot: at.slot,
            mark: table.of_slot(at.slot).warmed(at.mark, heat_max),
        })?;
        Some(was.slot)
    }

    /// How hot a block is; 0 if it is not cached.
    pub fn heat(&self, disk: DiskSlot, block: BlockIndex) -> u8 {
        let marked = self.index.find(disk, block);
        marked.map_or(0, |at| {
            heat_of(at.mark, self.table.segment_of(at.slot).round)
        })
    }

    /// Enters a block that was not cached under the slot where it was placed. It is cold, also if it was
    /// cached a moment ago and has been written: heat is how often a copy was asked for.
    ///
    /// # Errors
    /// [`Full`] if the index has no place for it.
    ///
    /// # Panics
    /// If it is cached.
    pub fn enter(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
    ) -> Result<(), Full> {
        let segment = self.table.of_slot(slot);
        let mark = mark_of(0, segment.round);
        let previous = self.index.insert(disk, block, Marked { slot, mark })?;
        assert!(
            previous.is_none(),
            "a block that is entered was not in the cache"
        );
        segment.count(mark, 1);
        self.cached[disk.index()] += 1;
        Ok(())
    }

    /// Enters the blocks that were found in a segment, those of the same name in their order. `each` gets
    /// each one's position in `blocks` and what became of it.
    ///
    /// # Panics
    /// If they are of several segments or disks.
    pub fn enter_batch(&mut self, blocks: &[Located], mut each: impl FnMut(usize, Entered)) {
        let Some(first) = blocks.first() else {
            return;
        };
        let of = |at: &Located| (at.disk, self.table.geometry().segment_of(at.slot));
        let (disk, segment) = of(first);
        // Without an early end, so that it costs no branches.
        let others = blocks.iter().filter(|at| of(at) != (disk, segment)).count();
        assert_eq!(others, 0, "the blocks are of one segment");
        let (table, cached) = (&mut self.table, &mut self.cached[disk.index()]);
        // Counted together: a segment's counts are far from what the index touches.
        let mut new = 0;
        self.index.insert_batch(blocks, |i, result| {
            let entered = match result {
                Ok(None) => {
                    new += 1;
                    Entered::New
                }
                Ok(Some(old)) => {
                    // First: the old one may be of this very batch, and not be counted yet.
                    table.get_mut(segment).count(0, 1);
                    table.of_slot(old.slot).uncount(old.mark);
                    Entered::Instead(old.slot)
                }
                Err(Full) => Entered::Full,
            };
            each(i, entered);
        });
        table.get_mut(segment).count(0, new);
        *cached += u64::from(new);
    }

    /// Whether no block was ever appended to it.
    pub fn is_untouched(&self) -> bool {
        self.appended == 0
    }

    /// Forgets a block, because it is written or erased. Returns where it lay, if it was cached.
    pub fn forget(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        let marked = self.index.remove(disk, block)?;
        let heat = heat_of(marked.mark, self.table.segment_of(marked.slot).round);
        // A policy that counts no heat does not know: then whoever writes has the benefit of the doubt.
        let warm = heat > 0 || self.heat_max == 0;
        self.written.forget(disk, block, warm);
        self.uncount(disk, marked);
        Some(marked.slot)
    }

    /// Whether a block was warm when it was forgotten a moment ago, because it is written: somebody has read the
    /// copy that ends. False if it is not known any more.
    pub fn was_warm(&self, disk: DiskSlot, block: BlockIndex) -> bool {
        self.written.was_warm(disk, block)
    }

    /// Forgets a block if it lies in this slot. True if it did.
    pub fn forget_if(&mut self, disk: DiskSlot, block: BlockIndex, slot: FlashSlot) -> bool {
        let removed = self.index.remove_if(disk, block, slot);
        if let Some(marked) = removed {
            self.uncount(disk, marked);
        }
        removed.is_some()
    }

    fn uncount(&mut self, disk: DiskSlot, marked: Marked) {
        self.table.of_slot(marked.slot).uncount(marked.mark);
        self.cached[disk.index()] -= 1;
    }

    /// Forgets every block of a disk, by walking the whole index.
    pub fn forget_disk(&mut self, disk: DiskSlot) {
        self.forget_where(|_, _, segment| segment.disk == disk, |_| {});
    }

    /// Forgets the blocks of a disk that lie in slots for which `goes` holds, by walking the whole
    /// index. `gone` gets each block.
    pub fn forget_of_disk(
        &mut self,
        disk: DiskSlot,
        goes: impl Fn(FlashSlot) -> bool,
        gone: impl FnMut(BlockIndex),
    ) {
        self.forget_where(|slot, _, segment| segment.disk == disk && goes(slot), gone);
    }

    /// Forgets whatever lies in a segment, by walking the whole index: for segments whose
    /// descriptors are lost. `gone` gets each block.
    pub(crate) fn forget_segment(&mut self, segment: SegmentIndex, gone: impl FnMut(BlockIndex)) {
        self.forget_where(|_, of, _| of == segment, gone);
    }

    fn forget_where(
        &mut self,
        goes: impl Fn(FlashSlot, SegmentIndex, &Segment) -> bool,
        mut gone: impl FnMut(BlockIndex),
    ) {
        let (table, cached) = (&mut self.table, &mut self.cached);
        self.index.retain(|block, at| {
            let number = table.geometry().segment_of(at.slot);
            let segment = table.get_mut(number);
            let goes = goes(at.slot, number, segment);
            if goes {
                segment.uncount(at.mark);
                cached[segment.disk.index()] -= 1;
                gone(block);
            }
            !goes
        });
    }

    /// A read from this slot begins: until it ends its segment is not used again.
    #[inline]
    pub fn pin(&mut self, slot: FlashSlot) {
        self.table.of_slot(slot).readers += 1;
    }

    /// A read from this slot has ended.
    ///
    /// # Panics
    /// If none had begun.
    #[inline]
    pub fn unpin(&mut self, slot: FlashSlot) {
        let segment = self.table.geometry().segment_of(slot);
        let readers = &mut self.table.get_mut(segment).readers;
        *readers = readers.checked_sub(1).expect("each read was counted");
        self.table.free_if_drained(segment);
    }

    /// Takes the guard out that keeps segments from being used again while they are read.
    #[cfg(feature = "mutants")]
    pub fn ignore_readers(&mut self, ignore: bool) {
        self.table.ignores_readers = ignore;
    }

    /// Bytes of memory, without the index.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
            + self.streams.bytes()
            + self.written.bytes()
            + self.cached.capacity() * size_of::<u64>()
    }

    /// Asserts the invariants of the crate's header; walks the whole index.
    ///
    /// # Panics
    /// If one is broken.
    pub fn self_check(&self) {
        let count = self.table.geometry().segment_count() as usize;
        let mut live = vec![(0_u32, Census::default()); count];
        let mut cached = vec![0_u64; DiskSlot::COUNT];
        self.index.for_each(|at| {
            let segment = self.table.geometry().segment_of(at.slot);
            live[segment.index()].0 += 1;
            live[segment.index()].1[usize::from(at.mark)] += 1;
            cached[self.table.get(segment).disk.index()] += 1;
        });
        for (index, segment) in self.table.iter() {
            let (counted, census) = live[index.index()];
            assert_eq!(segment.live, counted, "live entries of {index:?}");
            assert_eq!(segment.census, census, "marks of the entries of {index:?}");
            let idle = counted == 0 && segment.readers == 0 && segment.writes == 0;
            assert!(
                segment.phase != Phase::Free || idle,
                "{index:?} is free and idle"
            );
        }
        assert_eq!(cached, self.cached, "cached blocks by disk");
        self.table.tenants.self_check(self.table.iter());
    }
}
