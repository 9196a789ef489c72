//! What holds whatever comes: shares, budgets, memory, and nothing staged that nobody knows of.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

mod support;

use ::admission::AdmissionControl;
use policy::admission;
use policy::admission::budget::Budget;
use policy::allocation;
use proptest::prelude::*;
use simulator::divided_log::DividedLog;
use support::{disk, host, key, read, vm, write};
use tenancy::{Measure, Settings, Spare, TenantSettings, Window};
use units::{Bytes, Duration, Instant, Prng};

/// Every admission policy by its name, and one with a cut-off.
fn admissions() -> Vec<String> {
    let names = admission::Spec::ALL
        .iter()
        .map(|about| about.name.to_owned());
    names.chain(["always:cutoff=32KiB".to_owned()]).collect()
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let admissions = admissions();
    let allocations: Vec<_> = allocation::Spec::ALL
        .iter()
        .map(|about| about.name)
        .collect();
    (
        prop::sample::select(admissions),
        prop::sample::select(allocations),
        prop::sample::select(vec![Spare::Lent, Spare::Idle, Spare::Strict]),
        1..20_u64,
        prop::option::of(64..4096_u64),
        any::<bool>(),
    )
        .prop_map(
            |(admission, allocation, spare, staging, budget, exact)| Settings {
                admission: admission.parse().unwrap(),
                allocation: allocation.parse().unwrap(),
                spare,
                staging: Bytes::kib(staging * 64),
                budget: budget.map(|mib| Budget::per_day(Bytes::mib(mib)).unwrap()),
                window: Window::Fixed(Duration::from_secs(5)),
                measure: if exact {
                    Measure::Exact
                } else {
                    Measure::Sampled(256)
                },
                curve_blocks: 256,
                ..Settings::default()
            },
        )
}

fn any_tenant() -> impl Strategy<Value = TenantSettings> {
    (
        0..8_u64,
        prop::option::of(8..60_u64),
        1..1000_u32,
        any::<bool>(),
    )
        .prop_map(|(floor, ceiling, weight, image)| TenantSettings {
            image,
            floor: Bytes::new(floor * 14 * 4096),
            ceiling: ceiling.map(|segments| Bytes::new(segments * 14 * 4096)),
            weight,
            ..TenantSettings::default()
        })
}

/// Some reads, writes and discards of some tenants, half of them of a tenth of the blocks.
fn work(host: &mut DividedLog, tenants: u16, steps: u64, dice: &mut Prng, clock: &mut u64) {
    for _ in 0..steps {
        *clock += dice.below(20_000_000);
        let now = Instant::from_nanos(*clock);
        let number = u16::try_from(dice.below(tenants.into())).unwrap();
        let span = if dice.one_in(2) { 100 } else { 1000 };
        let block = dice.below(span);
        match dice.below(10) {
            0..=6 => {
                read(host, number, block, 1 + dice.below(4), now);
            }
            7 | 8 => {
                write(host, number, block, now);
            }
            _ => {
                host.advance(now);
                host.invalidate(disk(number), key(number, block));
            }
        }
    }
}

fn check(host: &DividedLog, tenants: &[TenantSettings]) -> Result<(), TestCaseError> {
    let tenancy = host.tenancy();
    let (shares, capacity) = (tenancy.shares(), tenancy.capacity());
    let sum = shares.segments() + u64::from(shares.idle_segments);
    prop_assert_eq!(
        sum,
        u64::from(capacity.segments),
        "shares and what is idle are all there is"
    );
    for (of, settings) in shares.of.iter().zip(tenants) {
        let limits = settings.limits(capacity);
        prop_assert!(
            of.segments >= limits.floor,
            "{of:?} has its floor {limits:?}"
        );
        prop_assert!(
            limits.ceiling.is_none_or(|most| of.segments <= most),
            "{of:?} {limits:?}"
        );
    }
    let admission = tenancy.admission_memory();
    let slack = admission::limits::FIXED_MEMORY.get() * tenants.len() as u64;
    // After a small change of shares tables stay as they are: they have an eighth too much at most.
    let staging = tenancy.settings().staging.get();
    prop_assert!(
        admission.get() <= staging + staging / 8 + slack,
        "admission has {admission}"
    );
    prop_assert!(host.staged_blocks() * 4096 <= tenancy.settings().staging.get());
    host.store().self_check();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn shares_memory_and_staging_hold_whatever_is_set_and_changed(
        first in any_settings(), second in any_settings(),
        tenants in prop::collection::vec(any_tenant(), 1..5),
        late in any_tenant(), seed: u64,
    ) {
        let mut host = host(60, first, &tenants);
        let (mut dice, mut clock) = (Prng::new(seed), 0);
        let count = u16::try_from(tenants.len()).unwrap();
        work(&mut host, count, 2000, &mut dice, &mut clock);
        check(&host, &tenants)?;
        // The measure stays: a sample's blocks cannot be found again.
        let second = Settings { measure: host.tenancy().settings().measure, ..second };
        host.change(|admission| admission.set(second)).unwrap();
        check(&host, &tenants)?;
        work(&mut host, count, 1000, &mut dice, &mut clock);
        check(&host, &tenants)?;
        let mut tenants = tenants;
        let changed = host.change(|admission| admission.set_tenant(vm(0), late.clone()));
        if changed.is_ok() {
            tenants[0] = late;
        }
        work(&mut host, count, 1000, &mut dice, &mut clock);
        check(&host, &tenants)?;
    }

    /// Also over spans in which the daemon starts again, which forgets what was saved. Reads alone, so that
    /// whatever is written is admission's doing: blocks, descriptors, reclaim, journal. A block is paid for when it is let in, and written when its chunk is full or has waited a
    /// second: hence the drip of one second more.
    #[test]
    fn flash_is_never_written_beyond_the_budget_over_any_span_of_time(
        admission in prop::sample::select(admissions()), mib in 64..100_000_u64, seed: u64,
        pace in 1..50_000_000_u64, starts in prop::sample::select(vec![0_u64, 1, 10]),
    ) {
        let burst = Bytes::mib(1);
        let budget = Budget::per_day(Bytes::mib(mib)).unwrap().with_burst(burst);
        let settings = Settings {
            admission: admission.parse().unwrap(),
            staging: Bytes::kib(256),
            budget: Some(budget),
            curve_blocks: 256,
            measure: Measure::Sampled(256),
            ..Settings::default()
        };
        let mut host = host(60, settings, &[TenantSettings::default(), TenantSettings::default()]);
        let mut dice = Prng::new(seed);
        let mut clock = 0;
        let mut written = vec![(0_u64, 0_u64)];
        for _ in 0..3000 {
            clock += dice.below(pace);
            if dice.below(3000) < starts {
                host.change(AdmissionControl::begin_empty);
            }
            let span = if dice.one_in(2) { 200 } else { 4000 };
            let number = u16::try_from(dice.below(2)).unwrap();
            read(&mut host, number, dice.below(span), 1 + dice.below(8), Instant::from_nanos(clock));
            written.push((clock, host.store().written().total()));
        }
        let rate = u128::from(Bytes::mib(mib).get());
        let day = 24 * 3600 * 1_000_000_000_u128;
        let waited = i128::try_from(rate * 1_000_000_000 / day).unwrap() + 1;
        // The worst span that ends at each moment begins where written less dripped was least.
        let mut least = 0_i128;
        for (at, bytes) in written {
            let dripped = i128::try_from(u128::from(at) * rate / day).unwrap();
            let over = i128::from(bytes) - dripped;
            least = least.min(over);
            prop_assert!(over - least <= i128::from(burst.get()) + waited, "at {at} ns: {bytes} bytes");
        }
    }

    /// Whatever the shares are: while one tenant works alone it has all there is, and nothing is refused
    /// for want of room.
    #[test]
    fn no_flash_lies_idle_while_somebody_wants_it(
        allocation in prop::sample::select(vec!["equal", "static", "rwss", "wss", "utility"]),
        tenants in 2..5_usize, seed: u64,
    ) {
        let settings = Settings {
            allocation: allocation.parse().unwrap(),
            window: Window::Fixed(Duration::from_secs(5)),
            ..Settings::default()
        };
        let mut host = host(60, settings, &vec![TenantSettings::default(); tenants]);
        let (mut dice, mut clock) = (Prng::new(seed), 0);
        work(&mut host, 1, 3000, &mut dice, &mut clock);
        let held = host.store().facts().held(vm(0));
        prop_assert!(held >= 58, "{held} of 60");
        prop_assert_eq!(host.store().stats().not_taken.no_segment, 0);
    }
}

/// What is stated of one tenant's measures bounds what they take.
#[test]
fn the_memory_of_a_tenant_is_within_what_is_stated() {
    let settings = Settings {
        curve_blocks: 1024,
        measure: Measure::Sampled(1024),
        window: Window::Fixed(Duration::from_secs(5)),
        ..Settings::default()
    };
    let mut host = host(60, settings, &[TenantSettings::default()]);
    for step in 0..200_000_u64 {
        let now = Instant::from_nanos(step * 100_000);
        read(&mut host, 0, step * 37 % 500_000, 1, now);
    }
    // The rate of samples, not the arithmetic of settings, is what bounds them.
    let memory = host.tenancy().memory();
    assert!(memory < Bytes::kib(400), "{memory}");
}
