//! Worlds in which one kind of trouble comes again and again, which others meet too seldom, or never.
//!
//! | kind | what it is for |
//! |---|---|
//! | late | changes that an origin gives up with an error and that land later; with write-back or not |
//! | hasty | short intervals that go to the origin at once or very late, slow entries of the journal |
//! | commanded | commands one after the other, records that cannot be made, keys that change |
//! | pestered | commands in every phase of a disk, over origins and records that are slow |
//! | lying | flash that acknowledges durable writes and flushes, and loses them with its power; with write-back or not |
//! | rotten | pages of dirty logs that rot or cannot be read, memory that was written half |
//!
//! Which seeds are of which kind is fixed, so that all others stay what they are.

use crate::back::BackSettings;
use crate::host::Software;
use crate::settings::{End, Rates, Settings, draw_latency, pick};
use crate::world::{World, geometry};
use block_io::BlockCipher;
use cache::Committed;
use flash_format::{DirtyChunkHeader, JournalPage, PAGE_BYTES, SUPERBLOCK_OFFSETS};
use std::num::NonZeroU64;
use units::{BlockIndex, Bytes, Duration, Prng};

/// What comes again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Special {
    /// Nothing: a bit of everything.
    #[default]
    Nothing,
    /// See the module's header.
    Hasty {
        /// Everything goes to the origin at once; else as late as may be.
        eager: bool,
        /// Changes that are flushes: one in so many more; 0 for none.
        flushes: u64,
        /// Writes with FUA: one in so many.
        fuas: u64,
    },
    /// See the module's header.
    Commanded,
    /// See the module's header.
    Rotten,
    /// See the module's header.
    Late,
    /// See the module's header.
    Pestered,
    /// See the module's header.
    Lying {
        /// The flash makes all that it has durable by itself: once in so many operations; 0 for never.
        persists: u64,
        /// The host records how far the flash is: once in so many requests; 0 for after a clean stop only.
        notes: u64,
    },
}

impl Special {
    /// The command that every other one is, by its number.
    pub(crate) fn favourite_command(self) -> Option<u64> {
        match self {
            Self::Nothing | Self::Commanded | Self::Late | Self::Pestered | Self::Lying { .. } => {
                None
            }
            // In which order writes go back.
            Self::Hasty { .. } => Some(5),
            // Whether they do.
            Self::Rotten => Some(4),
        }
    }
}

/// Worlds of this many seeds have one of each kind.
pub const SPECIAL_EVERY: u64 = 16;

/// Worlds of this many seeds have one of each younger kind. They are seldom, so that most seeds stay what
/// they were before there were these kinds.
pub const YOUNGER_EVERY: u64 = 64;

/// The first late worlds: without write-back, and with it.
pub const LATE_FIRST: [u64; 2] = [6, 31];

/// The first lying worlds: without write-back, and with it.
pub const LYING_FIRST: [u64; 2] = [10, 63];

/// The first pestered world.
pub const PESTERED_FIRST: u64 = 33;

/// The first hasty world.
pub const HASTY_FIRST: u64 = 13;

/// The first commanded world.
pub const COMMANDED_FIRST: u64 = 5;

/// The first rotten world.
pub const ROTTEN_FIRST: u64 = 3;

impl Settings {
    /// The same world, with what is special about worlds of this seed.
    pub(crate) fn with_special(self, seed: u64, dice: &mut Prng) -> Self {
        if LATE_FIRST.contains(&(seed % YOUNGER_EVERY)) {
            return self.late(dice);
        }
        if LYING_FIRST.contains(&(seed % YOUNGER_EVERY)) {
            return self.lying(dice);
        }
        if seed % YOUNGER_EVERY == PESTERED_FIRST {
            return self.pestered(dice);
        }
        match seed % SPECIAL_EVERY {
            HASTY_FIRST => self.hasty(dice),
            COMMANDED_FIRST => self.commanded(dice),
            ROTTEN_FIRST => self.rotten(dice),
            _ => self,
        }
    }

    fn set_back(&mut self, change: impl FnOnce(&mut BackSettings)) {
        if let Some(back) = &mut self.back {
            change(back);
        }
    }

    fn late(self, dice: &mut Prng) -> Self {
        // Many changes go to the origin in a short time.
        let mut late = if self.back.is_some() && dice.one_in(2) {
            self.hasty(dice)
        } else {
            self
        };
        if !dice.one_in(3) {
            late.rates = late.rates.without_flash();
            late.old_copies = false;
            for life in &mut late.lives {
                life.flash_dies_at = None;
            }
        }
        late.special = Special::Late;
        late.origins_forget = dice.one_in(2);
        late.rates.origin_late = *pick(dice, &[3, 8, 30]);
        late
    }

    fn hasty(mut self, dice: &mut Prng) -> Self {
        let eager = !dice.one_in(3);
        self.rates = Rates::default();
        self.old_copies = false;
        let slowest = *pick(dice, &[300, 3_000, 10_000]);
        self.flash_latency = draw_latency(dice, 10, slowest);
        self.origin_latency = draw_latency(dice, 10, 300);
        self.config.write_delay = Duration::from_micros(*pick(dice, &[200, 100_000]));
        self.changes_percent = 95;
        self.pause = Duration::from_micros(*pick(dice, &[0, 100, 1_000]));
        self.workers = self.workers.min(6);
        self.only_drops = false;
        if eager {
            self.hot_blocks = *pick(dice, &[2, 8]);
            self.length_most = *pick(dice, &[1, 8, 40]);
            self.control_rate = *pick(dice, &[0, 0, 2]);
        } else {
            self.hot_blocks = *pick(dice, &[0, 30]);
            self.length_most = *pick(dice, &[40, 160]);
            self.control_rate = 0;
        }
        for life in &mut self.lives {
            life.flash_dies_at = None;
            life.faults_while_opening = false;
            life.audit_at_start = true;
        }
        let special = Special::Hasty {
            eager,
            flushes: *pick(dice, if eager { &[0, 2, 4] } else { &[0, 0, 6] }),
            fuas: *pick(dice, if eager { &[2, 6] } else { &[6, 40] }),
        };
        let look_rate = if eager { 1 } else { 20 };
        self.special = special;
        self.set_back(|back| {
            back.two_caches = false;
            back.flash_is_lost = false;
            back.look_rate = look_rate;
            back.late = 10;
        });
        self
    }

    fn commanded(mut self, dice: &mut Prng) -> Self {
        self.control_rate = *pick(dice, &[3, 6]);
        self.only_drops = false;
        let own_fails = *pick(dice, &[0, 2, 8]);
        let late = *pick(dice, &[1, 3]);
        self.special = Special::Commanded;
        self.set_back(|back| {
            back.two_caches = false;
            back.flash_is_lost = false;
            back.drops = true;
            back.own_fails = own_fails;
            back.late = late;
        });
        self
    }

    fn lying(mut self, dice: &mut Prng) -> Self {
        self.special = Special::Lying {
            persists: *pick(dice, &[0, 5, 100]),
            notes: *pick(dice, &[0, 1, 10]),
        };
        self.origins_forget = dice.one_in(2);
        self.rates = self.rates.without_flash();
        self.old_copies = false;
        for life in &mut self.lives {
            life.flash_dies_at = None;
            life.audit_at_start = true;
            if life.end == End::Kill {
                life.end = End::PowerCut;
            }
        }
        self.set_back(|back| {
            back.two_caches = false;
            back.flash_is_lost = false;
        });
        self
    }

    fn pestered(self, dice: &mut Prng) -> Self {
        let mut pestered = self.commanded(dice);
        pestered.special = Special::Pestered;
        pestered.origins_forget = dice.one_in(2);
        pestered.control_rate = *pick(dice, &[1, 2]);
        // What has become shorter can grow.
        pestered.sizes_change = true;
        // What a command waits for takes long enough for the next one to come.
        let slowest = *pick(dice, &[300, 30_000]);
        pestered.origin_latency = draw_latency(dice, 3_000, slowest);
        for life in &mut pestered.lives {
            if dice.one_in(3) {
                life.flash_dies_at = Some(dice.below(life.requests));
            }
        }
        pestered
    }

    fn rotten(mut self, dice: &mut Prng) -> Self {
        self.changes_percent = *pick(dice, &[50, 95]);
        self.pause = self.pause.min(Duration::from_micros(3_000));
        self.control_rate = *pick(dice, &[0, 4]);
        self.only_drops = false;
        for life in &mut self.lives {
            life.flash_dies_at = None;
            life.audit_at_start = true;
        }
        self.special = Special::Rotten;
        self.set_back(|back| {
            back.look_rate = 2;
            back.two_caches = false;
            back.flash_is_lost = false;
        });
        self
    }
}

/// A chunk of a dirty log that is on flash.
struct OnFlash {
    header: DirtyChunkHeader,
    offset: Bytes,
}

impl World {
    /// What is special about this world.
    pub(crate) fn special(&self) -> Special {
        self.settings.special
    }

    /// Between two lives: something befalls a page of a dirty log.
    pub(crate) fn rot_at_rest(&mut self) {
        self.flash.unreadable.clear();
        if self.special() != Special::Rotten || !self.dice.one_in(2) {
            return;
        }
        if self.dice.one_in(3) {
            self.journal_rots();
            return;
        }
        let chunks = self.chunks_on_flash();
        if chunks.is_empty() {
            return;
        }
        let chosen = pick(&mut self.dice, &chunks);
        let pages = 1 + u64::from(chosen.header.blocks()).min(1);
        let page = Bytes::new(self.dice.below(pages) * PAGE_BYTES as u64);
        let at = chosen.offset + page;
        let named = chunks.iter().any(|other| {
            other.header.disk == chosen.header.disk
                && other.header.durable >= chosen.header.last()
                && self.host.accepted.is_known(&other.header)
        });
        // What nothing behind it says was durable passes for torn if it rots.
        if named && self.dice.one_in(2) {
            self.marks.hit("dirty log rots");
            let mut bytes = [0; PAGE_BYTES];
            self.flash.peek(at, &mut bytes);
            let byte = usize::try_from(self.dice.below(PAGE_BYTES as u64)).expect("an index");
            bytes[byte] ^= 1 << self.dice.below(8);
            self.flash.poke(at, &bytes);
        } else {
            self.marks.hit("dirty log cannot be read");
            self.flash
                .unreadable
                .push(at..at + Bytes::new(PAGE_BYTES as u64));
        }
        self.host.suspect = true;
        self.trace.event(self.now, &[24, at.get()], || {
            format!("the flash's page at {at} is spoilt")
        });
    }

    /// A page of the journal that is not the newest rots: the newest would leave no trace.
    fn journal_rots(&mut self) {
        let mut pages = journal_pages(self);
        let mut bytes = [0; PAGE_BYTES];
        let Some((_, newest)) = pages.pop() else {
            return;
        };
        // Older ones are in the checkpoint.
        let recent = &pages[pages.len().saturating_sub(6)..];
        if recent.is_empty() {
            return;
        }
        let (_, at) = *pick(&mut self.dice, recent);
        self.marks.hit("journal rots");
        self.host.suspect = true;
        // A power cut must not take the newest page, if it is not durable, and the trace with it.
        self.flash.peek(newest, &mut bytes);
        self.flash.poke(newest, &bytes);
        self.flash.peek(at, &mut bytes);
        bytes[PAGE_BYTES / 2] ^= 1;
        self.flash.poke(at, &bytes);
        self.trace.event(self.now, &[25, at.get()], || {
            format!("the journal's page at {at} rots")
        });
    }

    /// Every chunk of a dirty log that is whole on flash and not known to be at its origin.
    fn chunks_on_flash(&self) -> Vec<OnFlash> {
        let geometry = geometry(&self.settings);
        let mut found = Vec::new();
        for header in self.host.accepted.waiting(&geometry) {
            let offset = geometry.segment_offset(header.segment)
                + Bytes::new(u64::from(header.page) * PAGE_BYTES as u64);
            let mut bytes = [0; PAGE_BYTES];
            self.flash.peek(offset, &mut bytes);
            let (segment, generation, page) = (header.segment, header.generation, header.page);
            let uuid = self.host.uuid;
            let there =
                DirtyChunkHeader::decode(&bytes, &geometry, uuid, segment, generation, page);
            if let Ok(header) = there {
                found.push(OnFlash { header, offset });
            }
        }
        found
    }

    /// The key that a disk comes with: now and then another than it had.
    pub(crate) fn draw_key(&mut self, number: usize) -> Option<NonZeroU64> {
        let key = self.disks[number].key;
        if self.special() != Special::Commanded || self.in_last_life || !self.dice.one_in(4) {
            return key;
        }
        self.marks.hit("key drawn");
        *pick(
            &mut self.dice,
            &[None, NonZeroU64::new(1), NonZeroU64::new(2)],
        )
    }
}

/// The host records how far the tables on flash are durable, as far as the flash says.
pub(crate) fn note_committed(world: &mut World) {
    if let (Special::Lying { .. }, Some(committed)) = (world.special(), committed(world)) {
        world.host.committed = committed;
    }
}

fn committed(world: &World) -> Option<Committed> {
    match &world.host.software {
        Software::Cache(cache) => cache.committed(),
        Software::Down | Software::Recovery(_) => None,
    }
}

/// The power of flash that lies is about to be cut. What it loses then has to be found out, so it keeps
/// what leaves no trace: the newest superblock and the newest page of the journal, unless the host has
/// recorded them, and chunks of dirty logs of which nobody says that they are durable.
pub(crate) fn spare_what_leaves_no_trace(world: &mut World) {
    world.host.suspect = true;
    let page = Bytes::new(PAGE_BYTES as u64);
    let recorded = world.host.committed;
    if committed(world) != Some(recorded) {
        for at in SUPERBLOCK_OFFSETS {
            world.flash.make_durable(at, at + page);
        }
    }
    // The process may have died before it knew of the newest page: the host has not recorded that.
    match journal_pages(world).pop() {
        Some((number, newest)) if number >= recorded.journal => {
            world.marks.hit("lying flash spares the newest page");
            world.flash.make_durable(newest, newest + page);
        }
        _ => world.marks.hit("lying flash spares nothing"),
    }
    for chunk in world.host.accepted.unnamed() {
        world.flash.make_durable(chunk.start, chunk.end);
    }
}

/// The pages of the journal that are whole, by their numbers, and where they lie.
fn journal_pages(world: &World) -> Vec<(u64, Bytes)> {
    let geometry = geometry(&world.settings);
    let mut bytes = [0; PAGE_BYTES];
    let mut pages = Vec::new();
    for number in 0..geometry.journal_pages() {
        let offset = geometry.journal_page_offset(number);
        world.flash.peek(offset, &mut bytes);
        if let Ok(page) = JournalPage::decode(&bytes, world.host.uuid) {
            pages.push((page.sequence, offset));
        }
    }
    pages.sort_unstable();
    pages
}

/// A cipher that tells keys and blocks apart, and keeps no secret.
pub(crate) struct Toy(pub NonZeroU64);

impl Toy {
    fn mix(&self, block: BlockIndex, bytes: &mut [u8]) {
        let mut stream = Prng::new(self.0.get() << 32 | block.get());
        for word in bytes.chunks_exact_mut(8) {
            for (byte, key) in word.iter_mut().zip(stream.u64().to_le_bytes()) {
                *byte ^= key;
            }
        }
    }
}

impl BlockCipher for Toy {
    fn encrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        self.mix(block, bytes);
    }

    fn decrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        self.mix(block, bytes);
    }

    fn tag(&self) -> NonZeroU64 {
        self.0
    }
}
