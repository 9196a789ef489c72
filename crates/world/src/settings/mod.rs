//! What one seed's world is like. Each seed switches whole classes of trouble on or off (swarm
//! testing, Groce et al. 2012): a world with every fault at once never gets far enough to meet
//! the rare combinations of two.

mod back;
mod special;
mod tenants;

pub(crate) use back::BackSettings;
pub use special::{
    COMMANDED_FIRST, HASTY_FIRST, LATE_FIRST, LYING_FIRST, PESTERED_FIRST, ROTTEN_FIRST,
    SCRUBBED_FIRST, SPECIAL_EVERY, Special, YOUNGER_EVERY,
};
pub(crate) use tenants::{draw_settings, draw_tenant, without_memory};

use crate::storage::Latency;
use cache::Config;
use flash_format::Geometry;
use policy::reclaim::Kind as Reclaim;
use tenancy::Capacity;
use units::{Bytes, Duration, Prng};

/// How a life of the host's process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Detach the disks, stop the cache.
    CleanStop,
    /// The process dies; flash and origins keep what completed.
    Kill,
    /// The host loses power; flash forgets what was not durable.
    PowerCut,
}

/// One life of the host's process.
#[derive(Clone, Copy, Debug)]
pub struct LifeSettings {
    /// Guest requests before it ends by itself.
    pub requests: u64,
    /// How it ends.
    pub end: End,
    /// End it at this operation (submitted or completed) if it has not ended before.
    pub crash_at: Option<u64>,
    /// The flash dies at this guest request.
    pub flash_dies_at: Option<u64>,
    /// A dead flash does not answer at all instead of answering with errors.
    pub dies_silently: bool,
    /// Read everything through the cache and compare, right after the start.
    pub audit_at_start: bool,
    /// Faults happen from the first operation on, so that opening the cache meets them too.
    pub faults_while_opening: bool,
}

impl LifeSettings {
    /// A last one, in which everything is read and comes to an end.
    pub(crate) const LAST: Self = Self {
        requests: 20,
        end: End::CleanStop,
        crash_at: None,
        flash_dies_at: None,
        dies_silently: false,
        audit_at_start: true,
        faults_while_opening: false,
    };
}

/// One disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskSettings {
    /// Size in sectors; not always whole blocks.
    pub sectors: u64,
    /// Refuses writes.
    pub read_only: bool,
    /// Whether its origin has a fingerprint.
    pub fingerprint: bool,
    /// A base image that VMs share; refuses writes, too.
    pub shared: bool,
}

/// One operation in so many meets the fault; 0 for none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Flash operations fail.
    pub flash_errors: u64,
    /// Flash operations are late beyond the timeout.
    pub flash_delays: u64,
    /// Flash operations never end.
    pub flash_stalls: u64,
    /// A bit of a read or of a write that is not durable is flipped.
    pub rot: u64,
    /// Reads and writes that are not durable go elsewhere.
    pub misdirected: u64,
    /// Writes that are not durable are lost.
    pub lost: u64,
    /// A bit of what is read of superblocks or checkpoints is flipped.
    pub metadata_rot: u64,
    /// Origin operations fail.
    pub origin_errors: u64,
    /// Origin operations take very long.
    pub origin_stalls: u64,
    /// Origins give up changes that may land later.
    pub origin_late: u64,
    /// Recording a retirement fails.
    pub retire_fails: u64,
}

impl Rates {
    /// Whether the flash may be to blame for what cannot be read from it.
    pub(crate) fn blame_the_flash(&self) -> bool {
        let of_flash = [
            self.flash_errors,
            self.flash_delays,
            self.flash_stalls,
            self.rot,
            self.misdirected,
            self.lost,
            self.metadata_rot,
        ];
        of_flash.iter().any(|rate| *rate > 0)
    }

    /// The same without what the flash does wrong.
    pub(crate) fn without_flash(self) -> Self {
        Self {
            origin_errors: self.origin_errors,
            origin_stalls: self.origin_stalls,
            origin_late: self.origin_late,
            retire_fails: self.retire_fails,
            ..Self::default()
        }
    }
}

/// Everything that a seed decides before the first event.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own: a class of faults that a world has or not"
)]
pub struct Settings {
    /// How the cache behaves.
    pub config: Config,
    /// Size of the flash device.
    pub flash_capacity: Bytes,
    /// Bytes in a segment.
    pub segment_bytes: Bytes,
    /// How fast the flash is.
    pub flash_latency: Latency,
    /// How fast the origins are.
    pub origin_latency: Latency,
    /// The disks.
    pub disks: Vec<DiskSettings>,
    /// Requests in flight at most.
    pub workers: usize,
    /// Longest request in sectors.
    pub length_most: u64,
    /// Blocks at the start of each disk that get most of the requests; 0 for no such favour.
    pub hot_blocks: u64,
    /// Writes, erasures and flushes among 100 requests.
    pub changes_percent: u64,
    /// Longest pause of a worker between requests.
    pub pause: Duration,
    /// Control commands: one in so many requests; 0 for none.
    pub control_rate: u64,
    /// Changes of what holds for tenants: one in so many requests; 0 for none.
    pub tenancy_rate: u64,
    /// Disks that one VM has.
    pub disks_per_vm: usize,
    /// The only command is to drop a disk's cache: others make checkpoints, so that the journal
    /// never gets long enough to make one itself.
    pub only_drops: bool,
    /// Requests that break the rules: one in so many; 0 for none.
    pub nonsense_rate: u64,
    /// Faults.
    pub rates: Rates,
    /// A power cut of the host takes the origins with it, as where they are local files.
    pub origin_loses_power: bool,
    /// A flush of an origin that fails has lost what it would have made durable.
    pub origins_forget: bool,
    /// Somebody else writes a disk while it is detached.
    pub strangers: bool,
    /// Disks grow and shrink while they are detached.
    pub sizes_change: bool,
    /// Somebody puts an old copy of the flash back between two lives.
    pub old_copies: bool,
    /// What comes again and again.
    pub special: Special,
    /// There may be memory in front of the flash, and miners.
    pub memory: bool,
    /// What there is of write-back; none in worlds without it.
    pub back: Option<BackSettings>,
    /// The lives of the process, one after the other.
    pub lives: Vec<LifeSettings>,
}

impl Settings {
    /// The settings of a seed's world.
    pub fn draw(dice: &mut Prng) -> Self {
        let disks: Vec<DiskSettings> = (0..=dice.below(3)).map(|_| draw_disk(dice)).collect();
        // Half of the worlds are restless: many short lives, full of commands and of faults while
        // a cache is being opened.
        let restless = dice.one_in(2);
        let rates = draw_rates(dice, restless);
        let lives_more = if restless { 9 } else { 4 };
        let lives = (0..=dice.below(lives_more))
            .map(|_| draw_life(dice, restless))
            .collect();
        let segment_bytes = Bytes::kib(64 << dice.below(2));
        // Superblocks, journal and two checkpoints take about 0.7 MiB; the rest is segments.
        let flash_capacity = Bytes::kib(1400 + 64 * dice.below(20));
        let geometry = geometry_of(flash_capacity, segment_bytes);
        let config = draw_config(dice, Capacity::of(&geometry));
        let settings = Self {
            tenancy_rate: if config.tenancy.is_some() {
                *pick(dice, &[0, 0, 6, 30])
            } else {
                0
            },
            disks_per_vm: 1 + usize::from(dice.one_in(3)),
            config,
            flash_capacity,
            segment_bytes,
            flash_latency: draw_latency(dice, 10, 300),
            origin_latency: draw_latency(dice, 100, 3_000),
            disks,
            workers: small(dice, 12),
            length_most: *pick(dice, &[1, 8, 16, 40, 160]),
            hot_blocks: *pick(dice, &[0, 2, 8, 30]),
            changes_percent: *pick(dice, &[5, 30, 50, 80]),
            pause: Duration::from_micros(*pick(dice, &[0, 100, 3_000, 40_000, 300_000])),
            control_rate: if restless {
                *pick(dice, &[0, 5, 10, 20])
            } else {
                *pick(dice, &[0, 0, 4, 60])
            },
            only_drops: dice.one_in(3),
            nonsense_rate: *pick(dice, &[0, 40]),
            rates,
            origin_loses_power: dice.one_in(4),
            origins_forget: false,
            strangers: !dice.one_in(3),
            old_copies: dice.one_in(8),
            sizes_change: dice.one_in(8),
            special: Special::Nothing,
            memory: true,
            back: None,
            lives,
        };
        if dice.one_in(3) {
            settings.cramped(dice)
        } else {
            settings
        }
    }

    /// The same world with the least flash, into which all enters, and guests that go through
    /// their disks: segments are reclaimed and used again all the time.
    fn cramped(self, dice: &mut Prng) -> Self {
        let segment_bytes = Bytes::kib(64);
        let cramped = Self {
            segment_bytes,
            flash_capacity: geometry_of(Bytes::ZERO, segment_bytes).capacity(),
            length_most: *pick(dice, &[40, 160]),
            hot_blocks: *pick(dice, &[0, 30]),
            pause: self.pause.min(Duration::from_micros(3_000)),
            tenancy_rate: 0,
            config: Config {
                tenancy: None,
                ..self.config
            },
            ..self
        };
        if dice.one_in(2) {
            cramped.with_busy_flash(dice)
        } else {
            cramped.with_long_lives(dice)
        }
    }

    /// The flash is slower than the origin: much happens before an entry of the journal is durable.
    fn with_busy_flash(self, dice: &mut Prng) -> Self {
        Self {
            flash_latency: draw_latency(dice, 10, 10_000),
            origin_latency: draw_latency(dice, 10, 300),
            rates: if dice.one_in(2) {
                Rates::default()
            } else {
                self.rates
            },
            ..self
        }
    }

    /// Nothing but full journals asks for checkpoints, and what frees segments fills the journal.
    fn with_long_lives(mut self, dice: &mut Prng) -> Self {
        for life in &mut self.lives {
            life.requests = 60 + dice.below(140);
            life.crash_at = life.crash_at.map(|_| 1 + dice.below(8 * life.requests));
        }
        Self {
            control_rate: *pick(dice, &[3, 8]),
            only_drops: true,
            ..self
        }
    }

    /// The layout of the flash: as asked, or the smallest that works.
    pub(crate) fn geometry(&self) -> Geometry {
        geometry_of(self.flash_capacity, self.segment_bytes)
    }

    /// Whether there is write-back at all.
    pub(crate) fn goes_back(&self) -> bool {
        self.back.is_some()
    }

    /// Nothing goes wrong any more, and no operator does anything.
    pub(crate) fn calm_down(&mut self) {
        self.rates = Rates::default();
        self.control_rate = 0;
        if let Some(back) = &mut self.back {
            back.own_fails = 0;
            back.origin_goes = 0;
        }
    }

    /// Whether operations of origins may fail, or end very late.
    pub(crate) fn origins_fail(&self) -> bool {
        let origin_goes = self.back.is_some_and(|back| back.origin_goes > 0);
        let rates = self.rates;
        let failing = [rates.origin_errors, rates.origin_stalls, rates.origin_late];
        origin_goes || failing.iter().any(|rate| *rate > 0)
    }

    /// What can fail an origin operation or a write without anybody being to blame.
    pub fn errors_are_excused(&self) -> bool {
        let origin_goes = self.back.is_some_and(|back| back.origin_goes > 0);
        let rates = self.rates;
        rates.origin_errors > 0 || rates.origin_late > 0 || rates.retire_fails > 0 || origin_goes
    }
}

/// The layout of a device of this size, or of the least that is enough.
fn geometry_of(capacity: Bytes, segment_bytes: Bytes) -> Geometry {
    match Geometry::new(capacity, segment_bytes) {
        Ok(geometry) => geometry,
        Err(flash_format::FormatError::TooSmall { needed, .. }) => {
            Geometry::new(needed, segment_bytes).expect("it said how much is needed")
        }
        Err(error) => panic!("the settings are drawn from valid ones: {error}"),
    }
}

fn draw_disk(dice: &mut Prng) -> DiskSettings {
    let shared = dice.one_in(6);
    DiskSettings {
        sectors: 8 * (4 + dice.below(140)) + if dice.one_in(3) { dice.below(8) } else { 0 },
        read_only: shared || dice.one_in(10),
        fingerprint: !dice.one_in(4),
        shared,
    }
}

fn draw_config(dice: &mut Prng, capacity: Capacity) -> Config {
    Config {
        write_delay: Duration::from_micros(*pick(dice, &[0, 200, 5_000, 100_000])),
        trust_delay: Duration::from_micros(*pick(dice, &[0, 1_000, 20_000, 1_000_000])),
        flash_timeout: Duration::from_millis(*pick(dice, &[20, 100])),
        write_buffer: Bytes::kib(*pick(dice, &[64, 300, 4_096])),
        reclaim: *pick(dice, &Reclaim::ALL),
        tenancy: (!dice.one_in(3)).then(|| draw_settings(dice, capacity)),
        allocate_writes: dice.one_in(2),
        retained_places: *pick(dice, &[1, 3, 64]),
    }
}

fn draw_rates(dice: &mut Prng, restless: bool) -> Rates {
    let mut class = |one_in: u64, rates: &[u64]| {
        let one_in = if restless { one_in.div_ceil(2) } else { one_in };
        if dice.one_in(one_in) {
            *pick(dice, rates)
        } else {
            0
        }
    };
    Rates {
        flash_errors: class(5, &[10, 60, 300]),
        flash_delays: class(8, &[20, 200]),
        flash_stalls: class(10, &[30, 300]),
        rot: class(5, &[5, 40]),
        misdirected: class(5, &[5, 40]),
        lost: class(5, &[5, 40]),
        metadata_rot: class(5, &[3]),
        origin_errors: class(4, &[8, 50]),
        origin_stalls: class(6, &[20, 200]),
        origin_late: 0,
        retire_fails: class(4, &[2]),
    }
}

fn draw_life(dice: &mut Prng, restless: bool) -> LifeSettings {
    let requests = if restless {
        3 + dice.below(40)
    } else {
        10 + dice.below(110)
    };
    let end = *pick(dice, &[End::CleanStop, End::Kill, End::PowerCut]);
    let sudden = end != End::CleanStop && !dice.one_in(4);
    LifeSettings {
        requests,
        end,
        crash_at: sudden.then(|| 1 + dice.below(8 * requests)),
        flash_dies_at: dice.one_in(10).then(|| dice.below(requests)),
        dies_silently: dice.one_in(2),
        audit_at_start: dice.one_in(3),
        faults_while_opening: dice.one_in(if restless { 2 } else { 8 }),
    }
}

pub(crate) fn draw_latency(dice: &mut Prng, least: u64, most: u64) -> Latency {
    let least = 1 + dice.below(least);
    Latency {
        least: Duration::from_micros(least),
        most: Duration::from_micros(least + dice.below(most)),
    }
}

fn small(dice: &mut Prng, most: usize) -> usize {
    1 + usize::try_from(dice.below(most as u64)).expect("a small number")
}

/// One of these.
pub(crate) fn pick<'a, T>(dice: &mut Prng, from: &'a [T]) -> &'a T {
    let at = usize::try_from(dice.below(from.len() as u64)).expect("an index");
    &from[at]
}
