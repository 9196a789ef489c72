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
//! | scrubbed | scrubs that are begun and ended over flash that rots, or that has no fault: there none may be told |
//!
//! Which seeds are of which kind is fixed, so that all others stay what they are.

use super::back::BackSettings;
use super::{End, Rates, Settings, draw_latency, pick};
use units::{Duration, Prng};

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
    /// See the module's header.
    Scrubbed {
        /// Whether what is read may be rotten.
        rots: bool,
    },
}

impl Special {
    /// The command that every other one is, by its number.
    pub(crate) fn favourite_command(self) -> Option<u64> {
        match self {
            Self::Nothing
            | Self::Commanded
            | Self::Late
            | Self::Pestered
            | Self::Lying { .. }
            | Self::Scrubbed { .. } => None,
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

/// The first scrubbed world.
pub const SCRUBBED_FIRST: u64 = 50;

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
        if seed % YOUNGER_EVERY == SCRUBBED_FIRST {
            return self.scrubbed(dice);
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

    fn scrubbed(mut self, dice: &mut Prng) -> Self {
        let rots = dice.one_in(2);
        self.special = Special::Scrubbed { rots };
        self.rates = self.rates.without_flash();
        if rots {
            self.rates.rot = *pick(dice, &[5, 40]);
        } else {
            for life in &mut self.lives {
                life.flash_dies_at = None;
                // A power cut takes what nobody had made durable, and clean blocks are not.
                if life.end == End::PowerCut {
                    life.end = End::Kill;
                }
            }
        }
        self.old_copies = false;
        self.control_rate = *pick(dice, &[1, 3]);
        self.only_drops = false;
        self.pause = Duration::from_micros(*pick(dice, &[1_000, 10_000]));
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
