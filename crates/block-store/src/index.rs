//! Where each cached block lies on flash: an exact hash index of 7.6 bytes a block.
//!
//! A wrong hit is corruption, so the index never trusts a fingerprint. The key (disk and block,
//! 46 bits) is mixed by a bijection and split by division: the quotient is stored, the
//! remainder of the division is the bucket number and need not be. What is stored therefore
//! names the key completely, and the key can be read back from any entry.
//!
//! ```text
//! key = disk 10 bits | block 36 bits          hash = mix(key), a bijection on 46 bits
//! home bucket   = hash mod B                  quotient = hash div B
//! second bucket = (f(quotient) - home) mod B  (the same formula leads back)
//!
//! bucket, 64 bytes, one cache line:  9 entries of 7 bytes | counts 1 byte
//! entry, 56 bits:  quotient + 1 | second? | mark 4 bits | flash slot    all zero = empty
//! ```
//!
//! An entry lies in its home bucket if there is room when it arrives, else in its second, where
//! it is a *stray* that its home counts: a home without strays answers alone, so that most
//! lookups touch one cache line. When both are full, others are moved to their other bucket
//! along the shortest path to a free place. With nine places a
//! bucket that works beyond 99 % load; the table is sized so that a full cache stands at 94 %
//! ([`LOAD_PERCENT_MAX`]). When no short path exists, [`Full`] says so and nothing is changed:
//! the caller leaves that block uncached. The seed keeps a guest from choosing such blocks.
//!
//! Invariants: a key has at most one entry; an entry is in one of its two buckets; a bucket
//! counts its entries and its strays (up to 14 strays; beyond, it only knows that there are some); slot 0 is never
//! stored. [`Index::self_check`] verifies them.
//!
//! Pure and safe: no clock, no dice, no unsafe. Recovery inserts in batches
//! ([`Index::insert_batch`]) so that memory latencies overlap.

mod bucket;
mod displace;
mod geometry;
mod log;
#[cfg(test)]
mod tests;

use bucket::{Bucket, Entry, ROOMY_MAX, STRAYS_MANY, WAYS};
use displace::Displacement;
use geometry::{Address, Geometry, Home};
pub use segment_log::{Full, Located, Marked};
use std::hint::black_box;
use units::{BlockIndex, DiskSlot, FlashSlot};
use zerocopy::FromZeros;

/// The share of its places that a full cache takes, in percent. Far enough below the threshold
/// of two choices and nine places (above 99 %) that an insertion rarely moves more than one
/// entry.
pub const LOAD_PERCENT_MAX: u64 = 94;

/// Fewest buckets: keeps the odds of a full pair negligible in the tiny caches of tests.
const BUCKETS_MIN: u64 = 4;

/// Keys whose buckets [`Index::insert_batch`] touches before it inserts the first of them: twice as
/// many cache misses as a core keeps in flight.
const BATCH_KEYS: usize = 64;

/// What [`Index::sweep`] does with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Leave it.
    Keep,
    /// Remove it.
    Remove,
}

/// The index of one cache. See the module's header.
pub struct Index {
    buckets: Box<[Bucket]>,
    geometry: Geometry,
    displacement: Displacement,
    len: usize,
    /// Buckets below this one have been seen by the sweep under way; 0 if none is.
    swept: usize,
}

impl Index {
    /// An empty index for blocks in flash slots `1..=slots`. The seed is the cache's secret: it
    /// decides which blocks share buckets.
    ///
    /// # Panics
    /// If memory for it cannot be had (`slots` x 7.6 bytes).
    pub fn new(slots: u32, seed: u64) -> Self {
        Self::for_blocks(slots, slots, seed)
    }

    /// The same where not every slot can hold a block, with room for so many blocks: 7.6 bytes each.
    ///
    /// # Panics
    /// If memory for it cannot be had, or the blocks are fewer than half the slots.
    pub fn for_blocks(blocks: u32, slots: u32, seed: u64) -> Self {
        assert!(blocks >= slots / 2, "most slots hold a block");
        let places_percent = u64::from(blocks) * 100;
        let buckets = places_percent
            .div_ceil(WAYS as u64 * LOAD_PERCENT_MAX)
            .max(BUCKETS_MIN);
        let geometry = Geometry::new(buckets, slots, seed);
        let count = usize::try_from(buckets).expect("a bucket count fits in memory");
        Self {
            buckets: <[Bucket]>::new_box_zeroed_with_elems(count).expect("memory for the index"),
            geometry,
            displacement: Displacement::default(),
            len: 0,
            swept: 0,
        }
    }

    /// Blocks in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no block is in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Places in it. A full cache takes [`LOAD_PERCENT_MAX`] percent of them.
    pub fn capacity(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// Memory that it holds, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.buckets) + self.displacement.bytes()
    }

    /// Where a block lies, if it is cached.
    #[inline]
    pub fn get(&self, disk: DiskSlot, block: BlockIndex) -> Option<FlashSlot> {
        let address = self.geometry.address(disk, block);
        self.lookup(&address)
            .map(|(_, _, entry)| self.geometry.slot(entry))
    }

    /// Where a block lies, and its mark, if it is cached.
    #[inline]
    pub fn find(&self, disk: DiskSlot, block: BlockIndex) -> Option<Marked> {
        let address = self.geometry.address(disk, block);
        let (_, _, entry) = self.lookup(&address)?;
        Some(self.marked(entry))
    }

    /// Says where a cached block lies and how it is marked, given what was said last, which is
    /// returned; `None` if the block is not cached. Never fails for lack of room.
    ///
    /// # Panics
    /// If the new slot is above the count that the index was made for.
    #[inline]
    pub fn change(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        change: impl FnOnce(Marked) -> Marked,
    ) -> Option<Marked> {
        let address = self.geometry.address(disk, block);
        let (bucket, way, entry) = self.lookup(&address)?;
        let before = self.marked(entry);
        let after = change(before);
        // A block that is hit often keeps its mark: writing only on a change keeps its cache line
        // clean.
        if after != before {
            self.buckets[bucket].store(way, self.geometry.with(entry, after));
        }
        Some(before)
    }

    #[inline]
    fn marked(&self, entry: Entry) -> Marked {
        Marked {
            slot: self.geometry.slot(entry),
            mark: self.geometry.mark(entry),
        }
    }

    /// Says where a block lies and how it is marked. Returns what was said before, if it was cached.
    ///
    /// # Errors
    /// [`Full`] if the block is new and no place was found for it; nothing is changed.
    ///
    /// # Panics
    /// If the slot is above the count that the index was made for.
    pub fn insert(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        marked: Marked,
    ) -> Result<Option<Marked>, Full> {
        let address = self.geometry.address(disk, block);
        self.insert_at(&address, marked)
    }

    /// [`Index::insert`] for many blocks, with mark 0, those of the same name in their order; `each` gets
    /// each one's position in `blocks` and its result. Faster than one by one when the index is larger
    /// than the processor's caches.
    ///
    /// # Panics
    /// If a slot is above the count that the index was made for.
    pub fn insert_batch(
        &mut self,
        blocks: &[Located],
        mut each: impl FnMut(usize, Result<Option<Marked>, Full>),
    ) {
        let mut homes = [Home::default(); BATCH_KEYS];
        let (mut roomy, mut crowded) = ([0; BATCH_KEYS], [0; BATCH_KEYS]);
        let mut addresses = [Address::default(); BATCH_KEYS];
        for (batch_number, batch) in blocks.chunks(BATCH_KEYS).enumerate() {
            let before = batch_number * BATCH_KEYS;
            let marked = |number: usize| Marked {
                slot: batch[number].slot,
                mark: 0,
            };
            let homes = &mut homes[..batch.len()];
            for (home, located) in homes.iter_mut().zip(batch) {
                *home = self.geometry.home(located.disk, located.block);
            }
            self.touch_all(homes.iter().map(|home| home.bucket));
            // Sorted without a branch: which is which nobody can foretell. Blocks of the same name are on the same
            // side, so they stay in order.
            let (mut roomy_count, mut crowded_count) = (0, 0);
            for (number, home) in homes.iter().enumerate() {
                let is_roomy = self.buckets[home.bucket].is_roomy();
                roomy[roomy_count] = number;
                crowded[crowded_count] = number;
                roomy_count += usize::from(is_roomy);
                crowded_count += usize::from(!is_roomy);
            }
            for number in roomy[..roomy_count].iter().copied() {
                let result = self.insert_at_home(&homes[number], marked(number));
                each(before + number, result);
            }
            let crowded = &crowded[..crowded_count];
            for (address, number) in addresses.iter_mut().zip(crowded) {
                *address = self.geometry.both(&homes[*number]);
            }
            let addresses = &addresses[..crowded_count];
            self.touch_all(addresses.iter().map(|address| address.second));
            for (address, number) in addresses.iter().zip(crowded.iter().copied()) {
                let result = self.insert_at(address, marked(number));
                each(before + number, result);
            }
        }
    }

    /// [`Index::insert`] of a block whose home was roomy a moment ago.
    #[inline]
    fn insert_at_home(&mut self, home: &Home, marked: Marked) -> Result<Option<Marked>, Full> {
        let bucket = &mut self.buckets[home.bucket];
        if !bucket.is_roomy() {
            return self.insert_at(&self.geometry.both(home), marked);
        }
        let matches = bucket.matches_if_roomy(home.tag, self.geometry.tag_shift());
        if matches != 0 {
            return self.insert_at(&self.geometry.both(home), marked);
        }
        bucket.push(self.geometry.entry(home.tag, marked));
        self.len += 1;
        Ok(None)
    }

    /// Brings buckets near. Nothing but loads that do not depend on each other, so that the
    /// processor has as many misses under way as it can.
    #[inline(never)]
    fn touch_all(&self, buckets: impl Iterator<Item = usize>) {
        let touched = buckets.fold(0, |sum, bucket| sum ^ self.buckets[bucket].counts());
        black_box(touched);
    }

    /// Forgets a block. Returns where it lay and its mark, if it was cached.
    pub fn remove(&mut self, disk: DiskSlot, block: BlockIndex) -> Option<Marked> {
        let address = self.geometry.address(disk, block);
        let (bucket, way, entry) = self.lookup(&address)?;
        self.clear(bucket, way);
        Some(self.marked(entry))
    }

    /// Forgets a block if it lies in this slot. Returns its place and mark if it did.
    pub fn remove_if(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        slot: FlashSlot,
    ) -> Option<Marked> {
        let address = self.geometry.address(disk, block);
        let (bucket, way, entry) = self.lookup(&address)?;
        let marked = self.marked(entry);
        if marked.slot != slot {
            return None;
        }
        self.clear(bucket, way);
        Some(marked)
    }

    /// Visits the entries of the next `buckets` buckets and removes those that `each` says.
    /// True when the sweep has come to the end; the next call then begins another.
    ///
    /// Every entry that is in the index from the first call of a sweep to its last is visited at
    /// least once, whatever is inserted and moved in between. One sweep runs at a time.
    pub fn sweep(&mut self, buckets: usize, mut each: impl FnMut(Located) -> Sweep) -> bool {
        self.sweep_marked(buckets, |located, _| each(located))
    }

    /// [`Index::sweep`], with the mark of each block.
    fn sweep_marked(
        &mut self,
        buckets: usize,
        mut each: impl FnMut(Located, Marked) -> Sweep,
    ) -> bool {
        let end = self.swept.saturating_add(buckets).min(self.buckets.len());
        for number in self.swept..end {
            let mut way = 0;
            while way < self.buckets[number].len() {
                let entry = self.buckets[number].load(way);
                match each(self.located(number, entry), self.marked(entry)) {
                    Sweep::Keep => way += 1,
                    // The last entry takes its place and is looked at next.
                    Sweep::Remove => self.clear(number, way),
                }
            }
        }
        let done = end == self.buckets.len();
        self.swept = if done { 0 } else { end };
        done
    }

    /// Makes the next [`Index::sweep`] begin at the first bucket.
    pub fn restart_sweep(&mut self) {
        self.swept = 0;
    }

    /// Buckets that a whole sweep visits.
    pub fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Every cached block, in the order of the buckets.
    pub fn iter(&self) -> impl Iterator<Item = Located> + '_ {
        self.buckets
            .iter()
            .enumerate()
            .flat_map(move |(number, bucket)| {
                (0..bucket.len()).map(move |way| self.located(number, bucket.load(way)))
            })
    }

    /// Every cached block's place and mark, in the order of the buckets.
    fn iter_marked(&self) -> impl Iterator<Item = Marked> + '_ {
        self.buckets
            .iter()
            .flat_map(move |bucket| (0..bucket.len()).map(move |way| self.marked(bucket.load(way))))
    }

    /// Verifies the invariants of the module's header; takes as long as a few lookups for each
    /// entry.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn self_check(&self) {
        let mut count = 0;
        let mut strays = vec![0_u32; self.buckets.len()];
        for (number, bucket) in self.buckets.iter().enumerate() {
            assert!(
                (0..WAYS).all(|way| bucket.load(way).is_empty() == (way >= bucket.len())),
                "entries lie in the first places of a bucket"
            );
            for way in 0..bucket.len() {
                let entry = bucket.load(way);
                count += 1;
                let located = self.located(number, entry);
                let address = self.geometry.address(located.disk, located.block);
                assert!(
                    number == address.home || number == address.second,
                    "an entry lies in one of its two buckets"
                );
                strays[address.home] += u32::from(self.geometry.is_stray(entry));
                assert_eq!(
                    self.lookup(&address).map(|(at, way, _)| (at, way)),
                    Some((number, way)),
                    "a key has one entry, and it is found"
                );
            }
        }
        assert_eq!(count, self.len, "the count of entries is kept");
        for (bucket, strays) in self.buckets.iter().zip(strays) {
            let counted = bucket.strays();
            assert!(
                counted == STRAYS_MANY || u32::from(counted) == strays,
                "a bucket counts its strays"
            );
        }
    }

    /// The bucket and place of a key, and what is there.
    #[inline]
    fn lookup(&self, address: &Address) -> Option<(usize, usize, Entry)> {
        let shift = self.geometry.tag_shift();
        let home = &self.buckets[address.home];
        let matches = home.matches(address.home_tag, shift);
        if matches != 0 {
            let way = matches.trailing_zeros() as usize;
            return Some((address.home, way, home.load(way)));
        }
        if home.strays() == 0 {
            return None;
        }
        let second = &self.buckets[address.second];
        let matches = second.matches(address.second_tag, shift);
        let way = (matches != 0).then_some(matches.trailing_zeros() as usize)?;
        Some((address.second, way, second.load(way)))
    }

    #[inline]
    fn insert_at(&mut self, address: &Address, marked: Marked) -> Result<Option<Marked>, Full> {
        if let Some((bucket, way, entry)) = self.lookup(address) {
            self.buckets[bucket].store(way, self.geometry.with(entry, marked));
            return Ok(Some(self.marked(entry)));
        }
        let mut at_home = self.buckets[address.home].len();
        let mut at_second = WAYS;
        if at_home > ROOMY_MAX {
            at_second = self.buckets[address.second].len();
            if at_home.min(at_second) == WAYS {
                self.displacement
                    .free_a_place(&mut self.buckets, &self.geometry, address, self.swept)
                    .ok_or(Full)?;
                at_home = self.buckets[address.home].len();
                at_second = self.buckets[address.second].len();
            }
        }
        if at_home <= at_second {
            self.buckets[address.home].push(self.geometry.entry(address.home_tag, marked));
        } else {
            self.buckets[address.second].push(self.geometry.entry(address.second_tag, marked));
            self.buckets[address.home].add_stray();
        }
        self.len += 1;
        Ok(None)
    }

    fn clear(&mut self, bucket: usize, way: usize) {
        let entry = self.buckets[bucket].load(way);
        self.buckets[bucket].remove(way);
        if self.geometry.is_stray(entry) {
            let (home, _) = self.geometry.elsewhere(bucket, entry);
            self.buckets[home].remove_stray();
        }
        self.len -= 1;
    }

    fn located(&self, bucket: usize, entry: Entry) -> Located {
        let (disk, block) = self.geometry.key(bucket, entry);
        Located {
            disk,
            block,
            slot: self.geometry.slot(entry),
        }
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({} of {})", self.len, self.capacity())
    }
}
