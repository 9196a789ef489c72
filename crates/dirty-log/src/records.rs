//! The records of a dirty log and its newest ones by block, in few bytes: 12 for what a record says,
//! and for a block's newest one 5 at best and 12 at worst to find it by its block.
//!
//! ```text
//!  chunk ─ block of each ─┐          run: from which number on, generation, slot of page 0
//!        ─ slot of each ──┼─► a record's position: generation of its run, page = slot - page 0
//!        ─ begins? 1 bit ─┘
//!                    slot 0: an erasure, which is told apart, with its position
//!  latest: block ─► the low half of the number of its record
//! ```
//!
//! Invariants: chunks have numbers that begin with a multiple of [`CHUNK_RECORDS`], and there is none
//! without a record. Runs and erasures are of records that are here, but for the first run.

use crate::number::RecordNumber;
use crate::record::{Record, What};
use flash_format::{Erasure, Position};
use std::collections::VecDeque;
use units::{BlockIndex, FlashSlot, Table, hash_of};

/// Records that get their memory together: 6 KiB. A log that is nearly empty has no more.
const CHUNK_RECORDS: usize = 512;

const WORD_BITS: usize = u64::BITS as usize;

#[derive(Clone, Debug)]
struct Chunk {
    blocks: [u64; CHUNK_RECORDS],
    /// 0 for an erasure.
    slots: [u32; CHUNK_RECORDS],
    /// Whether an interval begins with it.
    begins: [u64; CHUNK_RECORDS / WORD_BITS],
}

/// Records that lie in one segment.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: RecordNumber,
    generation: u64,
    /// The number of the slot that the segment's first page would be.
    page_0: u32,
}

/// An erasure.
#[derive(Clone, Copy, Debug)]
struct Erased {
    number: RecordNumber,
    at: Position,
    erasure: Erasure,
}

/// The records of a log, by their numbers. See the module's header.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    base: RecordNumber,
    end: RecordNumber,
    /// The last one's, if there is one.
    last: Position,
    chunks: VecDeque<Box<Chunk>>,
    runs: VecDeque<Run>,
    erased: VecDeque<Erased>,
    /// Intervals that begin with a record that is here, but for the first one.
    begun: u64,
    /// The next record begins an interval.
    ended: bool,
}

/// Whether a chunk begins with this number.
fn begins_chunk(number: RecordNumber) -> bool {
    number.get().is_multiple_of(CHUNK_RECORDS as u64)
}

/// The word of a chunk's marks that has a record's, and the bit there.
fn place(number: RecordNumber) -> (usize, usize) {
    let in_chunk = number.get() % CHUNK_RECORDS as u64;
    let in_chunk = usize::try_from(in_chunk).expect("it is below 512");
    (in_chunk / WORD_BITS, in_chunk % WORD_BITS)
}

impl Records {
    pub(super) fn base(&self) -> RecordNumber {
        self.base
    }

    pub(super) fn end(&self) -> RecordNumber {
        self.end
    }

    pub(super) fn len(&self) -> u64 {
        self.end.distance_from(self.base)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.base == self.end
    }

    /// Where the last one is.
    pub(super) fn last(&self) -> Option<Position> {
        (!self.is_empty()).then_some(self.last)
    }

    /// The chunk of a record, and the record's place in it.
    ///
    /// # Panics
    /// If it is not here.
    #[inline]
    fn chunk(&self, number: RecordNumber) -> (&Chunk, usize) {
        assert!(number >= self.base, "the record is gone");
        assert!(number < self.end, "the record has not come");
        let (at, within) = self.chunk_of(number);
        (&self.chunks[at], within)
    }

    fn chunk_of(&self, number: RecordNumber) -> (usize, usize) {
        let size = CHUNK_RECORDS as u64;
        let at = number.get() / size - self.base.get() / size;
        let in_memory = "records are in memory";
        (
            usize::try_from(at).expect(in_memory),
            usize::try_from(number.get() % size).expect(in_memory),
        )
    }

    /// Appends a record.
    pub(super) fn push(&mut self, record: Record) {
        let number = self.end;
        if self.is_empty() || begins_chunk(number) {
            self.chunks.push_back(Box::new(Chunk {
                blocks: [0; CHUNK_RECORDS],
                slots: [0; CHUNK_RECORDS],
                begins: [0; CHUNK_RECORDS / WORD_BITS],
            }));
        }
        let (at, within) = self.chunk_of(number);
        let chunk = &mut self.chunks[at];
        match record.what {
            What::Data { block, slot } => {
                chunk.blocks[within] = block.get();
                chunk.slots[within] = slot.get();
                self.lies(number, record.at, slot);
            }
            What::Erasure(erasure) => self.erased.push_back(Erased {
                number,
                at: record.at,
                erasure,
            }),
        }
        if std::mem::take(&mut self.ended) {
            let (word, bit) = place(number);
            self.chunks[at].begins[word] |= 1 << bit;
            self.begun += 1;
        }
        self.last = record.at;
        self.end = self.end.next();
    }

    /// A record lies in this slot, which is the page of its position.
    fn lies(&mut self, from: RecordNumber, at: Position, slot: FlashSlot) {
        let page_0 = slot.get().checked_sub(at.page.into());
        let page_0 = page_0.expect("a slot lies behind its segment's first page");
        let generation = at.generation;
        let same = |run: &Run| (run.generation, run.page_0) == (generation, page_0);
        if !self.runs.back().is_some_and(same) {
            self.runs.push_back(Run {
                from,
                generation,
                page_0,
            });
        }
    }

    /// Takes the oldest record away, with its number.
    pub(super) fn pop(&mut self) -> Option<(RecordNumber, Record)> {
        if self.is_empty() {
            return None;
        }
        let number = self.base;
        let record = self.get(number);
        self.base = self.base.next();
        if self.erased.front().is_some_and(|e| e.number == number) {
            self.erased.pop_front();
        }
        if self.runs.get(1).is_some_and(|run| run.from <= self.base) {
            self.runs.pop_front();
        }
        if self.is_empty() {
            self.chunks.clear();
            self.ended = false;
        } else {
            if begins_chunk(self.base) {
                self.chunks.pop_front();
            }
            self.begun -= u64::from(self.has_mark(self.base));
        }
        Some((number, record))
    }

    /// A record by its number.
    ///
    /// # Panics
    /// If it is not here.
    pub(super) fn get(&self, number: RecordNumber) -> Record {
        let (chunk, within) = self.chunk(number);
        let Some(slot) = FlashSlot::checked_new(chunk.slots[within]) else {
            let at = self.erased.partition_point(|e| e.number < number);
            let Erased { at, erasure, .. } = self.erased[at];
            let what = What::Erasure(erasure);
            return Record { at, what };
        };
        let run = self.runs.partition_point(|run| run.from <= number);
        let run = self.runs[run - 1];
        let page = slot.get() - run.page_0;
        let block = BlockIndex::new(chunk.blocks[within]);
        Record {
            at: Position::of_page(run.generation, page),
            what: What::Data { block, slot },
        }
    }

    /// The block of a record and where its bytes are; none for an erasure.
    #[inline]
    pub(super) fn data(&self, number: RecordNumber) -> Option<(BlockIndex, FlashSlot)> {
        let (chunk, within) = self.chunk(number);
        let slot = FlashSlot::checked_new(chunk.slots[within])?;
        Some((BlockIndex::new(chunk.blocks[within]), slot))
    }

    /// What comes next begins an interval.
    pub(super) fn end_interval(&mut self) {
        self.ended = !self.is_empty();
    }

    /// Whether the next record begins an interval that is not the first.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// How many intervals begin with a record that is here, the first left out.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    fn has_mark(&self, number: RecordNumber) -> bool {
        let (word, bit) = place(number);
        self.chunk(number).0.begins[word] >> bit & 1 == 1
    }

    /// Whether an interval that is not the first begins with this number.
    pub(super) fn begins_at(&self, number: RecordNumber) -> bool {
        if number == self.end {
            return self.ended;
        }
        number > self.base && number < self.end && self.has_mark(number)
    }

    /// The first number behind this one with which an interval begins.
    pub(super) fn next_begin(&self, number: RecordNumber) -> Option<RecordNumber> {
        let mut at = number.next();
        while at < self.end {
            let (word, bit) = place(at);
            let marks = self.chunk(at).0.begins[word] >> bit;
            if marks != 0 {
                return Some(at.advance(marks.trailing_zeros().into()));
            }
            at = at.advance((WORD_BITS - bit) as u64);
        }
        self.ended.then_some(self.end)
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.chunks.len() * size_of::<Chunk>()
            + self.chunks.capacity() * size_of::<Box<Chunk>>()
            + self.runs.capacity() * size_of::<Run>()
            + self.erased.capacity() * size_of::<Erased>()
    }
}

/// By block a record that has its bytes, and that is here.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest(Table<u32>);

/// The low half of a number. A log has fewer than 2^32 records.
fn low(number: RecordNumber) -> u32 {
    let low = number.get() & u64::from(u32::MAX);
    u32::try_from(low).expect("it was masked")
}

/// The number behind `base` whose low half this is.
fn whole(base: RecordNumber, of: u32) -> RecordNumber {
    base.advance(of.wrapping_sub(low(base)).into())
}

impl Latest {
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    #[inline]
    pub(super) fn get(&self, records: &Records, block: BlockIndex) -> Option<RecordNumber> {
        let is = |of: &u32| block_of(records, *of) == block;
        let found = self.0.find(hash_of(block), is)?;
        Some(whole(records.base(), *found))
    }

    /// A block's record is this one from now on.
    pub(super) fn insert(&mut self, records: &Records, block: BlockIndex, number: RecordNumber) {
        let is = |of: &u32| block_of(records, *of) == block;
        let hash = |of: &u32| hash_of(block_of(records, *of));
        let entry = self.0.entry(hash_of(block), is, hash);
        entry
            .and_modify(|of| *of = low(number))
            .or_insert(low(number));
    }

    pub(super) fn remove(&mut self, records: &Records, block: BlockIndex) {
        let is = |of: &u32| block_of(records, *of) == block;
        if let Ok(found) = self.0.find_entry(hash_of(block), is) {
            found.remove();
        }
    }

    /// Forgets the blocks of which this is not so.
    pub(super) fn retain(&mut self, records: &Records, stays: impl Fn(BlockIndex) -> bool) {
        self.0.retain(|of| stays(block_of(records, *of)));
    }

    /// Each block and its record, in no order.
    pub(super) fn iter(
        &self,
        records: &Records,
    ) -> impl Iterator<Item = (BlockIndex, RecordNumber)> {
        let each = |of: &u32| (block_of(records, *of), whole(records.base(), *of));
        self.0.iter().map(each)
    }

    /// What an empty one held for its busiest time is given back.
    pub(super) fn shrink(&mut self) {
        if self.0.is_empty() && self.0.capacity() > CHUNK_RECORDS {
            self.0 = Table::new();
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.0.allocation_size()
    }
}

#[inline]
fn block_of(records: &Records, of: u32) -> BlockIndex {
    let data = records.data(whole(records.base(), of));
    data.expect("the newest record of a block has its bytes").0
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_format::ErasureKind;

    /// A number with so many before it.
    fn nth(before: u64) -> RecordNumber {
        RecordNumber::FIRST.advance(before)
    }

    fn data(generation: u64, segment: u32, page: u32, block: u64) -> Record {
        let what = What::Data {
            block: BlockIndex::new(block),
            slot: FlashSlot::new(segment * 64 + page),
        };
        let at = Position::of_page(generation, page);
        Record { at, what }
    }

    #[test]
    fn a_record_is_what_was_pushed_across_segments_and_chunks() {
        let mut records = Records::default();
        let mut pushed = Vec::new();
        for (generation, segment) in [(3, 40), (4, 0), (9, 7)].into_iter().cycle().take(40) {
            let generation = generation + 10 * (pushed.len() as u64 / 64);
            for page in (1..64).filter(|page| page % 16 != 0) {
                let number = pushed.len() as u64;
                pushed.push(data(generation, segment, page, number * 3));
                if page % 10 == 9 {
                    let at = pushed[pushed.len() - 1].at.next_erasure();
                    let erasure = Erasure {
                        first: BlockIndex::new(number),
                        blocks: page,
                        kind: ErasureKind::Discard,
                    };
                    let what = What::Erasure(erasure);
                    pushed.push(Record { at, what });
                }
            }
        }
        for record in &pushed {
            records.push(*record);
        }
        assert!(pushed.len() > 4 * CHUNK_RECORDS);
        for (number, record) in nth(0).up_to(records.end()).zip(&pushed) {
            assert_eq!(records.last(), pushed.last().map(|last| last.at));
            assert_eq!(records.get(number), *record);
            assert_eq!(records.pop(), Some((number, *record)));
        }
        assert_eq!((records.pop(), records.last()), (None, None));
        assert!(records.chunks.is_empty() && records.erased.is_empty());
        assert_eq!(records.runs.len(), 1);
    }

    #[test]
    fn an_interval_is_found_far_away() {
        let mut records = Records::default();
        for number in 0..3000 {
            if [64, 65, 1999].contains(&number) {
                records.end_interval();
            }
            records.push(data(1, 1, 1, number));
        }
        assert_eq!(
            (records.begun(), records.next_begin(nth(0))),
            (3, Some(nth(64)))
        );
        assert_eq!(
            (records.next_begin(nth(64)), records.next_begin(nth(65))),
            (Some(nth(65)), Some(nth(1999)))
        );
        assert_eq!(records.next_begin(nth(1999)), None);
        assert!(records.begins_at(nth(1999)) && !records.begins_at(nth(2000)));
        records.end_interval();
        assert_eq!(records.next_begin(nth(1999)), Some(nth(3000)));
        while records.base() < nth(65) {
            records.pop();
        }
        assert_eq!((records.begun(), records.begins_at(nth(65))), (1, false));
    }

    #[test]
    fn numbers_beyond_32_bits_are_told_apart() {
        let mut records = Records {
            base: nth(u64::from(u32::MAX) - 1),
            end: nth(u64::from(u32::MAX) - 1),
            ..Records::default()
        };
        let mut latest = Latest::default();
        for block in [5, 6, 7, 5] {
            let number = records.end();
            records.push(data(1, 1, 1 + u32::try_from(block).unwrap(), block));
            latest.insert(&records, BlockIndex::new(block), number);
        }
        let of = |block| latest.get(&records, BlockIndex::new(block));
        assert_eq!(
            (of(5), of(7), of(8)),
            (Some(nth((1 << 32) + 1)), Some(nth(1 << 32)), None)
        );
        assert_eq!(latest.len(), 3);
    }

    #[test]
    fn a_dirty_block_takes_less_than_24_bytes() {
        for count in [10_000_u64, 57_345, 114_688, 131_000, 262_144] {
            let (mut records, mut latest) = (Records::default(), Latest::default());
            for number in 0..count {
                let page = u32::try_from(number % 1000).unwrap() + 1;
                let segment = u32::try_from(number / 1000).unwrap();
                let what = What::Data {
                    block: BlockIndex::new(number * 7),
                    slot: FlashSlot::new(segment * 1024 + page),
                };
                let at = Position::of_page(1 + u64::from(segment), page);
                records.end_interval();
                records.push(Record { at, what });
                latest.insert(&records, BlockIndex::new(number * 7), nth(number));
            }
            let bytes = (records.bytes() + latest.bytes()) as u64;
            assert!(bytes <= 24 * count + 8192, "{bytes} for {count}");
        }
    }
}
