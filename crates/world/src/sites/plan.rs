//! What a seed says of a world with two hosts.

use super::site::LoanFaults;
use crate::settings::{BackSettings, DiskSettings, Rates, Settings, Special, pick};
use cache::WritePolicy;
use units::{Duration, Prng};

/// Of so many seeds in a row the later half ships, if it has write-back.
const SHIPS_EVERY: u64 = 4;
/// Of so many seeds in a row the cache goes ahead in the last one: in every other one of those that ship, and as often in others.
const COPIES_EVERY: u64 = 2;
/// Seeds that ship and copy nothing: among them are those that miss the rules which few worlds do.
const SHIPS_NOT: std::ops::Range<u64> = 20_000..80_000;

/// What a seed says of a world with two hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) policy: WritePolicy,
    pub(super) moves: u64,
    /// Deaths of daemons and hosts, and breaks of the link, that are left.
    pub(super) deaths: u64,
    pub(super) cuts: u64,
    /// One of so many requests comes with one of these.
    pub(super) trouble_rate: u64,
    /// Longest pause between two requests.
    pub(super) pause: Duration,
    /// Requests in flight at most.
    pub(super) depth: usize,
    /// Nothing goes wrong from the beginning.
    pub(super) is_perfect: bool,
    /// The origin fails now and then.
    pub(super) origin_fails: bool,
    pub(super) loan_faults: LoanFaults,
    pub(super) along: Along,
}

/// What goes along with the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Along {
    /// What the origin lacks.
    pub(super) dirty: bool,
    /// What is cached, ahead of the disk.
    pub(super) cache: bool,
}

impl Plan {
    /// What the dice say.
    pub(super) fn draw(seed: u64, dice: &mut Prng) -> (Self, Settings) {
        let mut settings = Settings::draw(dice);
        let sectors = 8 * (2 + dice.below(30));
        settings.disks = vec![DiskSettings {
            sectors,
            read_only: false,
            fingerprint: false,
            shared: false,
        }];
        settings.config.tenancy = None;
        settings.config.retained_places = *pick(dice, &[2, 6, 64]);
        settings.special = Special::Nothing;
        settings.old_copies = false;
        let is_calm = dice.one_in(4);
        let mut sometimes = |rates: &[u64]| {
            if is_calm { 0 } else { *pick(dice, rates) }
        };
        settings.rates = Rates {
            origin_errors: sometimes(&[0, 0, 0, 12]),
            origin_late: sometimes(&[0, 0, 10]),
            ..Rates::default()
        };
        let own_fails = sometimes(&[0, 0, 2, 10]);
        let (deaths, cuts) = (sometimes(&[0, 1, 4]), sometimes(&[0, 1, 4]));
        settings.back = Some(BackSettings {
            own_fails,
            origin_goes: 0,
            ..BackSettings::draw(dice)
        });
        let policies = [
            WritePolicy::Back,
            WritePolicy::Back,
            WritePolicy::Through,
            WritePolicy::Around,
        ];
        let policy = *pick(dice, &policies);
        let plan = Self {
            policy,
            along: Along {
                dirty: policy == WritePolicy::Back && may_ship(seed),
                cache: may_copy(seed),
            },
            moves: 1 + dice.below(6),
            deaths,
            cuts,
            trouble_rate: 1 + dice.below(30),
            pause: Duration::from_micros(*pick(dice, &[100, 3_000, 60_000])),
            depth: 1 + usize::from(dice.one_in(2)) * 4,
            is_perfect: is_calm,
            loan_faults: LoanFaults {
                lost: *pick(dice, &[0, 0, 5]),
                late: *pick(dice, &[0, 0, 3]),
            },
            origin_fails: settings.rates.origin_errors + settings.rates.origin_late > 0,
        };
        (plan, settings)
    }
}

fn may_copy(seed: u64) -> bool {
    seed % COPIES_EVERY == COPIES_EVERY - 1 && !SHIPS_NOT.contains(&seed)
}

fn may_ship(seed: u64) -> bool {
    seed % SHIPS_EVERY >= SHIPS_EVERY / 2 && !SHIPS_NOT.contains(&seed)
}
