//! How keys become buckets and entries, and back.

use super::bucket::{ENTRY_BITS, Entry};
use segment_log::{MARKS, Marked};
use units::{BlockIndex, DiskSlot, FlashSlot, Prng};

/// Bits of a key: disk slot above block number.
const KEY_BITS: u32 = BlockIndex::BITS + DiskSlot::COUNT.ilog2();
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;
/// Bits of a mark.
const MARK_BITS: u32 = MARKS.ilog2();
/// Half of the key's bits: `x ^ (x >> HALF)` is then its own inverse.
const HALF: u32 = KEY_BITS / 2;

const _: () = assert!(DiskSlot::COUNT.is_power_of_two());
const _: () = assert!(KEY_BITS.is_multiple_of(2));

/// Where a key may lie, and the bits of an entry that prove it does.
#[derive(Clone, Copy, Default)]
pub(super) struct Address {
    pub(super) home: usize,
    pub(super) second: usize,
    pub(super) home_tag: u64,
    pub(super) second_tag: u64,
}

/// The first half of an [`Address`].
#[derive(Clone, Copy, Default)]
pub(super) struct Home {
    pub(super) bucket: usize,
    pub(super) tag: u64,
}

/// The index's arithmetic: everything that depends on its size and seed.
pub(super) struct Geometry {
    buckets: u64,
    /// `floor((2^64 - 1) / buckets)`: division by multiplication.
    reciprocal: u64,
    multipliers: [u64; 2],
    /// The inverses of the multipliers modulo `2^KEY_BITS`.
    inverses: [u64; 2],
    slots: u32,
    slot_bits: u32,
}

impl Geometry {
    /// # Panics
    /// If an entry would not fit in its bits. It always does while a bucket holds a fixed number
    /// of slots: what the quotient loses to more buckets, the slot needs.
    pub(super) fn new(buckets: u64, slots: u32, seed: u64) -> Self {
        assert!(buckets > 0, "an index has buckets");
        assert!(
            u32::try_from(buckets).is_ok(),
            "a bucket number fits in 32 bits"
        );
        let mut dice = Prng::new(seed);
        let multipliers = [dice.u64() | 1, dice.u64() | 1];
        let slot_bits = u32::BITS - slots.leading_zeros();
        let tag_max = ((KEY_MASK / buckets + 1) << 1) | 1;
        let tag_bits = u64::BITS - tag_max.leading_zeros();
        assert!(
            tag_bits + MARK_BITS + slot_bits <= ENTRY_BITS,
            "quotient, mark and slot fit in an entry"
        );
        Self {
            buckets,
            reciprocal: u64::MAX / buckets,
            multipliers,
            inverses: multipliers.map(inverse_of_odd),
            slots,
            slot_bits,
        }
    }

    #[inline]
    pub(super) fn address(&self, disk: DiskSlot, block: BlockIndex) -> Address {
        self.both(&self.home(disk, block))
    }

    /// Where a key lies if there is room.
    #[inline]
    pub(super) fn home(&self, disk: DiskSlot, block: BlockIndex) -> Home {
        let hash = self.mix(u64::from(disk.get()) << BlockIndex::BITS | block.get());
        let (quotient, home) = self.divide(hash);
        Home {
            bucket: in_memory(home),
            tag: (quotient + 1) << 1,
        }
    }

    /// Where a key may lie, from its home.
    #[inline]
    pub(super) fn both(&self, home: &Home) -> Address {
        let quotient = (home.tag >> 1) - 1;
        Address {
            home: home.bucket,
            second: in_memory(self.partner(home.bucket as u64, quotient)),
            home_tag: home.tag,
            second_tag: home.tag | 1,
        }
    }

    /// Whose entry this is, given the bucket it lies in.
    pub(super) fn key(&self, bucket: usize, entry: Entry) -> (DiskSlot, BlockIndex) {
        let tag = entry.bits() >> self.tag_shift();
        let quotient = (tag >> 1) - 1;
        let home = if tag & 1 == 0 {
            bucket as u64
        } else {
            self.partner(bucket as u64, quotient)
        };
        let key = self.unmix(quotient * self.buckets + home);
        let disk = u16::try_from(key >> BlockIndex::BITS).expect("a disk slot has 10 bits");
        let block = key & ((1 << BlockIndex::BITS) - 1);
        (DiskSlot::new(disk), BlockIndex::new(block))
    }

    /// Whether an entry lies in its second bucket.
    #[inline]
    pub(super) fn is_stray(&self, entry: Entry) -> bool {
        entry.bits() & (1 << self.tag_shift()) != 0
    }

    /// The other bucket in which this entry may lie, and the entry as it is written there.
    pub(super) fn elsewhere(&self, bucket: usize, entry: Entry) -> (usize, Entry) {
        let tag = entry.bits() >> self.tag_shift();
        let other = self.partner(bucket as u64, (tag >> 1) - 1);
        let flipped = Entry::from_bits(entry.bits() ^ (1 << self.tag_shift()));
        (in_memory(other), flipped)
    }

    /// # Panics
    /// If the slot or the mark is too large.
    #[inline]
    pub(super) fn entry(&self, tag: u64, marked: Marked) -> Entry {
        self.bits(tag << self.tag_shift(), marked)
    }

    #[inline]
    pub(super) fn slot(&self, entry: Entry) -> FlashSlot {
        let slot = u32::try_from(entry.bits() & self.slot_mask()).expect("a slot has 32 bits");
        FlashSlot::new(slot)
    }

    #[inline]
    pub(super) fn mark(&self, entry: Entry) -> u8 {
        let mark = (entry.bits() >> self.slot_bits) & u64::from(MARKS - 1);
        u8::try_from(mark).expect("a mark has four bits")
    }

    /// # Panics
    /// If the slot or the mark is too large.
    #[inline]
    pub(super) fn with(&self, entry: Entry, marked: Marked) -> Entry {
        let tag = entry.bits() >> self.tag_shift() << self.tag_shift();
        self.bits(tag, marked)
    }

    #[inline]
    fn bits(&self, tag: u64, marked: Marked) -> Entry {
        self.assert_slot(marked.slot);
        assert!(marked.mark < MARKS, "a mark has four bits");
        let mark = u64::from(marked.mark) << self.slot_bits;
        Entry::from_bits(tag | mark | u64::from(marked.slot.get()))
    }

    /// The lowest bit of an entry's quotient and choice.
    #[inline]
    pub(super) fn tag_shift(&self) -> u32 {
        self.slot_bits + MARK_BITS
    }

    #[inline]
    fn slot_mask(&self) -> u64 {
        (1 << self.slot_bits) - 1
    }

    fn assert_slot(&self, slot: FlashSlot) {
        assert!(
            slot.get() <= self.slots,
            "the slot is one that the index was made for"
        );
    }

    /// `(hash / buckets, hash % buckets)`.
    #[inline]
    fn divide(&self, hash: u64) -> (u64, u64) {
        // The estimate is at most one too small: hash < 2^46 makes the reciprocal's error
        // less than 2^-17 of a quotient.
        let estimate = high_half(hash, self.reciprocal);
        let rest = hash - estimate * self.buckets;
        if rest >= self.buckets {
            (estimate + 1, rest - self.buckets)
        } else {
            (estimate, rest)
        }
    }

    /// The second bucket of a key from its first, and the first from its second.
    #[inline]
    fn partner(&self, bucket: u64, quotient: u64) -> u64 {
        let scrambled = quotient.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let scrambled = (scrambled ^ scrambled >> 32).wrapping_mul(self.multipliers[0]);
        let sum = high_half(scrambled, self.buckets);
        if sum >= bucket {
            sum - bucket
        } else {
            sum + self.buckets - bucket
        }
    }

    #[inline]
    fn mix(&self, key: u64) -> u64 {
        let mut x = key ^ key >> HALF;
        for multiplier in self.multipliers {
            x = x.wrapping_mul(multiplier) & KEY_MASK;
            x ^= x >> HALF;
        }
        x
    }

    fn unmix(&self, hash: u64) -> u64 {
        let mut x = hash ^ hash >> HALF;
        for inverse in self.inverses.iter().rev() {
            x = x.wrapping_mul(*inverse) & KEY_MASK;
            x ^= x >> HALF;
        }
        x
    }
}

/// The upper 64 bits of a product.
#[inline]
fn high_half(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 64).expect("the high half fits")
}

/// The number that undoes a multiplication by `odd` modulo `2^64`, so modulo `2^KEY_BITS` too.
fn inverse_of_odd(odd: u64) -> u64 {
    // Newton: each step doubles the correct low bits; `odd` is its own inverse modulo 8.
    let inverse = (0..5).fold(odd, |x, _| {
        x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)))
    });
    assert_eq!(odd.wrapping_mul(inverse), 1, "an odd number has an inverse");
    inverse
}

/// A bucket number as an array index.
#[inline]
fn in_memory(bucket: u64) -> usize {
    usize::try_from(bucket).expect("a bucket number indexes memory")
}
