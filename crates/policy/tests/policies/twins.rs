//! Each policy beside its slow twin of [`models`]: the same hits, and the same blocks leave, step by step.

use crate::models::{self, Model};
use policy::replacement::belady::next_uses;
use policy::replacement::{Capacity, Dense, Setup, Spec};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Prng;

/// Accesses and, one in 16, removals: keys with reuse at all distances, some in a row.
fn steps() -> impl Strategy<Value = Vec<(bool, u32)>> {
    let key = prop_oneof![4 => 0u32..6, 4 => 0u32..24, 1 => 24u32..60];
    let one = (0u8..16, key).prop_map(|(dice, key)| vec![(dice == 0, key)]);
    let run = (0u32..40, 3u32..20)
        .prop_map(|(from, length)| (from..from + length).map(|key| (false, key)).collect());
    prop::collection::vec(prop_oneof![30 => one, 1 => run], 1..500).prop_map(|parts| parts.concat())
}

fn check(
    spec: &str,
    mut model: impl Model,
    capacity: usize,
    steps: &[(bool, u32)],
) -> Result<(), TestCaseError> {
    let spec: Spec = spec.parse().unwrap();
    let capacity = Capacity::new(capacity as u64).unwrap();
    let mut policy = spec.build(Setup::new(capacity, Dense::new()));
    for (at, (removes, key)) in steps.iter().enumerate() {
        if *removes {
            prop_assert_eq!(policy.remove(*key), model.remove(*key), "step {}", at);
            continue;
        }
        let (mut left, mut should_leave) = (Vec::new(), Vec::new());
        let hit = policy.access(*key, &mut left);
        prop_assert_eq!(
            hit,
            model.access(*key, &mut should_leave),
            "step {}: {}",
            at,
            key
        );
        prop_assert_eq!(left, should_leave, "step {}: {}", at, key);
    }
    Ok(())
}

fn slru(segments: usize, capacity: usize) -> models::Slru {
    let segments = segments.min(capacity);
    let each = capacity / segments;
    let mut sizes = vec![each; segments];
    sizes[0] += capacity % segments;
    models::Slru {
        segments: vec![Vec::new(); segments],
        sizes,
        capacity,
    }
}

fn two_q(kin: usize, kout: usize, capacity: usize) -> models::TwoQ {
    models::TwoQ {
        a1in: Vec::new(),
        a1out: Vec::new(),
        am: Vec::new(),
        kin: capacity * kin / 100,
        kout: capacity * kout / 100,
        capacity,
    }
}

fn lirs(hir: usize, stack: usize, capacity: usize) -> models::Lirs {
    models::Lirs {
        s: Vec::new(),
        q: Vec::new(),
        lir: Vec::new(),
        ghosts: Vec::new(),
        lir_max: capacity - (capacity * hir / 100).max(1),
        s_max: capacity * stack,
        capacity,
    }
}

fn s3_fifo(small: usize, ghosts: usize, threshold: u32, capacity: usize) -> models::S3Fifo {
    models::S3Fifo {
        small: Vec::new(),
        main: Vec::new(),
        ghosts: Vec::new(),
        counts: BTreeMap::new(),
        small_max: (capacity * small / 100).max(1),
        ghosts_max: capacity * ghosts / 100,
        threshold,
        capacity,
        was_full: false,
    }
}

fn clock2q_plus(
    small: usize,
    ghosts: usize,
    window: usize,
    capacity: usize,
) -> models::Clock2QPlus {
    let small_max = (capacity * small / 100).max(1);
    models::Clock2QPlus {
        small: Vec::new(),
        main: Vec::new(),
        ghosts: Vec::new(),
        arrivals: 0,
        window: u32::try_from((small_max * window).div_ceil(100)).unwrap(),
        small_max,
        ghosts_max: capacity * ghosts / 100,
        capacity,
        was_full: false,
    }
}

proptest! {
    #[test]
    fn fifo_is_its_model(capacity in 1usize..16, steps in steps()) {
        check("fifo", models::Fifo { queue: Vec::new(), capacity }, capacity, &steps)?;
    }

    #[test]
    fn lru_is_its_model(capacity in 1usize..16, steps in steps()) {
        check("lru", models::Lru { queue: Vec::new(), capacity }, capacity, &steps)?;
    }

    #[test]
    fn random_is_its_model(capacity in 1usize..16, seed in 0u64..100, steps in steps()) {
        let model = models::Random { places: Vec::new(), dice: Prng::new(seed), capacity };
        check(&format!("random:seed={seed}"), model, capacity, &steps)?;
    }

    #[test]
    fn clock_is_its_model(capacity in 1usize..16, bits in 1u32..4, steps in steps()) {
        let model = models::Clock { ring: Vec::new(), counter_max: (1 << bits) - 1, capacity };
        check(&format!("clock:bits={bits}"), model, capacity, &steps)?;
    }

    #[test]
    fn sieve_is_its_model(capacity in 1usize..16, steps in steps()) {
        let model = models::Sieve { queue: Vec::new(), hand: None, capacity };
        check("sieve", model, capacity, &steps)?;
    }

    #[test]
    fn lfu_is_its_model(capacity in 1usize..16, steps in steps()) {
        check("lfu", models::Lfu { blocks: Vec::new(), now: 0, capacity }, capacity, &steps)?;
    }

    #[test]
    fn slru_is_its_model(capacity in 1usize..24, segments in 1usize..6, steps in steps()) {
        check(&format!("slru:segments={segments}"), slru(segments, capacity), capacity, &steps)?;
    }

    #[test]
    fn two_q_is_its_model(capacity in 1usize..24, steps in steps()) {
        check("2q", two_q(25, 50, capacity), capacity, &steps)?;
        check("2q:kin=0.1,kout=2", two_q(10, 200, capacity), capacity, &steps)?;
        check("2q:kin=1,kout=0", two_q(100, 0, capacity), capacity, &steps)?;
    }

    #[test]
    fn arc_is_its_model(capacity in 1usize..24, steps in steps()) {
        let model = models::Arc {
            t1: Vec::new(), t2: Vec::new(), b1: Vec::new(), b2: Vec::new(), p: 0.0, c: capacity,
        };
        check("arc", model, capacity, &steps)?;
    }

    #[test]
    fn lirs_is_its_model(capacity in 1usize..24, steps in steps()) {
        check("lirs", lirs(1, 2, capacity), capacity, &steps)?;
        check("lirs:hir=0.3,stack=1", lirs(30, 1, capacity), capacity, &steps)?;
        check("lirs:hir=0.3,stack=4", lirs(30, 4, capacity), capacity, &steps)?;
        check("lirs:hir=1", lirs(100, 2, capacity), capacity, &steps)?;
    }

    #[test]
    fn s3_fifo_is_its_model(capacity in 1usize..24, steps in steps()) {
        check("s3-fifo", s3_fifo(10, 90, 2, capacity), capacity, &steps)?;
        check("s3-fifo:small=0.4,ghosts=0.3,threshold=1", s3_fifo(40, 30, 1, capacity), capacity, &steps)?;
        check("s3-fifo:small=1,ghosts=0,threshold=3", s3_fifo(100, 0, 3, capacity), capacity, &steps)?;
    }

    #[test]
    fn clock2q_plus_is_its_model(capacity in 1usize..24, steps in steps()) {
        check("clock2q+", clock2q_plus(10, 90, 50, capacity), capacity, &steps)?;
        let model = clock2q_plus(50, 30, 30, capacity);
        check("clock2q+:small=0.5,ghosts=0.3,window=0.3", model, capacity, &steps)?;
    }

    #[test]
    fn w_tiny_lfu_is_its_model(capacity in 1usize..24, steps in steps()) {
        check("w-tinylfu:step=0.06", models::WTinyLfu::new(capacity, 1, 80, 6), capacity, &steps)?;
        let model = models::WTinyLfu::new(capacity, 30, 50, 40);
        check("w-tinylfu:window=0.3,protected=0.5,step=0.4", model, capacity, &steps)?;
        check("w-tinylfu:window=1,step=0", models::WTinyLfu::new(capacity, 100, 80, 0), capacity, &steps)?;
    }

    /// Whatever the order of evictions, no choice of victims has fewer misses.
    #[test]
    fn beladys_misses_are_the_fewest_of_all_choices(
        capacity in 1usize..4,
        keys in prop::collection::vec(0u32..6, 1..14),
    ) {
        let spec: Spec = "belady".parse().unwrap();
        let mut setup = Setup::new(Capacity::new(capacity as u64).unwrap(), Dense::new());
        setup.future = Some(Arc::from(next_uses(&keys)));
        let mut policy = spec.build(setup);
        let mut hits = vec![0; keys.len()];
        policy.run(&keys, &mut hits);
        let misses: usize = hits.iter().map(|hit| usize::from(1 - *hit)).sum();
        prop_assert_eq!(misses, fewest(&[], capacity, &keys));
    }
}

/// The fewest misses over all choices of victims, tried one by one.
fn fewest(cache: &[u32], capacity: usize, keys: &[u32]) -> usize {
    let Some((key, rest)) = keys.split_first() else {
        return 0;
    };
    if cache.contains(key) {
        return fewest(cache, capacity, rest);
    }
    let with = |victim: Option<usize>| {
        let mut cache = cache.to_vec();
        if let Some(victim) = victim {
            cache.remove(victim);
        }
        cache.push(*key);
        fewest(&cache, capacity, rest)
    };
    if cache.len() < capacity {
        return 1 + with(None);
    }
    1 + (0..capacity)
        .map(|victim| with(Some(victim)))
        .min()
        .unwrap()
}
