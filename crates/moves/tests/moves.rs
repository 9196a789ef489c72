//! Moves of small VMs: no guest ever gets older bytes than it has written, and a seed decides everything.

use borrowing::Guard;
use moves::outcome::Outcome;
use moves::run;
use moves::setup::{Arrival, Cache, Dirty, Pace, Requests, Setup, Vm, Writes};
use simulator::device::DeviceSettings;
use strategies::Strategy;
use units::Duration;

const BLOCKS: u32 = 4_096;

fn vm(seed: u64, arrival: Arrival) -> Vm {
    let text =
        format!("gen:zipf,blocks={BLOCKS},requests=10M,theta=0.8,reads=0.6,rate=4000,seed={seed}");
    Vm {
        requests: Requests::Generated(text.parse().expect("it is one")),
        arrival,
        blocks: BLOCKS,
        cache_blocks: BLOCKS / 2,
        warming: 20_000,
        warmed_by: None,
        dirty: 0.3,
        is_there: seed > 1,
    }
}

fn device(text: &str) -> DeviceSettings {
    text.parse().expect("it is one")
}

fn setup(strategy: Strategy, writes: Writes, dirty: Dirty) -> Setup {
    Setup {
        row: strategy.row(),
        dirty,
        only_dirty: false,
        pace: Pace::HEARTH,
        cache: Cache::Daemon,
        waits_for_fills: false,
        writes,
        flash: device("nvme"),
        path: device("read=50us,write=50us,iops=40000,bandwidth=1000MiB/s,parallel=unlimited"),
        origin: device("ssd-cluster"),
        link: device("read=100us,bandwidth=200MiB/s,iops=unlimited,parallel=unlimited"),
        vms: vec![vm(1, Arrival::Timed), vm(2, Arrival::Depth(4))],
        before: Duration::from_millis(100),
        ahead: Duration::from_millis(400),
        pause: Duration::from_millis(5),
        after: Duration::from_millis(600),
        interval: Duration::from_millis(50),
        stale_pause: Duration::from_millis(20),
        seed: 1,
    }
}

fn all() -> impl Iterator<Item = (Strategy, Writes, Dirty, Cache)> {
    let dirty = [Dirty::Flush, Dirty::Drain, Dirty::Ship, Dirty::Addresses];
    let back = dirty.map(|dirty| (Writes::Back, dirty));
    let through = [
        (Writes::Around, Dirty::Flush),
        (Writes::Through, Dirty::Drain),
    ];
    let caches = [
        Cache::Daemon,
        Cache::Sets {
            ways: 64,
            spread: 2.0,
        },
    ];
    let writes = through.into_iter().chain(back);
    Strategy::ALL.into_iter().flat_map(move |strategy| {
        writes
            .clone()
            .flat_map(move |(writes, dirty)| caches.map(|cache| (strategy, writes, dirty, cache)))
    })
}

fn summary(outcome: &Outcome) -> impl PartialEq + std::fmt::Debug {
    let vms = outcome.vms.iter();
    let vms: Vec<_> = vms
        .map(|vm| {
            (
                vm.after.samples.clone(),
                vm.after.quantile(0.9),
                vm.before.total,
            )
        })
        .collect();
    let Outcome {
        paused,
        copied,
        from_lender,
        from_origin,
        discarded,
        ..
    } = *outcome;
    (vms, paused, copied, from_lender, from_origin, discarded)
}

#[test]
fn no_guest_gets_older_bytes_than_it_has_written() {
    for (strategy, writes, dirty, cache) in all() {
        let mut setup = setup(strategy, writes, dirty);
        setup.cache = cache;
        let outcome = run(&setup).unwrap();
        let what = format!("{strategy:?} {writes:?} {dirty:?} {cache:?}");
        assert_eq!(outcome.stale, 0, "{what}");
        let moved = &outcome.vms[0];
        assert!(moved.before.total.reads > 0, "{what}");
        assert!(
            moved.after.total.reads > 500,
            "{what}: {:?}",
            moved.after.total
        );
        assert!(moved.after.total.writes > 300, "{what}");
        assert!(outcome.paused >= setup.pause, "{what}");
    }
}

#[test]
fn a_seed_decides_everything() {
    for strategy in Strategy::ALL {
        let setup = setup(strategy, Writes::Around, Dirty::Flush);
        let both = [run(&setup).unwrap(), run(&setup).unwrap()];
        assert_eq!(summary(&both[0]), summary(&both[1]), "{strategy:?}");
    }
}

/// Runs with one of the daemon's rules taken out.
fn stale_without(guard: Guard, strategy: Strategy) -> u64 {
    borrowing::remove(Some(guard));
    let outcome = run(&setup(strategy, Writes::Around, Dirty::Flush));
    borrowing::remove(None);
    outcome.expect("a log has room").stale
}

#[test]
fn changes_that_are_not_told_are_noticed() {
    assert!(stale_without(Guard::ChangesAreTold, Strategy::Live) > 0);
    assert!(stale_without(Guard::ChangesAreTold, Strategy::Proactive) > 0);
}

#[test]
fn a_changed_block_that_is_borrowed_is_noticed() {
    assert!(stale_without(Guard::ChangedIsNotBorrowed, Strategy::Pool) > 0);
}
