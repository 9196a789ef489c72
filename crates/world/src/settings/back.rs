//! What a seed says about write-back.

use super::special::Special;
use super::{Rates, Settings, pick, without_memory};
use cache::{DestageOrder, WriteBack};
use units::{Bytes, Duration, Prng};

/// What a seed says about write-back.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, as in Settings"
)]
pub struct BackSettings {
    /// Another cache takes turns with the first one, as after a move to another host and back.
    pub two_caches: bool,
    /// The flash is replaced by an empty one between two lives.
    pub flash_is_lost: bool,
    /// Recording who has a disk fails: one in so many; 0 for never.
    pub own_fails: u64,
    /// Origins go away altogether, or become full, and come back: one in so many requests; 0 for
    /// never.
    pub origin_goes: u64,
    /// Bytes that wait are thrown away by a detach now and then.
    pub drops: bool,
    /// Writes do not wait long for room, and then are errors.
    pub impatient: bool,
    /// One in so many disks that come is under write-back only later, by a command.
    pub late: u64,
    /// Looks at the origin alone: one in so many requests.
    pub look_rate: u64,
}

/// Of so many seeds in a row the later half has origins that forget. The number is no seed's kind, so
/// each kind of world has both.
const ORIGINS_FORGET_EVERY: u64 = 64;

/// Of so many seeds in a row these may have memory in front of the flash, and miners: few, so that most seeds stay what
/// they were before there was either.
const MEMORY_EVERY: u64 = 8;
const MEMORY_FIRST: [u64; 2] = [1, 2];

impl Settings {
    /// The settings of this seed's world, from dice that the seed has thrown. Worlds of odd seeds
    /// have write-back.
    pub fn of(seed: u64, dice: &mut Prng) -> Self {
        let mut settings = Self::draw(dice);
        settings.origins_forget = seed % ORIGINS_FORGET_EVERY >= ORIGINS_FORGET_EVERY / 2;
        if seed % 2 == 1 {
            settings = settings.with_write_back(dice);
        }
        let mut settings = settings.with_special(seed, dice);
        let is_ordinary = settings.special == Special::Nothing;
        settings.memory = is_ordinary && MEMORY_FIRST.contains(&(seed % MEMORY_EVERY));
        if let Some(tenancy) = &mut settings.config.tenancy
            && !settings.memory
        {
            without_memory(tenancy);
        }
        settings
    }

    fn with_write_back(mut self, dice: &mut Prng) -> Self {
        self.back = Some(BackSettings::draw(dice));
        self.config.retained_places = *pick(dice, &[2, 6, 64]);
        self.changes_percent = *pick(dice, &[30, 50, 80, 95]);
        for disk in &mut self.disks {
            if !dice.one_in(10) {
                disk.sectors -= disk.sectors % 8;
            }
        }
        for life in &mut self.lives {
            life.audit_at_start |= dice.one_in(2);
        }
        // A flash that may be to blame for anything proves little.
        if !dice.one_in(3) {
            self.rates = self.rates.without_flash();
            self.old_copies = false;
            for life in &mut self.lives {
                life.flash_dies_at = None;
            }
        }
        if dice.one_in(3) {
            self.rates = Rates::default();
        }
        self
    }
}

impl BackSettings {
    pub(crate) fn draw(dice: &mut Prng) -> Self {
        Self {
            two_caches: dice.one_in(4),
            flash_is_lost: dice.one_in(5),
            own_fails: if dice.one_in(6) {
                *pick(dice, &[2, 8])
            } else {
                0
            },
            origin_goes: if dice.one_in(4) { 30 } else { 0 },
            drops: dice.one_in(5),
            impatient: dice.one_in(8),
            late: *pick(dice, &[1, 3, 10]),
            look_rate: *pick(dice, &[4, 20, 100]),
        }
    }

    /// How writes go back, for one disk.
    pub(crate) fn draw_write_back(
        self,
        special: Special,
        suspect: bool,
        dice: &mut Prng,
    ) -> WriteBack {
        let drawn = self.draw_rules(suspect, dice);
        match special {
            Special::Nothing
            | Special::Commanded
            | Special::Late
            | Special::Pestered
            | Special::Lying { .. }
            | Special::Scrubbed { .. } => drawn,
            Special::Hasty { eager: true, .. } | Special::Rotten => WriteBack {
                age_max: Duration::from_micros(*pick(dice, &[0, 300])),
                rate: None,
                ..drawn
            },
            Special::Hasty { eager: false, .. } => WriteBack {
                dirty_max: Bytes::mib(1),
                age_max: Duration::from_secs(1_000),
                idle_after: Duration::from_secs(1_000),
                ..drawn
            },
        }
    }

    fn draw_rules(self, suspect: bool, dice: &mut Prng) -> WriteBack {
        let order = if dice.one_in(4) {
            DestageOrder::Unordered
        } else {
            DestageOrder::Ordered
        };
        WriteBack {
            order,
            dirty_max: Bytes::kib(*pick(dice, &[16, 64, 200, 1_000])),
            age_max: Duration::from_micros(*pick(dice, &[0, 3_000, 100_000, 30_000_000])),
            idle_after: Duration::from_micros(*pick(dice, &[0, 2_000, 1_000_000, 1_000_000_000])),
            rate: *pick(
                dice,
                &[None, None, Some(Bytes::kib(300)), Some(Bytes::mib(20))],
            ),
            stall_max: if self.impatient {
                Duration::from_millis(*pick(dice, &[1, 50]))
            } else if suspect {
                // A log that is locked stays full: whoever writes has to be told.
                Duration::from_secs(2)
            } else {
                Duration::from_secs(300)
            },
        }
    }
}
