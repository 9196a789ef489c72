//! What a seed, and an operator while the cache serves, may ask of tenants.

use super::pick;
use policy::admission::budget::Budget;
use tenancy::{Capacity, Measure, Settings, Spare, TenantSettings, Window};
use units::{Bytes, Duration, Prng};

const ADMISSION: [&str; 13] = [
    "always",
    "always:cutoff=16KiB",
    "larc",
    "staging:kind=address",
    "staging:kind=data",
    "staging:kind=hybrid",
    "staging:kind=data,n=2",
    "hec",
    "frequency:threshold=2",
    "probation",
    "probation:data=0.5",
    "reuse-age",
    "reuse-age:data=0.5",
];

const HOT: [&str; 4] = ["s3-fifo", "w-tinylfu", "lru", "frequency"];

const PREFETCH: [&str; 6] = [
    "none",
    "none",
    "sequential:n=8",
    "readahead",
    "readahead,vip,mithril",
    "delta",
];

const ALLOCATION: [&str; 8] = [
    "equal",
    "static",
    "wss",
    "rwss",
    "recs",
    "rcrs",
    "rcrs-plus",
    "utility",
];

/// What may hold for all tenants of a world.
pub(crate) fn draw_settings(dice: &mut Prng, capacity: Capacity) -> Settings {
    let spec = "it is registered by this name";
    let budget = dice.one_in(3).then(|| {
        let per_second = *pick(dice, &[1_000, 100_000, 3_000_000]);
        let burst = capacity.device_reserve() + Bytes::kib(4 + 4 * dice.below(60));
        let budget = Budget::per_day(Bytes::new(per_second * 24 * 3600));
        budget.expect("it is not nothing").with_burst(burst)
    });
    let admission = pick(dice, &ADMISSION).parse().expect(spec);
    let fill = dice.one_in(3);
    let staging = Bytes::kib(*pick(dice, &[0, 64, 64, 200, 1_000]));
    // Of dice of their own, so that worlds without memory stay what they were.
    let mut others = dice.clone();
    let copies = *pick(&mut others, &[0, 0, 200, 1_000]);
    Settings {
        frames: (copies > 0).then(|| staging + Bytes::kib(copies)),
        hot: pick(&mut others, &HOT).parse().expect(spec),
        prefetch: pick(&mut others, &PREFETCH).parse().expect(spec),
        admission,
        fill,
        staging,
        budget,
        allocation: pick(dice, &ALLOCATION).parse().expect(spec),
        spare: *pick(
            dice,
            &[Spare::Lent, Spare::Lent, Spare::Idle, Spare::Strict],
        ),
        measure: Measure::Sampled(64),
        window: Window::Fixed(Duration::from_secs(1)),
        curve_blocks: 256,
        memory: Bytes::mib(64),
        ..Settings::default()
    }
}

/// The same, with no memory in front of the flash but for what is staged.
pub(crate) fn without_memory(settings: &mut Settings) {
    settings.frames = None;
    settings.prefetch = "none".parse().expect("nobody guesses");
}

/// What may hold for one tenant; some of it cannot hold beside the others'.
pub(crate) fn draw_tenant(dice: &mut Prng, capacity: Capacity) -> TenantSettings {
    let segments = |count: u64| Bytes::new(capacity.segment_bytes() * count);
    TenantSettings {
        floor: segments(*pick(dice, &[0, 0, 1, 3, 9])),
        ceiling: dice.one_in(4).then(|| segments(3 + dice.below(9))),
        weight: *pick(dice, &[10, 100, 400]),
        high_priority: dice.one_in(4),
        admission: dice
            .one_in(3)
            .then(|| pick(dice, &ADMISSION).parse().expect("it is registered")),
        ..TenantSettings::default()
    }
}
