//! Demand beside a slow oracle that looks at every access there was.

use policy::demand::{Demand, Exact, Reuses, Sampled, Windows};
use policy::replacement::{Dense, Hashed};
use proptest::prelude::*;
use units::{Duration, Instant, Prng};

/// Sampled times are kept in ticks of so many nanoseconds; at whole ticks both measures are exact.
const TICK: u64 = 1 << 20;

fn windows(secs: &[u64]) -> Windows {
    let lengths: Vec<_> = secs.iter().copied().map(Duration::from_secs).collect();
    Windows::new(&lengths).unwrap()
}

/// Every access there was.
#[derive(Default)]
struct Oracle(Vec<(u32, u64)>);

impl Oracle {
    fn size(&self, reuses: Reuses, window: Duration, now: u64) -> u64 {
        let within = |at: &&(u32, u64)| at.1 + window.as_nanos() >= now;
        let mut keys: Vec<u32> = self.0.iter().filter(within).map(|at| at.0).collect();
        keys.sort_unstable();
        let blocks = keys.chunk_by(|one, other| one == other);
        let reused = blocks.filter(|uses| uses.len() > usize::from(reuses.get()));
        reused.count() as u64
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Access(u32),
    Remove(u32),
    Ask,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = (0..4000_u64, 0..10_u32, 0..10_u8).prop_map(|(ticks, key, dice)| {
        let ticks = if dice % 2 == 0 { ticks } else { ticks % 20 };
        let step = match dice {
            0 => Step::Remove(key),
            1 => Step::Ask,
            _ => Step::Access(key),
        };
        (ticks, step)
    });
    prop::collection::vec(step, 0..300)
}

fn drive(mut measure: impl Demand<u32>, windows: &Windows, steps: &[(u64, Step)]) {
    let mut oracle = Oracle::default();
    let mut now = 0;
    for (ticks, step) in steps {
        now += ticks * TICK;
        let at = Instant::from_nanos(now);
        match *step {
            Step::Access(key) => {
                measure.access(key, at);
                oracle.0.push((key, now));
            }
            Step::Remove(key) => {
                measure.remove(key);
                oracle.0.retain(|(known, _)| *known != key);
            }
            Step::Ask => {}
        }
        for number in 0..=3 {
            let reuses = Reuses::new(number).unwrap();
            let sizes = windows.as_slice().iter();
            let sizes: Vec<u64> = sizes
                .map(|window| oracle.size(reuses, *window, now))
                .collect();
            assert_eq!(measure.ladder(reuses, at), sizes, "N = {number} at {now}");
            let longest = windows.longest();
            assert_eq!(measure.rwss(reuses, longest, at), *sizes.last().unwrap());
        }
    }
}

proptest! {
    #[test]
    fn every_size_is_what_looking_at_all_accesses_finds(steps in steps()) {
        let windows = windows(&[1, 3, 10]);
        drive(Exact::new(&windows, Dense::new()), &windows, &steps);
        drive(Exact::new(&windows, Hashed::new()), &windows, &steps);
        drive(Sampled::new(&windows, 64, 1), &windows, &steps);
    }
}

/// a at 0 s, b at 1, a at 2, c at 5, a at 8; windows of 10 s.
#[test]
fn a_block_is_reused_if_it_was_accessed_twice_in_the_window_both_ends_included() {
    let ten = Duration::from_secs(10);
    let windows = windows(&[10]);
    let mut exact = Exact::new(&windows, Dense::new());
    let at = |secs: u64| Instant::from_nanos(secs * 1_000_000_000);
    for (key, secs) in [(0_u32, 0), (1, 1), (0, 2), (2, 5), (0, 8)] {
        exact.access(key, at(secs));
    }
    let mut sizes = |now: Instant| {
        let sizes = [0, 1, 2].map(|number| {
            let reuses = Reuses::new(number).unwrap();
            Demand::<u32>::rwss(&mut exact, reuses, ten, now)
        });
        (sizes[0], sizes[1], sizes[2])
    };
    assert_eq!(sizes(at(10)), (3, 1, 1));
    assert_eq!(sizes(at(11)), (3, 1, 0));
    assert_eq!(sizes(at(12)), (2, 1, 0));
    assert_eq!(sizes(at(12) + Duration::from_nanos(1)), (2, 0, 0));
    assert_eq!(sizes(at(19)), (0, 0, 0));
}

#[test]
fn time_that_runs_backwards_counts_as_the_latest() {
    let windows = windows(&[10]);
    let mut exact = Exact::new(&windows, Dense::new());
    exact.access(1_u32, Instant::from_nanos(20_000_000_000));
    exact.access(2_u32, Instant::from_nanos(5_000_000_000));
    let now = Instant::from_nanos(29_000_000_000);
    assert_eq!(
        Demand::<u32>::wss(&mut exact, Duration::from_secs(10), now),
        2
    );
}

/// Hot and cold blocks, runs of them, over two days with a quiet night.
fn office(mut access: impl FnMut(u64, u64, Instant), disk: u64) -> Instant {
    let mut dice = Prng::new(3);
    let mut now = Instant::ZERO;
    for step in 0..200_000_u64 {
        let night = (step / 50_000) % 2 == 1;
        now = now + Duration::from_millis(if night { 800 } else { 60 });
        let first = dice.below(disk) * dice.below(disk) / disk;
        access(first, 1 + dice.below(32), now);
    }
    now
}

#[test]
fn memory_stays_within_its_bound_however_much_is_touched() {
    for blocks in [64, 1000, 7168] {
        let mut sampled = Sampled::new(&Windows::ladder(), blocks, 1);
        let bound = Sampled::bound(blocks);
        office(
            |first, count, now| {
                sampled.access_run(first, count, now);
                assert!(sampled.sampled_blocks() <= u64::from(blocks));
                let memory = Demand::<u64>::memory(&sampled);
                assert!(memory <= bound, "{memory} of {bound}");
            },
            2_000_000,
        );
        assert!(sampled.rate() < 0.2, "{}", sampled.rate());
    }
}

/// The rate falls by day and rises by night; estimates are right all along.
#[test]
fn estimates_stay_near_the_exact_sizes_while_the_rate_falls_and_rises() {
    let windows = windows(&[60, 600, 3600]);
    let mut sampled = Sampled::new(&windows, 2000, 5);
    let mut exact = Exact::new(&windows, Dense::new());
    let (mut rates, mut step) = (Vec::new(), 0);
    let (mut worst, mut compared) = ([0.0_f64; 2], 0);
    office(
        |first, count, now| {
            sampled.access_run(first, count, now);
            for block in first..first + count {
                exact.access(u32::try_from(block).unwrap(), now);
            }
            step += 1;
            if step % 2000 != 0 {
                return;
            }
            rates.push(sampled.rate());
            for (at, reuses) in [Reuses::NONE, Reuses::ONE].into_iter().enumerate() {
                let found = Demand::<u64>::ladder(&mut sampled, reuses, now);
                let there = Demand::<u32>::ladder(&mut exact, reuses, now);
                for (found, there) in found.into_iter().zip(there) {
                    if there > 5000 {
                        let (found, there) = (as_f64(found), as_f64(there));
                        worst[at] = worst[at].max((found - there).abs() / there);
                        compared += 1;
                    }
                }
            }
        },
        200_000,
    );
    let raised = rates.windows(2).any(|pair| pair[1] > pair[0] * 1.1);
    let lowered = rates.windows(2).any(|pair| pair[1] < pair[0] * 0.9);
    assert!((raised, lowered) == (true, true), "{rates:?}");
    assert!(compared > 100, "{compared}");
    assert!(worst[0] < 0.25, "{worst:?}");
    assert!(worst[1] < 0.4, "{worst:?}");
}

fn as_f64(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

#[test]
fn a_whole_disk_that_is_discarded_leaves_nothing() {
    let windows = windows(&[60]);
    let minute = Duration::from_secs(60);
    let mut sampled = Sampled::new(&windows, 1000, 1);
    let now = Instant::from_nanos(TICK);
    sampled.access_run(0, 300, now);
    sampled.access_run(1 << 40, 300, now);
    sampled.remove_run(0, 1 << 40);
    assert_eq!(Demand::<u64>::wss(&mut sampled, minute, now), 300);
    sampled.remove_run(1 << 40, 100);
    assert_eq!(Demand::<u64>::wss(&mut sampled, minute, now), 200);
    sampled.access_run(0, 10, now);
    assert_eq!(Demand::<u64>::wss(&mut sampled, minute, now), 210);
}

/// 2^32 ticks are 52 days.
#[test]
fn a_tenant_that_slept_for_months_has_no_demand_and_wakes_up_right() {
    let windows = Windows::ladder();
    let mut sampled = Sampled::new(&windows, 1000, 1);
    let day = 24 * 3_600_000_000_000;
    for days in [52, 53, 104, 200] {
        let before = Instant::from_nanos(days * day - day * 40);
        sampled.access_run(0, 100, before);
        let now = Instant::from_nanos(days * day);
        assert_eq!(Demand::<u64>::wss(&mut sampled, windows.longest(), now), 0);
        sampled.access_run(50, 10, now);
        assert_eq!(Demand::<u64>::wss(&mut sampled, windows.longest(), now), 10);
        let reused = Demand::<u64>::rwss(&mut sampled, Reuses::ONE, windows.longest(), now);
        assert_eq!(reused, 0);
    }
}
