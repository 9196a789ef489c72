//! One body for every policy: what `Replacement` promises, whatever the policy and its parameters.

use std::collections::BTreeSet;
use std::sync::Arc;

use policy::replacement::belady::next_uses;
use policy::replacement::{Capacity, Dense, Hashed, Index, Key, Replacement, Setup, Spec};
use proptest::prelude::*;

/// Every policy as it is, and those whose parameters change which branches run, at their limits.
fn specs() -> Vec<Spec> {
    let plain = Spec::ALL.iter().map(|about| about.name);
    let special = [
        "clock:bits=3",
        "slru:segments=1",
        "slru:segments=16",
        "2q:kin=0,kout=0",
        "2q:kin=1,kout=4",
        "lirs:hir=0.5,stack=1",
        "lirs:hir=1",
        "s3-fifo:small=0,ghosts=0,threshold=1",
        "s3-fifo:small=1",
        "clock2q+:small=1,window=0",
        "clock2q+:small=0.5,ghosts=0,window=1",
        "w-tinylfu:window=0.5,protected=0",
        "w-tinylfu:window=1,protected=1,step=0.5",
        "w-tinylfu:step=0",
    ];
    plain
        .chain(special)
        .map(|text| text.parse().unwrap())
        .collect()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Access(u32),
    Remove(u32),
    Pass(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few hot keys, more cold ones, now and then a scan.
    let key = prop_oneof![4 => 0u32..6, 4 => 0u32..24, 1 => 24u32..60];
    let step = prop_oneof![
        12 => key.clone().prop_map(Step::Access),
        1 => key.clone().prop_map(Step::Remove),
        1 => key.prop_map(Step::Pass),
    ];
    let scan = (0u32..40, 3u32..30)
        .prop_map(|(from, length)| (from..from + length).map(Step::Access).collect::<Vec<_>>());
    let few = prop::collection::vec(step, 1..30);
    prop::collection::vec(prop_oneof![3 => few, 1 => scan], 1..12).prop_map(|parts| parts.concat())
}

/// The next uses of what is accessed or passes by.
fn future(steps: &[Step]) -> Arc<[u32]> {
    let keys: Vec<u32> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Access(key) | Step::Pass(key) => Some(*key),
            Step::Remove(_) => None,
        })
        .collect();
    Arc::from(next_uses(&keys))
}

fn build<K: Key, I: Index<K> + Send + 'static>(
    spec: &Spec,
    capacity: u64,
    index: I,
    steps: &[Step],
) -> Box<dyn Replacement<K> + Send> {
    let mut setup = Setup::new(Capacity::new(capacity).unwrap(), index);
    setup.future = Some(future(steps));
    spec.build(setup)
}

/// What a policy did at each step: a hit or a removal, and who left.
type History = Vec<(bool, Vec<u64>)>;

fn play<K: Key + Into<u64>>(
    policy: &mut dyn Replacement<K>,
    steps: &[Step],
    key_of: impl Fn(u32) -> K,
) -> History {
    let play_one = |step: &Step| {
        let mut evicted = Vec::new();
        let happened = match step {
            Step::Access(key) => policy.access(key_of(*key), &mut evicted),
            Step::Remove(key) => policy.remove(key_of(*key)),
            Step::Pass(_) => {
                policy.pass();
                false
            }
        };
        (happened, evicted.into_iter().map(Into::into).collect())
    };
    steps.iter().map(play_one).collect()
}

/// Follows a policy with a plain set of what must be in its cache.
fn check_promises(spec: &Spec, capacity: u64, steps: &[Step]) -> History {
    let mut policy = build(spec, capacity, Dense::new(), steps);
    let mut inside = BTreeSet::new();
    let mut history = Vec::new();
    for step in steps {
        let mut evicted = Vec::new();
        let happened = match *step {
            Step::Access(key) => {
                let hit = policy.access(key, &mut evicted);
                assert_eq!(
                    hit,
                    inside.contains(&key),
                    "{spec}: a hit is what was inside"
                );
                inside.insert(key);
                for gone in &evicted {
                    assert_ne!(*gone, key, "{spec}: the newcomer stays");
                    assert!(inside.remove(gone), "{spec}: {gone} was not inside");
                }
                assert!(policy.contains(key), "{spec}");
                hit
            }
            Step::Remove(key) => {
                let removed = policy.remove(key);
                assert_eq!(
                    removed,
                    inside.remove(&key),
                    "{spec}: removed what was inside"
                );
                assert!(!policy.remove(key), "{spec}: nobody is removed twice");
                removed
            }
            Step::Pass(_) => {
                policy.pass();
                false
            }
        };
        assert!(
            inside.len() as u64 <= capacity,
            "{spec}: above its capacity"
        );
        assert_eq!(u64::from(policy.len()), inside.len() as u64, "{spec}");
        assert_eq!(policy.is_empty(), inside.is_empty(), "{spec}");
        for key in 0..70 {
            assert_eq!(policy.contains(key), inside.contains(&key), "{spec}: {key}");
        }
        history.push((happened, evicted.into_iter().map(u64::from).collect()));
    }
    assert_eq!(u64::from(policy.capacity()), capacity);
    history
}

fn hits(spec: &Spec, capacity: u64, keys: &[u32]) -> usize {
    let steps: Vec<Step> = keys.iter().map(|key| Step::Access(*key)).collect();
    let mut policy = build(spec, capacity, Dense::new(), &steps);
    let mut hits = vec![9; keys.len()];
    policy.run(keys, &mut hits);
    let one_by_one = play::<u32>(
        &mut *build(spec, capacity, Dense::new(), &steps),
        &steps,
        |key| key,
    );
    for (batched, (single, _)) in hits.iter().zip(&one_by_one) {
        assert_eq!(
            *batched,
            u8::from(*single),
            "{spec}: a batch is so many accesses"
        );
    }
    hits.iter().map(|hit| usize::from(*hit)).sum()
}

proptest! {
    /// Never above capacity, evicts only what was in, `contains` and `len` agree, removed is absent, a full
    /// cache stays full; the same again on a second run, and with another index and wider keys.
    #[test]
    fn every_policy_keeps_what_the_trait_promises(capacity in 1u64..14, steps in steps()) {
        for spec in specs() {
            let history = check_promises(&spec, capacity, &steps);
            let mut hashed = build(&spec, capacity, Hashed::<u32>::new(), &steps);
            prop_assert_eq!(&play(&mut *hashed, &steps, |key| key), &history, "{} hashed", &spec);
            let mut again = build(&spec, capacity, Dense::new(), &steps);
            prop_assert_eq!(&play::<u32>(&mut *again, &steps, |key| key), &history, "{} again", &spec);
        }
    }

    /// Nothing is evicted while there is room, and then one block for one.
    #[test]
    fn a_cache_fills_up_before_it_evicts(capacity in 1u64..14, steps in steps()) {
        for spec in specs() {
            let mut policy = build(&spec, capacity, Dense::new(), &steps);
            for step in &steps {
                let before = u64::from(policy.len());
                if let Step::Access(key) = step {
                    let mut evicted = Vec::new();
                    let hit = policy.access(*key, &mut evicted);
                    let must_leave = usize::from(!hit && before == capacity);
                    prop_assert_eq!(evicted.len(), must_leave, "{}", &spec);
                } else {
                    play(&mut *policy, &[*step], |key| key);
                }
            }
        }
    }

    /// Belady's has the most hits of all, and a batch is so many accesses.
    #[test]
    fn no_policy_has_more_hits_than_beladys(
        capacity in 1u64..14,
        keys in prop::collection::vec(prop_oneof![0u32..6, 0u32..30], 1..300),
    ) {
        let best = hits(&"belady".parse().unwrap(), capacity, &keys);
        for spec in specs() {
            prop_assert!(hits(&spec, capacity, &keys) <= best, "{}", &spec);
        }
    }

    /// A cache that all blocks fit into misses each once, whatever the policy.
    #[test]
    fn a_cache_as_large_as_the_footprint_misses_each_block_once(
        keys in prop::collection::vec(0u32..20, 1..300),
    ) {
        let distinct = keys.iter().collect::<BTreeSet<_>>().len();
        for spec in specs() {
            prop_assert_eq!(hits(&spec, 20, &keys), keys.len() - distinct, "{}", &spec);
        }
    }
}
