//! One cache line of the index: nine entries of 56 bits.

use zerocopy::FromZeros;

/// Entries a bucket.
pub(super) const WAYS: usize = 9;

/// Bytes an entry.
const ENTRY_BYTES: usize = 7;

/// Bits an entry.
pub(super) const ENTRY_BITS: u32 = 56;

const ENTRY_MASK: u64 = (1 << ENTRY_BITS) - 1;

const BUCKET_BYTES: usize = 64;

// An entry is read as eight bytes; the last one must not read beyond the bucket.
const _: () = assert!((WAYS - 1) * ENTRY_BYTES + size_of::<u64>() <= BUCKET_BYTES);

/// What a place in a bucket holds; its fields are [`super::geometry::Geometry`]'s business.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Entry {
    pub(super) const EMPTY: Self = Self(0);

    pub(super) const fn from_bits(bits: u64) -> Self {
        assert!(bits <= ENTRY_MASK, "an entry fits in its place");
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[derive(FromZeros)]
#[repr(C, align(64))]
pub(super) struct Bucket([u8; BUCKET_BYTES]);

const _: () = assert!(size_of::<Bucket>() == BUCKET_BYTES);

impl Bucket {
    #[inline]
    fn bits(&self, way: usize) -> u64 {
        let bytes = self.0[way * ENTRY_BYTES..]
            .first_chunk()
            .expect("an entry and the byte after it lie in the bucket");
        u64::from_le_bytes(*bytes) & ENTRY_MASK
    }

    #[inline]
    pub(super) fn load(&self, way: usize) -> Entry {
        Entry(self.bits(way))
    }

    #[inline]
    pub(super) fn store(&mut self, way: usize, entry: Entry) {
        let start = way * ENTRY_BYTES;
        self.0[start..start + ENTRY_BYTES]
            .copy_from_slice(&entry.bits().to_le_bytes()[..ENTRY_BYTES]);
    }

    /// The places whose entries have these bits from `shift` upwards, as a mask; `tag` is not
    /// zero.
    #[inline]
    pub(super) fn matches(&self, tag: u64, shift: u32) -> u32 {
        (0..WAYS).fold(0, |mask, way| {
            mask | u32::from(self.bits(way) >> shift == tag) << way
        })
    }

    /// The empty places, as a mask.
    #[inline]
    pub(super) fn free(&self) -> u32 {
        (0..WAYS).fold(0, |mask, way| mask | u32::from(self.bits(way) == 0) << way)
    }

    /// A byte of the bucket, to bring its cache line near.
    #[inline]
    pub(super) fn first_byte(&self) -> u8 {
        self.0[0]
    }
}
