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

/// The byte that counts: entries in its low half, strays in its high half.
const COUNTS: usize = BUCKET_BYTES - 1;
const LEN_MASK: u8 = 0x0f;
/// Most entries of a bucket that takes a newcomer without a look at its second one.
pub(super) const ROOMY_MAX: usize = 5;
/// Strays beyond which a bucket only knows that there are some.
pub(super) const STRAYS_MANY: u8 = 0x0f;

const _: () = assert!(COUNTS >= WAYS * ENTRY_BYTES);
const _: () = assert!(WAYS <= LEN_MASK as usize);

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
    /// An entry, below a byte that is not its own.
    #[inline]
    fn word(&self, way: usize) -> u64 {
        let bytes = self.0[way * ENTRY_BYTES..]
            .first_chunk()
            .expect("an entry and the byte after it lie in the bucket");
        u64::from_le_bytes(*bytes)
    }

    #[inline]
    fn bits(&self, way: usize) -> u64 {
        self.word(way) & ENTRY_MASK
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
        self.matches_among::<WAYS>(tag, shift)
    }

    /// [`Bucket::matches`] of a bucket that is roomy.
    #[inline]
    pub(super) fn matches_if_roomy(&self, tag: u64, shift: u32) -> u32 {
        self.matches_among::<ROOMY_MAX>(tag, shift)
    }

    #[inline]
    fn matches_among<const PLACES: usize>(&self, tag: u64, shift: u32) -> u32 {
        // The byte above an entry is not its own.
        let wanted = tag << shift;
        let counted = ENTRY_MASK >> shift << shift;
        (0..PLACES).fold(0, |mask, way| {
            let difference = (self.word(way) ^ wanted) & counted;
            mask | u32::from(difference == 0) << way
        })
    }

    /// Whether it has room and none of the keys at home here is elsewhere: it alone says whether such a key is
    /// cached, and takes it if not.
    #[inline]
    pub(super) fn is_roomy(&self) -> bool {
        // Strays are counted in the high half.
        usize::from(self.0[COUNTS]) <= ROOMY_MAX
    }

    /// Entries in it; they lie in the first places.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.0[COUNTS] & LEN_MASK)
    }

    /// Puts an entry behind the others.
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        let len = self.len();
        assert!(len < WAYS, "the bucket was chosen because it has room");
        self.store(len, entry);
        self.0[COUNTS] += 1;
    }

    /// Takes an entry out; the last one takes its place.
    pub(super) fn remove(&mut self, way: usize) {
        let last = self.len() - 1;
        let entry = self.load(last);
        self.store(way, entry);
        self.store(last, Entry::EMPTY);
        self.0[COUNTS] -= 1;
    }

    /// Keys at home here whose entries are elsewhere; [`STRAYS_MANY`] stands for that many or
    /// more.
    #[inline]
    pub(super) fn strays(&self) -> u8 {
        self.0[COUNTS] >> 4
    }

    /// One more key at home here has its entry elsewhere.
    pub(super) fn add_stray(&mut self) {
        if self.strays() < STRAYS_MANY {
            self.0[COUNTS] += 1 << 4;
        }
    }

    /// One of them has come home or is gone.
    pub(super) fn remove_stray(&mut self) {
        assert_ne!(self.strays(), 0, "a stray was counted");
        // Once there were too many to count, there are some for ever.
        if self.strays() < STRAYS_MANY {
            self.0[COUNTS] -= 1 << 4;
        }
    }

    /// Something of the bucket, to bring its cache line near.
    #[inline]
    pub(super) fn counts(&self) -> u8 {
        self.0[COUNTS]
    }
}
