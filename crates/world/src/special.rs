//! Worlds of write-back in which one kind of trouble comes again and again, which others meet too
//! seldom.
//!
//! | kind | what it is for |
//! |---|---|
//! | hasty | short intervals that go to the origin at once or very late, slow entries of the journal |
//! | commanded | commands one after the other, records that cannot be made, keys that change |
//! | rotten | pages of dirty logs that rot or cannot be read, memory that was written half |
//!
//! Which seeds are of which kind is fixed, so that all others stay what they are.

use crate::back::BackSettings;
use crate::settings::{Rates, Settings, draw_latency, pick};
use crate::world::{World, geometry};
use block_io::BlockCipher;
use flash_format::{DirtyChunkHeader, JournalPage, PAGE_BYTES};
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
}

impl Special {
    /// The command that every other one is, by its number.
    pub(crate) fn favourite_command(self) -> Option<u64> {
        match self {
            Self::Nothing | Self::Commanded => None,
            // In which order writes go back.
            Self::Hasty { .. } => Some(5),
            // Whether they do.
            Self::Rotten => Some(4),
        }
    }
}

/// Worlds of this many seeds have one of each kind.
pub const SPECIAL_EVERY: u64 = 16;

/// The first hasty world.
pub const HASTY_FIRST: u64 = 13;

/// The first commanded world.
pub const COMMANDED_FIRST: u64 = 5;

/// The first rotten world.
pub const ROTTEN_FIRST: u64 = 3;

impl Settings {
    /// The same world, with what is special about worlds of this seed.
    pub(crate) fn with_special(self, seed: u64, dice: &mut Prng) -> Self {
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
        self.set_back(|back| {
            back.special = special;
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
        self.set_back(|back| {
            back.special = Special::Commanded;
            back.two_caches = false;
            back.flash_is_lost = false;
            back.drops = true;
            back.own_fails = own_fails;
            back.late = late;
        });
        self
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
        self.set_back(|back| {
            back.special = Special::Rotten;
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
        self.settings
            .back
            .map_or(Special::Nothing, |back| back.special)
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
        let geometry = geometry(&self.settings);
        let mut bytes = [0; PAGE_BYTES];
        let mut pages = Vec::new();
        for number in 0..geometry.journal_pages() {
            let offset = geometry.journal_page_offset(number);
            self.flash.peek(offset, &mut bytes);
            if let Ok(page) = JournalPage::decode(&bytes, self.host.uuid) {
                pages.push((page.sequence, offset));
            }
        }
        pages.sort_unstable();
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
