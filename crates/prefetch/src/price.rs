//! What guesses may waste: one bucket a VM.
//!
//! ```text
//!              + 0.10 for each demanded block                       threshold
//!                      │                                      1 ┤ refuse ╱
//!                ┌─────▼─────┐ ◄─ never above `bucket`          │      ╱
//!                │   level   │                                  │    ╱
//!                └─────┬─────┘                            least ┤──╱   fetch
//!                      ▼                                        └────────────────
//!         - 1 for each block that leaves unused                  full ──► nothing free
//!
//!   free = level - what is expected to be wasted of the outstanding blocks
//! ```
//!
//! A guess is fetched if the measured precision of its kind is at or above a threshold, which rises as the bucket
//! runs out, and as the room for what is outstanding does: the scarcer of the two counts. A *kind* is a miner and how sure it said that it is, in eighths: a miner that is right half of the time
//! has guesses that are nearly always right, and the bucket goes to those. At a given price the rule is the best
//! there is: of guesses that waste the same, those with the highest precision bring the most hits.
//!
//! - Nothing is charged when it is fetched: a long window would be starved by its own first half.
//! - No miner has a part of its own: the poor ones would waste theirs. None is served first: the poor ones
//!   would waste the others'.
//! - A refused guess is remembered as an address and measured all the same (`ghosts`), so that a miner whose
//!   guesses become good is heard again.
//! - At most half of memory is outstanding. What is fetched beyond pushes out what was fetched before it was read:
//!   on P6, in 1 MiB, VIP alone has .47 of the reads without this limit and .56 with it. The room has its price too,
//!   or the miner that is asked first fills it (P6, 8 MiB: all three together .516 of the reads; VIP alone .549).
//!
//! **What it promises**, whatever miners and guests do, over any span: blocks wasted <= `waste` x blocks demanded +
//! `bucket` + the most that were outstanding at a time. For nothing is fetched at a level of zero or below, where the
//! threshold is one and no measured precision is; what is wasted below was outstanding when the level got there.
//!
//! Pure. Units: blocks; the level is in millionths of a block. Who drives it: the owner of the memory, which keeps
//! a [`Label`] with each block that it fetched and says what became of it.

mod ghosts;
mod precision;

use ghosts::Ghosts;
use policy::replacement::Fraction;
use precision::Precision;
use units::{BlockIndex, Bytes};

/// Kinds of guesses of a miner: eighths of confidence.
const CLASSES: usize = 8;

const CLASS_MILLIONTHS: u32 = 125_000;

/// Miners of a VM at most.
pub const MINERS_MAX: usize = 16;

/// The threshold while the bucket is full: less is not worth the origin's time.
const THRESHOLD_MIN: i64 = 50_000;

/// Blocks of a bucket, by default. With 64 a tenth of P6's hits are lost.
const BUCKET_MIN: u32 = 256;
const BUCKET_MAX: u32 = 16_384;

/// Blocks of a refused guess that are remembered.
const GHOSTS_OF_GUESS: usize = 32;

const MILLION: i64 = 1_000_000;

/// Blocks of memory for each that may be outstanding.
pub const MEMORY_OF_OUTSTANDING: u64 = 2;

/// A block of one of a VM's disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    /// The block of the disk with this number.
    pub const fn new(disk: u16, block: BlockIndex) -> Self {
        Self((disk as u64) << BlockIndex::BITS | block.get())
    }

    /// Whether the other one is the next block of the same disk.
    pub const fn is_before(self, other: Self) -> bool {
        let is_last = (self.0 + 1).is_multiple_of(1 << BlockIndex::BITS);
        self.0 + 1 == other.0 && !is_last
    }
}

/// What a VM's guesses may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Blocks that may be wasted for each that is demanded.
    pub waste: Fraction,
    /// Blocks that may be wasted beyond that.
    pub bucket: u32,
    /// Blocks that may be outstanding at a time.
    pub outstanding: u64,
    /// Refused blocks that are remembered.
    pub ghosts: u32,
    /// Demanded blocks after which one that was fetched would have left memory.
    pub life: u64,
}

impl Settings {
    /// The defaults for a memory of so many blocks: a tenth; a bucket of a quarter of memory, 1 MiB at least and
    /// 64 MiB at most, since what is outstanding grows with memory.
    pub fn of_memory(blocks: u64) -> Self {
        let bucket = u32::try_from(blocks / 4).unwrap_or(BUCKET_MAX);
        Self {
            waste: Fraction::millionths(100_000),
            bucket: bucket.clamp(BUCKET_MIN, BUCKET_MAX),
            outstanding: (blocks / MEMORY_OF_OUTSTANDING).max(1),
            ghosts: 1024,
            life: blocks,
        }
    }
}

/// Whose guess a fetched block is, and of which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(u8);

impl Label {
    fn new(miner: usize, confidence: Fraction) -> Self {
        let class = (confidence.get_millionths() / CLASS_MILLIONTHS) as usize;
        let kind = miner * CLASSES + class.min(CLASSES - 1);
        Self(u8::try_from(kind).expect("there are few miners"))
    }

    /// Whose.
    pub const fn miner(self) -> usize {
        self.0 as usize / CLASSES
    }

    /// As a number that a frame can keep: below eight times the miners.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The label that [`Self::get`] gave.
    pub const fn from_number(number: u8) -> Self {
        Self(number)
    }

    const fn kind(self) -> usize {
        self.0 as usize
    }
}

/// What becomes of a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Fetch its blocks and keep this with each.
    Fetch(Label),
    /// Fetch nothing, and tell the miner.
    Refuse,
}

/// One kind of guesses.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    precision: Precision,
    outstanding: i64,
}

impl Kind {
    /// Millionths of a block that are wasted of each.
    fn loss(&self) -> i64 {
        MILLION - i64::from(self.precision.used_part().get_millionths())
    }
}

/// The bucket of a VM.
#[derive(Clone, Debug)]
pub struct Price {
    settings: Settings,
    /// Millionths of a block.
    level: i64,
    kinds: Vec<Kind>,
    ghosts: Ghosts,
}

impl Price {
    /// A full bucket for so many miners.
    ///
    /// # Panics
    /// If there are more than [`MINERS_MAX`].
    pub fn new(settings: Settings, miners: usize) -> Self {
        assert!(miners <= MINERS_MAX, "a VM has few miners");
        Self {
            settings,
            level: i64::from(settings.bucket) * MILLION,
            kinds: vec![Kind::default(); miners * CLASSES],
            ghosts: Ghosts::new(settings.ghosts.max(2), settings.life),
        }
    }

    /// Memory has so many blocks from now on. What is outstanding stays, and what was spent of the bucket stays spent.
    pub fn set_memory(&mut self, blocks: u64) {
        let settings = Settings {
            waste: self.settings.waste,
            ..Settings::of_memory(blocks)
        };
        let grown = i64::from(settings.bucket) - i64::from(self.settings.bucket);
        self.level += grown * MILLION;
        self.ghosts.set_life(settings.life);
        self.settings = settings;
    }

    /// The guest asked for a block, wherever that was.
    pub fn demanded(&mut self, key: Key) {
        let full = i64::from(self.settings.bucket) * MILLION;
        let gain = i64::from(self.settings.waste.get_millionths());
        self.level = full.min(self.level + gain);
        if let Some(label) = self.ghosts.demanded(key) {
            self.kinds[label.kind()].precision.used();
        }
        while let Some(label) = self.ghosts.expired() {
            self.kinds[label.kind()].precision.wasted();
        }
    }

    /// A miner guesses blocks, of which memory lacks these.
    ///
    /// # Panics
    /// If there is no such miner.
    pub fn offer(&mut self, miner: usize, confidence: Fraction, lacking: &[Key]) -> Answer {
        let label = Label::new(miner, confidence);
        let kind = self.kinds[label.kind()];
        let blocks = i64::try_from(lacking.len()).expect("a guess is short");
        let free = self.level - self.expected_waste() - blocks * kind.loss();
        let has_room = self.outstanding() + lacking.len() as u64 <= self.settings.outstanding;
        if has_room && MILLION - kind.loss() >= self.threshold(free) {
            self.kinds[label.kind()].outstanding += blocks;
            for &key in lacking {
                self.ghosts.fetched(key);
            }
            return Answer::Fetch(label);
        }
        for &key in lacking.iter().take(GHOSTS_OF_GUESS) {
            if let Some(left) = self.ghosts.refuse(key, label) {
                self.kinds[left.kind()].precision.wasted();
            }
        }
        Answer::Refuse
    }

    /// A fetched block was read by the guest.
    pub fn used(&mut self, label: Label) {
        let kind = &mut self.kinds[label.kind()];
        kind.outstanding -= 1;
        kind.precision.used();
    }

    /// A fetched block left memory without having been read.
    pub fn wasted(&mut self, label: Label) {
        let kind = &mut self.kinds[label.kind()];
        kind.outstanding -= 1;
        kind.precision.wasted();
        self.level -= MILLION;
    }

    /// The guest read a fetched block of which it had been told: that says nothing of the guess.
    pub fn read_when_told(&mut self, label: Label) {
        self.kinds[label.kind()].outstanding -= 1;
    }

    /// A fetched block of which the guest had been told left memory without having been read. It costs as much as any; that the
    /// guest did not follow says nothing of the guess.
    pub fn wasted_when_told(&mut self, label: Label) {
        self.kinds[label.kind()].outstanding -= 1;
        self.level -= MILLION;
    }

    /// The guest says that it has read so many blocks because it was told of them, and has not used them. A bucket is emptied by
    /// that at most.
    pub fn unused_by_guest(&mut self, blocks: u64) {
        let bucket = i64::from(self.settings.bucket) * MILLION;
        let blocks = i64::try_from(blocks).unwrap_or(i64::MAX);
        let spent = self.level.saturating_sub(blocks.saturating_mul(MILLION));
        // A guest that exaggerates waits for two buckets at most.
        self.level = spent.max(self.level.min(-bucket));
    }

    /// Blocks that were fetched and of which is not known yet what becomes of them.
    ///
    /// # Panics
    /// If more blocks were said to be used or wasted than were fetched.
    pub fn outstanding(&self) -> u64 {
        u64::try_from(self.all_outstanding())
            .expect("each block that was fetched is used or wasted once")
    }

    fn all_outstanding(&self) -> i64 {
        self.kinds.iter().map(|kind| kind.outstanding).sum()
    }

    /// What it takes.
    pub fn memory(&self) -> Bytes {
        let kinds = size_of::<Self>() + self.kinds.capacity() * size_of::<Kind>();
        self.ghosts.memory() + Bytes::new(kinds as u64)
    }

    /// Millionths of a block that are expected to be wasted of what is outstanding.
    fn expected_waste(&self) -> i64 {
        let of_kind = |kind: &Kind| kind.outstanding * kind.loss();
        self.kinds.iter().map(of_kind).sum()
    }

    /// The least precision, in millionths, with so many millionths of a block free: one if nothing is, or if there
    /// is no room, and no measured precision is one.
    fn threshold(&self, free: i64) -> i64 {
        let bucket = i64::from(self.settings.bucket).max(1) * MILLION;
        let taken = share(bucket - free.clamp(0, bucket), bucket);
        let room = i64::try_from(self.settings.outstanding.max(1)).unwrap_or(i64::MAX);
        let filled = share(self.all_outstanding(), room);
        THRESHOLD_MIN + (MILLION - THRESHOLD_MIN) * taken.max(filled) / MILLION
    }
}

/// Millionths of the whole.
fn share(part: i64, whole: i64) -> i64 {
    let millionths = i128::from(part) * i128::from(MILLION) / i128::from(whole);
    i64::try_from(millionths).unwrap_or(MILLION)
}
