//! Worked examples: what the tenancy decides, by hand.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

mod support;

use policy::admission::Reason;
use policy::admission::budget::Budget;
use simulator::divided_log::{DividedLog, Found, Outcome};
use support::{disk, host, key, log_of, read, request, seconds, vm, write};
use tenancy::{
    Capacity, Measure, Request, Settings, SettingsError, Spare, Tenancy, TenantSettings, Window,
};
use units::{BlockIndex, Bytes, Duration, Instant, Prng};

fn settings(allocation: &str, window: Duration) -> Settings {
    Settings {
        allocation: allocation.parse().unwrap(),
        prediction: "last".parse().unwrap(),
        measure: Measure::Exact,
        window: Window::Fixed(window),
        hysteresis: policy::replacement::Fraction::ZERO,
        ..Settings::default()
    }
}

/// Two tenants of whom nothing is said.
fn two() -> [TenantSettings; 2] {
    [TenantSettings::default(), TenantSettings::default()]
}

/// The share of each tenant.
fn segments(host: &DividedLog) -> Vec<u32> {
    let shares = host.tenancy().shares();
    shares.of.iter().map(|of| of.segments).collect()
}

/// So many MiB a day, and so many of them at once.
fn budget(mib_a_day: u64, burst_mib: u64) -> Budget {
    let budget = Budget::per_day(Bytes::mib(mib_a_day)).unwrap();
    budget.with_burst(Bytes::mib(burst_mib))
}

/// How many of the blocks were written to flash.
fn stored(outcomes: &[Outcome]) -> u64 {
    outcomes.iter().filter(|outcome| outcome.stored).count() as u64
}

/// How many blocks of a VM were refused for this reason.
fn refused(host: &DividedLog, number: u16, reason: Reason) -> u64 {
    let counts = host.tenancy().counts(vm(number)).unwrap();
    counts.refused.of(reason)
}

const MINUTE: Duration = Duration::from_secs(60);

/// One tenant, everything admitted, nothing budgeted: the log behaves as if nobody asked.
#[test]
fn a_tenancy_that_admits_everything_changes_nothing() {
    let mut alone = log_of(60);
    let mut host = host(60, Settings::default(), &[TenantSettings::default()]);
    let mut dice = Prng::new(3);
    let (mut hits, mut hits_alone) = (0, 0);
    for step in 0..40_000_u64 {
        let now = Instant::from_nanos(step * 5_000_000);
        let span = if dice.one_in(2) { 300 } else { 3000 };
        let block = dice.below(span);
        let key = key(0, block);
        alone.advance(now);
        let (outcome, hit) = if dice.one_in(4) {
            let arrival = host.arrives(&request(0, block, 1, true, now));
            host.advance(now);
            let outcome = host.write(&arrival, disk(0), key, false);
            (outcome, alone.write(disk(0), key, false, &mut |_, _| {}))
        } else {
            let outcome = read(&mut host, 0, block, 1, now)[0];
            (outcome, alone.read(disk(0), key, &mut |_, _| {}))
        };
        hits += u32::from(outcome.found == Found::Flash);
        hits_alone += u32::from(hit);
    }
    assert!(hits > 10_000);
    assert_eq!(hits, hits_alone);
    assert_eq!(host.store().written(), alone.written());
    assert_eq!(host.store().stats(), alone.stats());
    let counts = *host.tenancy().counts(vm(0)).unwrap();
    assert_eq!(counts.evicted, alone.stats().blocks_evicted);
    assert_eq!(
        host.tenancy().host_report().wrote.total(),
        alone.written().total(),
        "every byte was charged"
    );
}

/// 60 segments of 14 blocks. In the first minute the first VM uses 280
/// blocks twice and the second 140, and 1,000 each once: 2 to 1 of 60 segments.
#[test]
fn shares_follow_what_was_used_again() {
    let tenants = two();
    let mut host = host(60, settings("rwss", MINUTE), &tenants);
    let at_first = segments(&host);
    assert_eq!(at_first, [30, 30], "equal parts until somebody is known");
    for _ in 0..2 {
        read(&mut host, 0, 0, 280, seconds(1));
        read(&mut host, 1, 0, 140, seconds(2));
    }
    for number in 0..2 {
        read(&mut host, number, 5000, 1000, seconds(3));
    }
    host.advance(seconds(60));
    let shares = host.tenancy().shares().clone();
    assert_eq!((shares.window, shares.since), (1, seconds(60)));
    assert_eq!(segments(&host), [40, 20]);
    assert!(!shares.overloaded, "420 blocks of 840 are wanted");
    assert_eq!(host.store().facts().share(vm(0)), 40);
    let wants = *host.tenancy().wants(vm(0)).unwrap();
    assert_eq!((wants.wss, wants.rwss), (1280, 280));
    assert_eq!(wants.rwss_predicted, Some(280.0));
    // Nothing happens in the next minute: nobody wants anything.
    host.advance(seconds(121));
    assert_eq!(host.tenancy().wants(vm(0)).unwrap().rwss, 0);
}

/// The same demand, and spare flash stays idle: 20 and 10 segments.
#[test]
fn spare_flash_stays_idle_where_that_is_set() {
    let settings = Settings {
        spare: Spare::Idle,
        ..settings("rwss", MINUTE)
    };
    let tenants = two();
    let mut host = host(60, settings, &tenants);
    for _ in 0..2 {
        read(&mut host, 0, 0, 280, seconds(1));
        read(&mut host, 1, 0, 140, seconds(2));
    }
    host.advance(seconds(60));
    assert_eq!(segments(&host), [20, 10]);
    assert_eq!(host.tenancy().shares().idle_segments, 30);
    // A scan of the second VM keeps to its ten segments, and one for each of its two streams.
    for first in (10_000..13_000).step_by(50) {
        read(&mut host, 1, first, 50, seconds(61));
    }
    let held = host.store().facts().held(vm(1));
    assert!(held <= 12, "{held}");
}

/// A tenant may take what others leave: 60 segments of which one VM uses nothing.
#[test]
fn what_one_leaves_another_uses() {
    let tenants = two();
    let mut host = host(60, Settings::default(), &tenants);
    for first in (0..3000).step_by(50) {
        read(&mut host, 0, first, 50, seconds(1));
    }
    let held = host.store().facts().held(vm(0));
    assert!(held >= 58, "{held} of 60, though its share is 30");
    // When the other comes, the first gives back what is above its share and no more.
    for first in (0..3000).step_by(50) {
        read(&mut host, 1, first, 50, seconds(2));
    }
    let held = [vm(0), vm(1)].map(|tenant| host.store().facts().held(tenant));
    assert!(held[0] >= 29 && held[1] >= 29, "{held:?}");
}

/// 10 MiB a minute and a burst of 1 MiB: after 256 blocks, less the reserve of two segments of 14 blocks and
/// a checkpoint, nothing comes in until time has passed.
#[test]
fn a_budget_that_is_used_up_refuses_and_says_so() {
    let settings = Settings {
        budget: Some(budget(14_400, 1)),
        ..Settings::default()
    };
    let mut host = host(512, settings, &[TenantSettings::default()]);
    let at_once = stored(&read(&mut host, 0, 0, 1000, seconds(0)));
    let all = host.tenancy().refused().of(Reason::Budget);
    assert_eq!(at_once + all, 1000);
    // Each 14 blocks pay for a header and a footer, too.
    let reserve = host.tenancy().capacity().device_reserve();
    let most = (256 - reserve.get() / 4096) * 14 / 16;
    assert!(
        (most - 14..=most + 2).contains(&at_once),
        "{at_once} of {most}"
    );
    let left = host.tenancy().host_report().budget.unwrap();
    assert!(
        left.left + Bytes::kib(16) >= reserve && left.debt.is_zero(),
        "{left:?}"
    );
    // Half a second is 85 KiB, 21 blocks, some of them for headers.
    let later = Instant::ZERO + Duration::from_millis(500);
    let then = stored(&read(&mut host, 0, 5000, 100, later));
    assert!((15..=24).contains(&then), "{then}");
    assert_eq!(refused(&host, 0, Reason::Budget), all + 100 - then);
}

fn filled_before_larc() -> Settings {
    Settings {
        admission: "larc".parse().unwrap(),
        staging: Bytes::mib(1),
        fill: true,
        ..Settings::default()
    }
}

/// Room for 840 blocks, of which a third is read twice: what is read for the first time enters until one has to leave, and
/// from then on only what LARC has seen before. A block that is only written waits for LARC from the beginning.
#[test]
fn an_empty_flash_is_filled_with_what_is_read_where_a_third_comes_back() {
    let mut host = host(60, filled_before_larc(), &[TenantSettings::default()]);
    assert!(!write(&mut host, 0, 9999, seconds(0)).stored);
    for key in 0..840 {
        assert_eq!(stored(&read(&mut host, 0, key, 1, seconds(1))), 1, "{key}");
        if key % 3 == 0 {
            read(&mut host, 0, key, 1, seconds(1));
        }
    }
    let before = *host.tenancy().counts(vm(0)).unwrap();
    assert_eq!((before.filled, before.evicted), (840, 0));
    let more = stored(&read(&mut host, 0, 2000, 100, seconds(2)));
    assert!((1..=28).contains(&more), "{more}: two segments at most");
    let after = *host.tenancy().counts(vm(0)).unwrap();
    assert_eq!(after.filled, 840 + more);
    assert!(after.evicted > 0);
    assert_eq!(
        after.refused.of(Reason::FirstTouch) - before.refused.of(Reason::FirstTouch),
        100 - more
    );
}

#[test]
fn half_of_a_share_is_filled_with_what_nobody_reads_again() {
    let mut host = host(60, filled_before_larc(), &[TenantSettings::default()]);
    let filled = stored(&read(&mut host, 0, 0, 800, seconds(0)));
    // Of 60 segments of 16 blocks, descriptors and all.
    assert!((480..540).contains(&filled), "{filled}");
    assert_eq!(stored(&read(&mut host, 0, 900, 100, seconds(0))), 0);
}

#[test]
fn a_base_image_is_filled_with_all_that_is_read() {
    let image = TenantSettings {
        image: true,
        ..TenantSettings::default()
    };
    let mut host = host(60, filled_before_larc(), &[image]);
    assert_eq!(stored(&read(&mut host, 0, 0, 800, seconds(0))), 800);
}

#[test]
fn a_fill_stays_within_the_write_budget() {
    let settings = Settings {
        budget: Some(budget(64, 1)),
        ..filled_before_larc()
    };
    let mut host = host(512, settings, &[TenantSettings::default()]);
    let filled = stored(&read(&mut host, 0, 0, 1000, seconds(0)));
    let counts = host.tenancy().counts(vm(0)).unwrap();
    assert!((10..256).contains(&filled), "{filled}");
    assert_eq!((counts.filled, counts.admitted), (filled, filled));
    assert_eq!(counts.refused.of(Reason::Budget), 1000 - filled);
}

#[test]
fn a_vms_own_budget_leaves_the_others_alone() {
    let poor = TenantSettings {
        budget: Some(budget(64, 1)),
        ..TenantSettings::default()
    };
    let mut host = host(512, Settings::default(), &[poor, TenantSettings::default()]);
    read(&mut host, 0, 0, 1000, seconds(0));
    read(&mut host, 1, 0, 1000, seconds(0));
    assert!(refused(&host, 0, Reason::Budget) > 700);
    assert_eq!(refused(&host, 1, Reason::Budget), 0);
}

/// Whatever is done to a budget of 1 MiB at once, no more is written in that moment: it is set again,
/// changed and changed back, and its tenant goes and comes back.
#[test]
fn a_budget_that_is_set_again_and_again_hands_out_one_burst() {
    let all = |burst_mib| Settings {
        budget: Some(budget(64, burst_mib)),
        ..Settings::default()
    };
    let own = |burst_mib| TenantSettings {
        budget: Some(budget(64, burst_mib)),
        ..TenantSettings::default()
    };
    let mut of_all = host(512, all(1), &[TenantSettings::default()]);
    let mut of_one = host(512, Settings::default(), &[own(1)]);
    let mut written = [0, 0];
    for round in 0..20 {
        for (written, host) in written.iter_mut().zip([&mut of_all, &mut of_one]) {
            *written += stored(&read(host, 0, round * 300, 300, seconds(0)));
        }
        for mib in [1, 1, 4, 2, 1] {
            of_all.change(|admission| admission.set(all(mib))).unwrap();
            of_one
                .change(|admission| admission.set_tenant(vm(0), own(mib)))
                .unwrap();
        }
        of_one
            .change(|admission| {
                assert!(admission.detach(vm(0)));
                admission.attach(vm(0), own(1))
            })
            .unwrap();
    }
    assert!(
        written.iter().all(|written| (150..=256).contains(written)),
        "{written:?}"
    );
}

/// A cached block whose new copy may not be written leaves the cache: it must not be served stale.
#[test]
fn a_rewrite_beyond_the_budget_drops_the_block() {
    let settings = Settings {
        budget: Some(budget(64, 1)),
        ..Settings::default()
    };
    let mut host = host(512, settings, &[TenantSettings::default()]);
    read(&mut host, 0, 0, 1000, seconds(0));
    let outcome = write(&mut host, 0, 0, seconds(0));
    assert_eq!((outcome.found, outcome.stored), (Found::Flash, false));
    assert_eq!(
        read(&mut host, 0, 0, 1, seconds(0))[0].found,
        Found::Nowhere
    );
}

#[test]
fn a_sequential_run_is_cut_off_where_the_policy_says() {
    let settings = Settings {
        admission: "always:cutoff=64KiB".parse().unwrap(),
        ..Settings::default()
    };
    let mut host = host(512, settings, &[TenantSettings::default()]);
    for first in (0..64).step_by(8) {
        read(&mut host, 0, first, 8, seconds(0));
    }
    let counts = host.tenancy().counts(vm(0)).unwrap();
    // The first two requests make a run of 16 blocks; the other six are beyond 64 KiB.
    assert_eq!(counts.admitted, 16);
    assert_eq!(counts.refused.of(Reason::Sequential), 48);
}

/// Three VMs read 100 blocks of an image, one of them 50 more: without sharing 350 blocks would be
/// cached, with it 150.
#[test]
fn what_sharing_an_image_saves_is_seen() {
    let image = TenantSettings {
        image: true,
        ..TenantSettings::default()
    };
    let vms = [(); 3].map(|()| TenantSettings::default());
    let mut tenants = vms.to_vec();
    tenants.push(image);
    let mut host = host(512, Settings::default(), &tenants);
    let mut reads = |number, first, count| {
        let asks = Request {
            vm: vm(number),
            ..request(3, first, count, false, seconds(0))
        };
        let arrival = host.arrives(&asks);
        for block in first..first + count {
            host.read(&arrival, disk(3), key(3, block));
        }
    };
    for number in 0..3 {
        reads(number, 0, 100);
    }
    reads(2, 100, 50);
    let report = host.tenancy().report(vm(3)).unwrap();
    let sharing = report.sharing.unwrap();
    assert_eq!((sharing.shared_blocks, sharing.saved_blocks), (100, 200));
    assert_eq!(sharing.users[2].blocks, 150);
    assert_eq!(report.counts.reads, 350);
    assert_eq!(host.tenancy().host_report().saved_by_sharing_blocks, 200);
    let counts = |number| *host.tenancy().counts(vm(number)).unwrap();
    assert_eq!((counts(0).image_reads, counts(0).image_hits), (100, 0));
    assert_eq!((counts(1).image_reads, counts(1).image_hits), (100, 100));
    assert_eq!(counts(1).reads, 0, "none of its own");
}

#[test]
fn a_window_that_is_noticed_late_decides_the_same() {
    let tenants = two();
    let run = |pauses: &[u64]| {
        let mut host = host(60, settings("rwss", MINUTE), &tenants);
        for _ in 0..2 {
            read(&mut host, 0, 0, 280, seconds(1));
            read(&mut host, 1, 0, 140, seconds(50));
        }
        for pause in pauses {
            host.advance(seconds(*pause));
        }
        read(&mut host, 0, 0, 10, seconds(200));
        let shares = host.tenancy().shares().clone();
        (shares, *host.tenancy().wants(vm(1)).unwrap())
    };
    assert_eq!(run(&[60, 120, 180]), run(&[]));
    assert_eq!(run(&[61, 150]), run(&[]));
}

#[test]
fn a_long_rest_is_slept_through() {
    let mut host = host(60, settings("rwss", MINUTE), &[TenantSettings::default()]);
    read(&mut host, 0, 0, 100, seconds(1));
    host.advance(Instant::from_nanos(u64::MAX));
    assert!(host.tenancy().shares().window < 10_000);
}

const SIXTY_MIB: Capacity = Capacity {
    segments: 60,
    segment_blocks: 256,
    checkpoint: Bytes::ZERO,
};

#[test]
fn tenants_that_contradict_each_other_are_refused_with_the_arithmetic() {
    let capacity = SIXTY_MIB;
    let mut tenancy = Tenancy::<u32>::new(Settings::default(), capacity, Instant::ZERO).unwrap();
    let floor = |mib| TenantSettings {
        floor: Bytes::mib(mib),
        ..TenantSettings::default()
    };
    let mut left = Vec::new();
    let mut attach = |slot, settings| {
        let attached = tenancy.attach(vm(slot), settings, &mut left);
        attached.map_err(|error| error.to_string())
    };
    attach(0, floor(40)).unwrap();
    let message = attach(1, floor(21)).unwrap_err();
    assert!(
        message.contains("61 segments, 1 more than the 60"),
        "{message}"
    );
    attach(1, floor(20)).unwrap();
    let message = attach(1, floor(0)).unwrap_err();
    assert!(message.contains("already"), "{message}");
    let narrow = TenantSettings {
        ceiling: Some(Bytes::mib(10)),
        ..floor(12)
    };
    let message = attach(2, narrow).unwrap_err();
    assert!(message.contains("lower the other by 2MiB"), "{message}");
    let low = TenantSettings {
        ceiling: Some(Bytes::mib(1)),
        ..floor(0)
    };
    assert!(attach(2, low).unwrap_err().contains("2MiB of two segments"));
}

#[test]
fn settings_that_contradict_themselves_are_refused_with_the_arithmetic() {
    let set = |settings| {
        let capacity = SIXTY_MIB;
        let new = Tenancy::<u32>::new(settings, capacity, Instant::ZERO);
        new.err().expect("it is refused").to_string()
    };
    let budget = Budget::per_day(Bytes::mib(1)).unwrap();
    let message = set(Settings {
        budget: Some(budget),
        ..Settings::default()
    });
    assert!(
        message.contains("1MiB a day is less than 64MiB"),
        "{message}"
    );
    let burst = Budget::per_day(Bytes::gib(1))
        .unwrap()
        .with_burst(Bytes::mib(1));
    let message = set(Settings {
        budget: Some(burst),
        ..Settings::default()
    });
    assert!(message.contains("burst of 1MiB"), "{message}");
    let message = set(Settings {
        staging: Bytes::mib(100),
        memory: Bytes::mib(64),
        ..Settings::default()
    });
    assert!(
        message.contains("come to 100MiB, above the memory limit of 64MiB"),
        "{message}"
    );
    let message = set(Settings {
        staging: Bytes::kib(4),
        ..Settings::default()
    });
    assert!(message.contains("64KiB"), "{message}");
    let message = set(Settings {
        admission: "larc".parse().unwrap(),
        ..Settings::default()
    });
    assert!(
        message.contains("admission larc") && message.contains("1% of"),
        "{message}"
    );
    let message = set(Settings {
        window: Window::Fixed(Duration::ZERO),
        ..Settings::default()
    });
    assert!(message.contains("a window of 0s"), "{message}");
    let message = set(Settings {
        curve_blocks: 7,
        ..Settings::default()
    });
    assert!(message.contains("7 blocks for curves"), "{message}");
}

#[test]
fn a_refused_change_changes_nothing_and_an_accepted_one_acts_at_once() {
    let tenants = two();
    let mut host = host(60, Settings::default(), &tenants);
    let before = host.tenancy().shares().clone();
    let too_much = TenantSettings {
        floor: Bytes::gib(1),
        ..TenantSettings::default()
    };
    let refused = host.change(|admission| admission.set_tenant(vm(0), too_much));
    assert!(matches!(refused, Err(SettingsError::Limits { .. })));
    assert_eq!(host.tenancy().shares(), &before);
    let floor = TenantSettings {
        floor: Bytes::new(45 * 14 * 4096),
        ..TenantSettings::default()
    };
    host.change(|admission| admission.set_tenant(vm(1), floor))
        .unwrap();
    assert_eq!(host.store().facts().share(vm(1)), 45);
    let unknown = host.change(|admission| admission.set_tenant(vm(9), TenantSettings::default()));
    assert_eq!(unknown, Err(SettingsError::UnknownTenant(vm(9))));
    let set = Settings {
        allocation: "static".parse().unwrap(),
        admission: "always:cutoff=4MiB".parse().unwrap(),
        ..Settings::default()
    };
    host.change(|admission| admission.set(set)).unwrap();
    assert_eq!(
        host.tenancy().report(vm(0)).unwrap().admission,
        "always:cutoff=4MiB"
    );
}

#[test]
fn a_tenant_that_leaves_gives_its_share_back() {
    let tenants = two();
    let mut host = host(60, Settings::default(), &tenants);
    read(&mut host, 0, 0, 100, seconds(0));
    host.change(|admission| {
        assert!(admission.detach(vm(0)));
        assert!(!admission.detach(vm(0)));
    });
    let shares = host.tenancy().shares();
    assert_eq!((shares.of.len(), shares.of[0].segments), (1, 60));
    assert!(host.tenancy().report(vm(0)).is_none());
}

#[test]
fn the_last_disk_and_the_last_tenant_are_like_any_other() {
    let capacity = Capacity {
        segments: 4096,
        segment_blocks: 16,
        checkpoint: Bytes::ZERO,
    };
    let settings = Settings {
        measure: Measure::Sampled(64),
        curve_blocks: 256,
        memory: Bytes::gib(4),
        ..Settings::default()
    };
    let mut tenancy = Tenancy::<u32>::new(settings, capacity, Instant::ZERO).unwrap();
    for slot in 0..1024 {
        tenancy
            .attach(vm(slot), TenantSettings::default(), &mut Vec::new())
            .unwrap();
    }
    let last = Request {
        first: BlockIndex::new((1 << BlockIndex::BITS) - 1),
        ..request(1023, 0, 1, false, seconds(0))
    };
    let arrival = tenancy.arrives(&last);
    tenancy.missed(&arrival, 7, &mut Vec::new());
    assert_eq!(tenancy.shares().segments(), 4096);
    assert_eq!(tenancy.counts(vm(1023)).unwrap().admitted, 1);
}
