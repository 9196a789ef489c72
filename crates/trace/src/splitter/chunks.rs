//! The numbers of a volume's blocks, found by chunks of 32 neighbours.
//!
//! ```text
//!  hash table by chunk              arena
//!  tag  seen     first              ┌────────────┬──────┬────
//!  ───  ───────  ─────     ┌──────► │ 7 9 8 41 · │ 3 90 │ ...
//!  812  1111000  5000      │        └────────────┴──────┴────
//!   13  1010011  ──────────┘
//! ```
//!
//! Most chunks are first touched by a sequential run, so their keys are `first`, `first + 1` ... for the
//! blocks seen, lowest first, and need no more than the entry's 16 bytes. When a later access breaks that
//! order, the keys move to a slice of the arena, ordered by block, found by counting the bits below.
//!
//! Invariants: an entry with a tag has seen at least one block; a slice has room for at least as many keys
//! as its chunk has blocks seen.

/// Blocks in a chunk: the bits of `Entry::seen`.
pub(super) const CHUNK_BLOCKS: u64 = 32;

/// Room in the slices of the arena, by class. Slices are reused within their class.
const CLASSES: [u32; 6] = [2, 4, 8, 16, 24, 32];

/// Where an entry's keys are: its low bits in `Entry::tag` are the chunk's number, so that a table entry
/// is 16 bytes.
const TAG_BITS: u32 = 56;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// A chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The chunk's number plus one, 0 for an empty entry; in the upper bits 0 for consecutive keys,
    /// else the class of the arena's slice plus one.
    tag: u64,
    /// Bit b: block b of the chunk has a key.
    seen: u32,
    /// The lowest block's key, or the slice's place in the arena.
    first: u32,
}

impl Entry {
    fn class(self) -> Option<usize> {
        match self.tag >> TAG_BITS {
            0 => None,
            class => usize::try_from(class - 1).ok(),
        }
    }

    fn count(self) -> u32 {
        self.seen.count_ones()
    }

    /// The key of its block with this bit or, of an entry with a class, where the arena has that key.
    #[inline]
    fn key_or_place(self, bit: u32) -> u32 {
        self.first + (self.seen & (bit - 1)).count_ones()
    }
}

/// Slices of keys, shared by all volumes.
#[derive(Clone, Debug, Default)]
pub(super) struct Arena {
    keys: Vec<u32>,
    free: [Vec<u32>; CLASSES.len()],
}

/// No place left: more slices than 32 bits can point to.
#[derive(Debug)]
pub(super) struct Full;

impl Arena {
    fn class_for(count: u32) -> usize {
        CLASSES
            .iter()
            .position(|&room| room >= count)
            .expect("a chunk has at most 32 blocks")
    }

    fn allocate(&mut self, class: usize) -> Result<u32, Full> {
        if let Some(place) = self.free[class].pop() {
            return Ok(place);
        }
        let place = u32::try_from(self.keys.len()).map_err(|_| Full)?;
        let room = CLASSES[class] as usize;
        if self.keys.capacity() - self.keys.len() < room {
            // By a quarter: doubling would make the table's peak three times its content.
            self.keys.reserve_exact(room.max(self.keys.len() / 4));
        }
        self.keys.resize(self.keys.len() + room, 0);
        Ok(place)
    }

    fn release(&mut self, class: usize, place: u32) {
        self.free[class].push(place);
    }

    fn slice(&self, place: u32, count: u32) -> &[u32] {
        &self.keys[place as usize..][..count as usize]
    }

    fn slice_mut(&mut self, place: u32, count: u32) -> &mut [u32] {
        &mut self.keys[place as usize..][..count as usize]
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let free: usize = self.free.iter().map(Vec::capacity).sum();
        (self.keys.capacity() + free) * size_of::<u32>()
    }
}

/// The chunks of one volume.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    /// A power of two of entries, probed linearly; empty before the first block.
    entries: Vec<Entry>,
    used: usize,
}

/// Some neighbouring blocks of one chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    chunk: u64,
    /// Bit b: block b of the chunk is meant. Without gaps.
    blocks: u32,
}

impl Span {
    /// From `block` on, up to `last` or the chunk's end; and the first block after it.
    #[inline]
    pub(super) fn from(block: u64, last: u64) -> (Self, u64) {
        let chunk = block / CHUNK_BLOCKS;
        let low = block % CHUNK_BLOCKS;
        let end = ((chunk + 1) * CHUNK_BLOCKS).min(last + 1);
        let count = end - block;
        let blocks = (u32::MAX >> (CHUNK_BLOCKS - count)) << low;
        (Self { chunk, blocks }, end)
    }
}

impl Chunks {
    /// Appends the keys of a span to `keys`, new blocks numbered from `next` on; says what comes next.
    #[inline]
    pub(super) fn access(
        &mut self,
        span: Span,
        next: u32,
        arena: &mut Arena,
        keys: &mut Vec<u32>,
    ) -> Result<u32, Full> {
        let place = self.find_or_insert(span.chunk);
        let entry = &mut self.entries[place];
        let new = span.blocks & !entry.seen;
        if new != 0 {
            let count = new.count_ones();
            if entry.seen == 0 {
                entry.first = next;
                entry.seen = new;
            } else if entry.class().is_none() && continues(*entry, new, next) {
                entry.seen |= new;
            } else {
                *entry = rebuild(*entry, new, next, arena)?;
            }
            emit(*entry, span.blocks, arena, keys);
            return Ok(next + count);
        }
        emit(*entry, span.blocks, arena, keys);
        Ok(next)
    }

    /// The key of a block, if it has one.
    #[inline]
    pub(super) fn key(&self, block: u64, arena: &Arena) -> Option<u32> {
        if self.entries.is_empty() {
            return None;
        }
        let entry = self.entries[self.place_of(block / CHUNK_BLOCKS)];
        let bit = 1_u32 << (block % CHUNK_BLOCKS);
        if entry.seen & bit == 0 {
            return None;
        }
        let place = entry.key_or_place(bit);
        if entry.tag >> TAG_BITS == 0 {
            Some(place)
        } else {
            arena.keys.get(place as usize).copied()
        }
    }

    /// Appends the keys of those blocks of a span that have one.
    pub(super) fn known(&self, span: Span, arena: &Arena, keys: &mut Vec<u32>) {
        if self.entries.is_empty() {
            return;
        }
        let entry = self.entries[self.place_of(span.chunk)];
        let mut seen = span.blocks & entry.seen;
        while seen != 0 {
            let block = seen & seen.wrapping_neg();
            emit(entry, block, arena, keys);
            seen &= seen - 1;
        }
    }

    /// The chunks that have blocks with keys, each as its lowest block's number.
    pub(super) fn chunk_count(&self) -> usize {
        self.used
    }

    /// Every chunk from `first` to `last` with a block seen, by walking what is less: them or the table.
    pub(super) fn seen_within(&self, first: u64, last: u64) -> Vec<u64> {
        let mut chunks: Vec<u64> = self
            .entries
            .iter()
            .filter(|entry| entry.tag != 0)
            .map(|entry| (entry.tag & TAG_MASK) - 1)
            .filter(|chunk| (first..=last).contains(chunk))
            .collect();
        chunks.sort_unstable();
        chunks
    }

    /// Calls `visit` with every block that has a key, and its key.
    pub(super) fn each(&self, arena: &Arena, mut visit: impl FnMut(u64, u32)) {
        let mut keys = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.tag != 0) {
            let chunk = (entry.tag & TAG_MASK) - 1;
            let mut seen = entry.seen;
            while seen != 0 {
                keys.clear();
                emit(*entry, seen & seen.wrapping_neg(), arena, &mut keys);
                visit(
                    chunk * CHUNK_BLOCKS + u64::from(seen.trailing_zeros()),
                    keys[0],
                );
                seen &= seen - 1;
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    #[inline]
    fn find_or_insert(&mut self, chunk: u64) -> usize {
        if self.used * 8 >= self.entries.len() * 7 {
            self.grow();
        }
        let place = self.place_of(chunk);
        let entry = &mut self.entries[place];
        if entry.tag == 0 {
            entry.tag = chunk + 1;
            self.used += 1;
        }
        place
    }

    /// The entry of a chunk, or the empty one where it belongs. The table is never empty or full.
    #[inline]
    fn place_of(&self, chunk: u64) -> usize {
        let mask = self.entries.len() - 1;
        let mut place = home(chunk, self.entries.len());
        loop {
            let tag = self.entries[place].tag;
            if tag & TAG_MASK == chunk + 1 || tag == 0 {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.entries.len() * 2).max(16);
        let old = std::mem::replace(&mut self.entries, vec![Entry::default(); size]);
        for entry in old.into_iter().filter(|entry| entry.tag != 0) {
            let place = self.place_of((entry.tag & TAG_MASK) - 1);
            self.entries[place] = entry;
        }
    }
}

/// Where a chunk is looked for first in a table of that size, a power of two.
#[inline]
fn home(chunk: u64, size: usize) -> usize {
    // Multiplying by 2^64 divided by the golden ratio spreads neighbours; the upper bits are the good ones.
    let hash = chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(hash >> (64 - size.trailing_zeros())).expect("less than the size")
}

/// True if `new` blocks, numbered from `next`, carry on a chunk's consecutive keys.
#[inline]
fn continues(entry: Entry, new: u32, next: u32) -> bool {
    let above = entry.seen.leading_zeros();
    new.trailing_zeros() >= u32::BITS - above && entry.first + entry.count() == next
}

/// Appends the keys of `blocks`, which are neighbours that the chunk has seen.
#[inline]
fn emit(entry: Entry, blocks: u32, arena: &Arena, keys: &mut Vec<u32>) {
    let count = blocks.count_ones();
    let first = entry.key_or_place(blocks & blocks.wrapping_neg());
    if entry.tag >> TAG_BITS == 0 {
        keys.extend(first..first + count);
    } else {
        keys.extend_from_slice(arena.slice(first, count));
    }
}

/// A chunk's entry with its keys in the arena, `new` blocks added and numbered from `next`.
fn rebuild(entry: Entry, new: u32, next: u32, arena: &mut Arena) -> Result<Entry, Full> {
    let mut old = [0; u32::BITS as usize];
    let had = entry.count();
    let old = &mut old[..had as usize];
    match entry.class() {
        None => old
            .iter_mut()
            .zip(entry.first..)
            .for_each(|(to, key)| *to = key),
        Some(_) => old.copy_from_slice(arena.slice(entry.first, had)),
    }
    let seen = entry.seen | new;
    let class = Arena::class_for(seen.count_ones());
    let place = match entry.class() {
        Some(same) if same == class => entry.first,
        other => {
            let place = arena.allocate(class)?;
            if let Some(smaller) = other {
                arena.release(smaller, entry.first);
            }
            place
        }
    };
    let mut old = old.iter();
    let mut fresh = next..;
    let mut left = seen;
    for to in arena.slice_mut(place, seen.count_ones()) {
        let block = left & left.wrapping_neg();
        *to = if new & block == 0 {
            *old.next().expect("one key a block that was seen")
        } else {
            fresh.next().expect("keys end before 32 bits do")
        };
        left &= left - 1;
    }
    Ok(Entry {
        tag: (entry.tag & TAG_MASK) | ((class as u64 + 1) << TAG_BITS),
        seen,
        first: place,
    })
}
