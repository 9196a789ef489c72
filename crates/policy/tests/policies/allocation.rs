//! Allocators: examples by hand, and what all of them promise.

use policy::allocation::{BadLimits, Cached, Division, Limits, Room, Size, Spare, Spec, Tenant};
use policy::replacement::Fraction;
use proptest::prelude::*;
use units::TenantSlot;

const SEGMENT: u32 = 256;

fn room(capacity: u32, spare: Spare) -> Room {
    Room {
        capacity,
        segment_blocks: SEGMENT,
        spare,
        hysteresis: Fraction::ZERO,
    }
}

fn tenant(slot: u16) -> Tenant<'static> {
    Tenant {
        slot: TenantSlot::new(slot),
        limits: Limits::default(),
        before: None,
        wss: None,
        rwss: None,
        cached: Cached::default(),
        cached_before: Cached::default(),
        curve: &[],
        accesses_a_second: 100.0,
        saved_us: 1000.0,
    }
}

fn with_demand(slot: u16, segments: u32) -> Tenant<'static> {
    Tenant {
        rwss: Some(f64::from(segments * SEGMENT)),
        wss: Some(f64::from(segments * SEGMENT) * 2.0),
        ..tenant(slot)
    }
}

fn divide(spec: &str, room: &Room, tenants: &[Tenant<'_>]) -> Division {
    spec.parse::<Spec>().unwrap().divide(room, tenants).unwrap()
}

fn shares(spec: &str, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
    divide(spec, room, tenants).shares
}

#[test]
fn equal_parts_are_equal_but_for_floors_and_ceilings() {
    let mut three = [tenant(0), tenant(1), tenant(2)];
    let room = room(100, Spare::Spread);
    assert_eq!(shares("equal", &room, &three), [34, 33, 33]);
    three[1].limits.floor = 50;
    three[2].limits.weight = 10_000;
    assert_eq!(shares("equal", &room, &three), [25, 50, 25]);
    three[0].limits.ceiling = Some(5);
    assert_eq!(shares("equal", &room, &three), [5, 50, 45]);
}

#[test]
fn static_parts_are_by_weight() {
    let mut three = [tenant(0), tenant(1), tenant(2)];
    three[0].limits.weight = 200;
    let room = room(100, Spare::Spread);
    assert_eq!(shares("static", &room, &three), [50, 25, 25]);
    three[0].limits.ceiling = Some(20);
    assert_eq!(shares("static", &room, &three), [20, 40, 40]);
    for one in &mut three {
        one.limits.ceiling = Some(20);
    }
    let division = divide("static", &room, &three);
    assert_eq!((division.shares, division.idle), (vec![20, 20, 20], 40));
}

#[test]
fn demands_that_fit_are_met_and_the_spare_goes_by_demand_or_stays_idle() {
    let two = [with_demand(0, 20), with_demand(1, 30)];
    let idle = divide("rwss", &room(100, Spare::Idle), &two);
    assert_eq!((idle.shares, idle.idle), (vec![20, 30], 50));
    assert!((idle.load - 0.5).abs() < 1e-9);
    assert_eq!(shares("rwss", &room(100, Spare::Spread), &two), [40, 60]);
    // Of working sets twice as large everything is needed.
    assert_eq!(shares("wss", &room(100, Spare::Idle), &two), [40, 60]);
}

#[test]
fn demands_that_do_not_fit_are_scaled_and_the_overload_is_reported() {
    let mut three = [
        with_demand(0, 100),
        with_demand(1, 200),
        with_demand(2, 100),
    ];
    let full = room(100, Spare::Idle);
    let division = divide("rwss", &full, &three);
    assert_eq!(division.shares, [25, 50, 25]);
    assert!((division.load - 4.0).abs() < 1e-9);
    assert!(division.is_overloaded());
    // Weight 3 by demand 1 is as much as the others' 1 by 2 and 1 by 1 together.
    three[0].limits.weight = 300;
    assert_eq!(shares("rwss", &full, &three), [50, 33, 17]);
    // Nobody gets more than its demand while others lack theirs.
    let small = [with_demand(0, 10), with_demand(1, 200)];
    let heavy = Limits {
        weight: 10_000,
        ..Limits::default()
    };
    let small = [
        Tenant {
            limits: heavy,
            ..small[0]
        },
        small[1],
    ];
    assert_eq!(shares("rwss", &full, &small), [10, 90]);
}

#[test]
fn who_has_no_prediction_yet_counts_with_a_fair_part() {
    let newcomer = tenant(2);
    let three = [with_demand(0, 10), with_demand(1, 10), newcomer];
    assert_eq!(shares("rwss", &room(90, Spare::Idle), &three), [10, 10, 30]);
    // Demands of 60 and 60, and 30: 150 scaled to 90.
    let three = [with_demand(0, 60), with_demand(1, 60), newcomer];
    assert_eq!(shares("rwss", &room(90, Spare::Idle), &three), [36, 36, 18]);
}

fn cached(reaccessed: u64, shared: u64) -> Cached {
    Cached {
        allocated: 1000,
        reaccessed,
        shared,
    }
}

fn scored(slot: u16, before: Cached, now: Cached) -> Tenant<'static> {
    Tenant {
        before: Some(100),
        cached: now,
        cached_before: before,
        ..tenant(slot)
    }
}

#[test]
fn a_step_goes_from_the_lowest_falling_score_to_the_highest_rising_one() {
    let four = [
        scored(0, cached(600, 0), cached(800, 0)),
        scored(1, cached(750, 0), cached(700, 0)),
        scored(2, cached(300, 0), cached(200, 0)),
        scored(3, cached(100, 0), cached(150, 0)),
    ];
    let room = room(400, Spare::Spread);
    assert_eq!(shares("recs", &room, &four), [108, 100, 92, 100]);
    assert_eq!(shares("recs:step=0.1", &room, &four), [140, 100, 60, 100]);
    let mut with_floor = four;
    with_floor[2].limits.floor = 95;
    assert_eq!(shares("recs", &room, &with_floor), [105, 100, 95, 100]);
    with_floor[2].limits.floor = 100;
    // The lowest that can give is the other falling one.
    assert_eq!(shares("recs", &room, &with_floor), [108, 92, 100, 100]);
}

#[test]
fn shares_that_step_begin_equal_and_stay_without_a_rise_and_a_fall() {
    let fresh = [tenant(0), tenant(1)];
    let room = room(100, Spare::Idle);
    for spec in ["recs", "rcrs", "rcrs-plus"] {
        assert_eq!(shares(spec, &room, &fresh), [50, 50], "{spec}");
    }
    let both_rise = [
        scored(0, cached(1, 0), cached(2, 0)),
        scored(1, cached(1, 0), cached(3, 0)),
    ];
    assert_eq!(shares("recs", &room, &both_rise), [50, 50]);
}

/// The product as printed is shared by allocated: 0 for a tenant that shares nothing.
#[test]
fn rcrs_as_printed_is_blind_to_tenants_that_share_nothing_and_rcrs_plus_is_not() {
    let alone = [
        scored(0, cached(100, 0), cached(900, 0)),
        scored(1, cached(900, 0), cached(100, 0)),
    ];
    let room = room(200, Spare::Spread);
    assert_eq!(shares("rcrs", &room, &alone), [100, 100]);
    assert_eq!(shares("rcrs-plus", &room, &alone), [104, 96]);
    assert_eq!(shares("recs", &room, &alone), [104, 96]);
    // As printed, .3 shared beats .2 shared whatever is re-accessed.
    let sharing = [
        scored(0, cached(900, 190), cached(950, 200)),
        scored(1, cached(20, 290), cached(10, 300)),
        scored(2, cached(900, 200), cached(800, 100)),
    ];
    assert_eq!(shares("rcrs", &room, &sharing), [67, 71, 62]);
    // (.95 x (1 + .2 / .95) = 1.15 rises; .01 x (1 + 30) = .31 does too; .9 falls.
    assert_eq!(shares("rcrs-plus", &room, &sharing), [71, 67, 62]);
}

fn size(segments: u64, hit_ratio: f64) -> Size {
    Size {
        blocks: segments * u64::from(SEGMENT),
        hit_ratio,
    }
}

/// Gains a segment: A .05 up to 10 and .01 up to 50; B .04 up to 20.
#[test]
fn utility_takes_the_best_pieces_first() {
    let a = [size(10, 0.5), size(50, 0.9)];
    let b = [size(20, 0.8)];
    let mut two = [
        Tenant {
            curve: &a,
            ..tenant(0)
        },
        Tenant {
            curve: &b,
            ..tenant(1)
        },
    ];
    let small = room(15, Spare::Idle);
    assert_eq!(shares("utility", &small, &two), [10, 5]);
    assert_eq!(shares("utility", &room(40, Spare::Idle), &two), [20, 20]);
    let large = divide("utility", &room(100, Spare::Idle), &two);
    assert_eq!((large.shares, large.idle), (vec![50, 20], 30));
    assert_eq!(shares("utility", &room(100, Spare::Spread), &two), [50, 50]);
    // A slower origin, more accesses or a greater weight make each of B's hits worth more.
    two[1].saved_us = 2000.0;
    assert_eq!(shares("utility", &small, &two), [0, 15]);
    two[1].saved_us = 1000.0;
    two[1].accesses_a_second = 200.0;
    assert_eq!(shares("utility", &small, &two), [0, 15]);
    two[0].limits.weight = 200;
    assert_eq!(shares("utility", &small, &two), [10, 5]);
    two[1].limits.floor = 12;
    assert_eq!(shares("utility", &small, &two), [3, 12]);
}

/// A loop of 30 segments: nothing is hit below, all of it from there on.
#[test]
fn a_cliff_is_climbed_whole_or_not_at_all_as_far_as_room_goes() {
    let cliff = [size(29, 0.0), size(30, 0.9)];
    let slope = [size(10, 0.2), size(20, 0.3)];
    let two = [
        Tenant {
            curve: &cliff,
            ..tenant(0)
        },
        Tenant {
            curve: &slope,
            ..tenant(1)
        },
    ];
    assert_eq!(shares("utility", &room(40, Spare::Idle), &two), [30, 10]);
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    let mut two = [tenant(0), tenant(1)];
    two[0].limits.floor = 60;
    two[1].limits.floor = 60;
    for about in Spec::ALL {
        let spec: Spec = about.name.parse().unwrap();
        let error = spec.divide(&room(100, Spare::Idle), &two).unwrap_err();
        let floors = BadLimits::Floors {
            tenants: 2,
            floors: 120,
            capacity: 100,
        };
        assert_eq!(error, floors, "{}", about.name);
        assert!(spec.divide(&room(120, Spare::Idle), &two).is_ok());
    }
}

#[test]
fn small_moves_wait_and_large_ones_are_made_whole() {
    let room = Room {
        hysteresis: Fraction::millionths(100_000),
        ..room(300, Spare::Spread)
    };
    let mut three = [
        with_demand(0, 800),
        with_demand(1, 1050),
        with_demand(2, 1150),
    ];
    for one in &mut three {
        one.before = Some(100);
    }
    // Targets 80, 105, 115: the first and the last move by a tenth, the other takes what is left.
    assert_eq!(shares("rwss", &room, &three), [80, 105, 115]);
    three[0] = Tenant {
        before: Some(100),
        ..with_demand(0, 950)
    };
    three[2] = Tenant {
        before: Some(100),
        ..with_demand(2, 1000)
    };
    let division = divide("rwss", &room, &three);
    assert_eq!(division.targets, [95, 105, 100]);
    assert_eq!(division.shares, [100, 100, 100]);
    // A floor that was raised is met at once, however small the move; who pays is whose target is below.
    three[1].limits.floor = 108;
    let division = divide("rwss", &room, &three);
    assert_eq!(division.targets, [94, 108, 98]);
    assert_eq!(division.shares, [94, 108, 98]);
}

/// A tenant by random numbers.
#[derive(Clone, Debug)]
struct Drawn {
    floor: u32,
    width: Option<u32>,
    weight: u32,
    before: Option<u32>,
    demand: Option<f64>,
    counts: [u64; 6],
    curve: Vec<Size>,
    rate: f64,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let curve = prop::collection::vec((1..5000_u64, 0.0..1.0_f64), 0..6).prop_map(|steps| {
        let (mut blocks, mut missed) = (0, 1.0);
        let sizes = steps.into_iter().map(|(width, part)| {
            blocks += width;
            missed *= part;
            Size {
                blocks,
                hit_ratio: 1.0 - missed,
            }
        });
        sizes.collect()
    });
    let limits = (0..20_u32, prop::option::of(0..60_u32), 1..1000_u32);
    let before = prop::option::of(0..80_u32);
    let demand = prop::option::of(0.0..50_000.0_f64);
    let counts = prop::array::uniform6(0..1000_u64);
    (limits, before, demand, counts, curve, 0.0..1000.0_f64).prop_map(
        |((floor, width, weight), before, demand, counts, curve, rate)| Drawn {
            floor,
            width,
            weight,
            before,
            demand,
            counts,
            curve,
            rate,
        },
    )
}

fn tenants(drawn: &[Drawn]) -> Vec<Tenant<'_>> {
    (0..)
        .zip(drawn)
        .map(|(slot, one)| {
            let [allocated, reaccessed, shared, ..] = one.counts;
            let [.., allocated_then, reaccessed_then, shared_then] = one.counts;
            Tenant {
                limits: Limits {
                    floor: one.floor,
                    ceiling: one.width.map(|width| one.floor + width),
                    weight: one.weight,
                },
                before: one.before,
                wss: one.demand.map(|demand| demand * 1.5),
                rwss: one.demand,
                cached: Cached {
                    allocated,
                    reaccessed,
                    shared,
                },
                cached_before: Cached {
                    allocated: allocated_then,
                    reaccessed: reaccessed_then,
                    shared: shared_then,
                },
                curve: &one.curve,
                accesses_a_second: one.rate,
                ..tenant(slot)
            }
        })
        .collect()
}

fn rooms() -> impl Strategy<Value = Room> {
    (0..400_u32, any::<bool>(), 0..300_000_u32).prop_map(|(more, idle, hysteresis)| Room {
        capacity: 20 * 8 + more,
        segment_blocks: SEGMENT,
        spare: if idle { Spare::Idle } else { Spare::Spread },
        hysteresis: Fraction::millionths(hysteresis),
    })
}

fn all() -> impl Iterator<Item = Spec> {
    Spec::ALL.iter().map(|about| about.name.parse().unwrap())
}

/// Whether spare flash may idle under an allocator: those by demand or gain, where the room says so.
fn may_idle(spec: &Spec, room: &Room) -> bool {
    let by_need = ["wss", "rwss", "utility"].contains(&spec.about().name);
    by_need && room.spare == Spare::Idle
}

proptest! {
    #[test]
    fn shares_sum_to_the_capacity_within_floors_and_ceilings(
        room in rooms(), drawn in prop::collection::vec(drawn(), 1..8),
    ) {
        let tenants = tenants(&drawn);
        for spec in all() {
            let division = spec.divide(&room, &tenants).unwrap();
            let sum: u32 = division.shares.iter().sum();
            let ceilings: u64 = tenants
                .iter()
                .map(|one| u64::from(one.limits.ceiling.unwrap_or(room.capacity)))
                .sum();
            prop_assert_eq!(sum + division.idle, room.capacity);
            if !may_idle(&spec, &room) {
                prop_assert_eq!(u64::from(sum), ceilings.min(u64::from(room.capacity)));
            }
            for (share, one) in division.shares.iter().zip(&tenants) {
                prop_assert!(*share >= one.limits.floor);
                prop_assert!(*share <= one.limits.ceiling.unwrap_or(room.capacity));
            }
        }
    }

    #[test]
    fn the_order_of_the_tenants_does_not_matter(
        room in rooms(), drawn in prop::collection::vec(drawn(), 1..8), turn in 0..8_usize,
    ) {
        let tenants = tenants(&drawn);
        let mut turned = tenants.clone();
        turned.rotate_left(turn % tenants.len());
        turned.reverse();
        for spec in all() {
            let shares = spec.divide(&room, &tenants).unwrap().shares;
            let other = spec.divide(&room, &turned).unwrap().shares;
            let mut by_slot: Vec<_> = turned.iter().map(|one| one.slot).zip(other).collect();
            by_slot.sort_unstable_by_key(|(slot, _)| *slot);
            let other: Vec<u32> = by_slot.into_iter().map(|(_, share)| share).collect();
            prop_assert_eq!(shares, other, "{}", spec);
        }
    }

    #[test]
    fn a_greater_weight_never_means_a_smaller_share(
        room in rooms(), drawn in prop::collection::vec(drawn(), 1..8), factor in 2..10_u32,
    ) {
        let room = Room { hysteresis: Fraction::ZERO, ..room };
        let before = tenants(&drawn);
        let mut after = before.clone();
        after[0].limits.weight = (after[0].limits.weight * factor).min(10_000);
        for spec in all() {
            let less = spec.divide(&room, &before).unwrap().shares[0];
            let more = spec.divide(&room, &after).unwrap().shares[0];
            prop_assert!(more >= less, "{}: {} then {}", spec, less, more);
        }
    }

    #[test]
    fn with_constant_inputs_shares_come_to_rest_at_once(
        room in rooms(), drawn in prop::collection::vec(drawn(), 1..8),
    ) {
        let mut tenants = tenants(&drawn);
        for one in &mut tenants {
            one.cached_before = one.cached;
        }
        for spec in all() {
            let first = spec.divide(&room, &tenants).unwrap();
            for (one, share) in tenants.iter_mut().zip(&first.shares) {
                one.before = Some(*share);
            }
            let again = spec.divide(&room, &tenants).unwrap();
            prop_assert_eq!(&first.shares, &again.shares, "{}", spec);
        }
    }

    #[test]
    fn a_share_lies_between_the_one_before_and_its_target(
        room in rooms(), drawn in prop::collection::vec(drawn(), 1..8),
    ) {
        let tenants = tenants(&drawn);
        for spec in all() {
            let division = spec.divide(&room, &tenants).unwrap();
            for ((one, share), target) in
                tenants.iter().zip(&division.shares).zip(&division.targets)
            {
                let before = one.before.unwrap_or(*target);
                let range = before.min(*target)..=before.max(*target);
                prop_assert!(range.contains(share), "{}", spec);
            }
        }
    }

    /// Beside all divisions there are, with segments of a block.
    #[test]
    fn utility_saves_as_much_as_the_best_of_all_divisions(
        curves in prop::collection::vec(prop::collection::vec(0.0..1.0_f64, 1..12), 3),
        rates in prop::array::uniform3(0.1..100.0_f64), capacity in 0..20_u32,
    ) {
        let curves: Vec<Vec<Size>> = curves.into_iter().map(concave).collect();
        let tenants: Vec<Tenant<'_>> = (0..)
            .zip(&curves)
            .map(|(slot, curve)| Tenant {
                curve,
                accesses_a_second: rates[usize::from(slot)],
                ..tenant(slot)
            })
            .collect();
        let room = Room { segment_blocks: 1, ..room(capacity, Spare::Idle) };
        let saved = |shares: &[u32]| -> f64 {
            let each = tenants.iter().zip(shares);
            each.map(|(one, share)| one.accesses_a_second * hit_ratio(one.curve, *share)).sum()
        };
        let mut best = 0.0_f64;
        for a in 0..=capacity {
            for b in 0..=capacity - a {
                best = best.max(saved(&[a, b, capacity - a - b]));
            }
        }
        let ours = saved(&shares("utility", &room, &tenants));
        prop_assert!((ours - best).abs() <= 1e-9 * best.max(1.0), "{} of {}", ours, best);
    }
}

/// A curve with a point at each size whose gains fall.
fn concave(mut gains: Vec<f64>) -> Vec<Size> {
    gains.sort_by(|one, other| other.total_cmp(one));
    let all: f64 = gains.iter().sum::<f64>().max(1e-9);
    let mut hit_ratio = 0.0;
    (1..)
        .zip(gains)
        .map(|(blocks, gain)| {
            hit_ratio += gain / all;
            Size { blocks, hit_ratio }
        })
        .collect()
}

fn hit_ratio(curve: &[Size], blocks: u32) -> f64 {
    let reached = curve.iter().rfind(|size| size.blocks <= u64::from(blocks));
    reached.map_or(0.0, |size| size.hit_ratio)
}
