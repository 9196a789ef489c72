use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SEED: u64 = 7;

fn disk(number: u16) -> DiskSlot {
    DiskSlot::new(number)
}

fn block(number: u64) -> BlockIndex {
    BlockIndex::new(number)
}

fn slot(number: u32) -> FlashSlot {
    FlashSlot::new(number)
}

fn at(number: u32, mark: u8) -> Marked {
    Marked {
        slot: slot(number),
        mark,
    }
}

#[test]
fn a_block_is_found_where_it_was_put_and_nowhere_else() {
    let mut index = Index::new(100, SEED);
    assert_eq!(index.insert(disk(3), block(5), at(9, 0)), Ok(None));
    assert_eq!(index.get(disk(3), block(5)), Some(slot(9)));
    assert_eq!(index.get(disk(5), block(3)), None);
    assert_eq!(
        index.insert(disk(3), block(5), at(10, 2)),
        Ok(Some(at(9, 0)))
    );
    assert_eq!(index.len(), 1);
    assert_eq!(index.remove(disk(3), block(5)), Some(at(10, 2)));
    assert_eq!(index.get(disk(3), block(5)), None);
    assert!(index.is_empty());
}

#[test]
fn the_largest_keys_come_back_from_their_entries() {
    let corners = [0, 1, (1 << 36) - 1, 1 << 35];
    for slots in [1, 100, 5_000_000] {
        let mut index = Index::new(slots, SEED);
        for number in [0, 1, 1023] {
            for corner in corners {
                index
                    .insert(disk(number), block(corner), at(slots, 15))
                    .unwrap();
            }
        }
        index.self_check();
        let mut keys: Vec<_> = index.iter().map(|l| (l.disk, l.block)).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 12);
        for (disk, block) in keys {
            assert!(corners.contains(&block.get()));
            assert_eq!(index.get(disk, block), Some(slot(slots)));
        }
    }
}

#[test]
fn an_entry_fits_at_every_size_up_to_the_largest() {
    for bits in 0..31 {
        for slots in [(1_u32 << bits) - 1, 1 << bits, (1 << bits) + 1] {
            let buckets = (u64::from(slots) * 100)
                .div_ceil(9 * LOAD_PERCENT_MAX)
                .max(BUCKETS_MIN);
            let _asserts = Geometry::new(buckets, slots, SEED);
        }
    }
    let buckets = (u64::from(u32::MAX) * 100).div_ceil(9 * LOAD_PERCENT_MAX);
    let _asserts = Geometry::new(buckets, u32::MAX, SEED);
}

#[test]
fn a_block_keeps_its_mark_until_it_is_changed() {
    let mut index = Index::new(100, SEED);
    assert_eq!(index.insert(disk(0), block(1), at(1, 15)), Ok(None));
    assert_eq!(index.find(disk(0), block(1)), Some(at(1, 15)));
    let was = index.change(disk(0), block(1), |was| Marked { mark: 6, ..was });
    assert_eq!(was, Some(at(1, 15)));
    assert_eq!(
        index.insert(disk(0), block(1), at(3, 0)),
        Ok(Some(at(1, 6)))
    );
    assert_eq!(index.remove(disk(0), block(1)), Some(at(3, 0)));
    let nothing = index.change(disk(0), block(1), |_| panic!("it is not cached"));
    assert_eq!(nothing, None);
}

#[test]
fn a_block_that_has_moved_on_is_not_removed() {
    let mut index = Index::new(100, SEED);
    index.insert(disk(0), block(1), at(2, 3)).unwrap();
    assert_eq!(index.remove_if(disk(0), block(1), slot(1)), None);
    assert_eq!(index.get(disk(0), block(1)), Some(slot(2)));
    assert_eq!(index.remove_if(disk(0), block(1), slot(2)), Some(at(2, 3)));
    assert_eq!(index.remove_if(disk(0), block(1), slot(2)), None);
}

#[test]
fn a_full_cache_fits_in_under_eight_bytes_a_block() {
    let slots = 200_000;
    for seed in 0..3 {
        let mut index = Index::new(slots, seed);
        let blocks: Vec<_> = (1..=slots)
            .map(|n| Located {
                disk: disk((n % 3) as u16),
                block: block(u64::from(n / 3)),
                slot: slot(n),
            })
            .collect();
        index.insert_batch(&blocks, |_, result| assert_eq!(result, Ok(None)));
        index.self_check();
        assert!(index.bytes() * 10 <= slots as usize * 76);
        for located in blocks {
            assert_eq!(index.get(located.disk, located.block), Some(located.slot));
        }
    }
}

#[test]
fn full_changes_nothing_and_room_is_used_again() {
    let mut index = Index::new(20, SEED);
    let mut kept = Vec::new();
    let refused = (0..10_000)
        .find(|n| match index.insert(disk(0), block(*n), at(1, 0)) {
            Ok(_) => {
                kept.push(*n);
                false
            }
            Err(Full) => true,
        })
        .unwrap();
    assert!(kept.len() * 100 >= index.capacity() * 90, "{index:?}");
    index.self_check();
    assert_eq!(index.get(disk(0), block(refused)), None);
    assert!(kept.iter().all(|n| index.get(disk(0), block(*n)).is_some()));
    for n in kept {
        index.remove(disk(0), block(n)).unwrap();
    }
    assert_eq!(index.insert(disk(0), block(refused), at(1, 0)), Ok(None));
}

#[test]
fn the_same_history_gives_the_same_table() {
    let table = || {
        let mut index = Index::new(1000, SEED);
        for n in 0..1000 {
            index.insert(disk(1), block(n * 17), at(1, 0)).unwrap();
        }
        index.iter().collect::<Vec<_>>()
    };
    assert_eq!(table(), table());
}

#[test]
fn a_sweep_misses_nothing_while_the_table_fills() {
    let slots = 900;
    for seed in 0..20 {
        let mut index = Index::new(slots, seed);
        for n in 0..600 {
            index.insert(disk(1), block(n), at(1, 0)).unwrap();
        }
        let mut next = 0;
        while !index.sweep(3, |located| {
            if located.disk == disk(1) {
                Sweep::Remove
            } else {
                Sweep::Keep
            }
        }) {
            // Enough newcomers that others are moved about between two steps.
            for _ in 0..30 {
                let _may_be_full = index.insert(disk(2), block(next), at(2, 0));
                next += 1;
            }
            index.self_check();
        }
        assert!(index.iter().all(|located| located.disk == disk(2)));
        assert!(!index.is_empty());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u64, u32, u8),
    Batch(Vec<(u16, u64, u32)>),
    Remove(u16, u64),
    RemoveIf(u16, u64, u32),
    Change(u16, u64, u32, u8),
    Sweep(usize, u16),
}

const SLOTS: u32 = 60;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let disks = 0..3_u16;
    let blocks = 0..30_u64;
    let slots = 1..=SLOTS;
    let place = (disks.clone(), blocks.clone(), slots);
    let step = prop_oneof![
        8 => (place.clone(), 0..16_u8).prop_map(|((d, b, s), m)| Step::Insert(d, b, s, m)),
        2 => prop::collection::vec(place.clone(), 0..70).prop_map(Step::Batch),
        4 => (disks.clone(), blocks).prop_map(|(d, b)| Step::Remove(d, b)),
        2 => place.clone().prop_map(|(d, b, s)| Step::RemoveIf(d, b, s)),
        4 => (place, 0..16_u8).prop_map(|((d, b, s), m)| Step::Change(d, b, s, m)),
        1 => (1..6_usize, disks).prop_map(|(n, d)| Step::Sweep(n, d)),
    ];
    prop::collection::vec(step, 1..200)
}

/// The obvious index: what is cached, where, and with which mark.
type Model = BTreeMap<(u16, u64), Marked>;

fn model_insert(
    model: &mut Model,
    (d, b, new): (u16, u64, Marked),
    result: Result<Option<Marked>, Full>,
    sweeping: bool,
) {
    match (result, model.get_mut(&(d, b))) {
        (Ok(old), Some(entry)) => assert_eq!(old, Some(std::mem::replace(entry, new))),
        (Ok(old), None) => {
            assert_eq!(old, None);
            model.insert((d, b), new);
        }
        (Err(Full), Some(_)) => panic!("a block that has a place was refused"),
        // A sweep under way forbids some moves; without it only a table near its load refuses.
        (Err(Full), None) => assert!(sweeping || model.len() * 10 >= SLOTS as usize * 9),
    }
}

fn apply(index: &mut Index, model: &mut Model, step: Step) {
    let sweeping = index.swept != 0;
    match step {
        Step::Insert(d, b, s, m) => {
            let result = index.insert(disk(d), block(b), at(s, m));
            model_insert(model, (d, b, at(s, m)), result, sweeping);
        }
        Step::Batch(places) => {
            let located: Vec<_> = places
                .iter()
                .map(|&(d, b, s)| Located {
                    disk: disk(d),
                    block: block(b),
                    slot: slot(s),
                })
                .collect();
            let mut seen = vec![false; places.len()];
            index.insert_batch(&located, |i, result| {
                let (d, b, s) = places[i];
                let same = |other: &usize| (places[*other].0, places[*other].1) == (d, b);
                assert!((0..i).filter(same).all(|earlier| seen[earlier]));
                assert!(!std::mem::replace(&mut seen[i], true));
                model_insert(model, (d, b, at(s, 0)), result, sweeping);
            });
            assert!(seen.iter().all(|seen| *seen));
        }
        Step::Remove(d, b) => {
            let old = model.remove(&(d, b));
            assert_eq!(index.remove(disk(d), block(b)), old);
        }
        Step::RemoveIf(d, b, s) => {
            let there = model.get(&(d, b)).copied();
            let there = there.filter(|there| there.slot == slot(s));
            assert_eq!(index.remove_if(disk(d), block(b), slot(s)), there);
            if there.is_some() {
                model.remove(&(d, b));
            }
        }
        Step::Change(d, b, s, m) => {
            let there = model.get(&(d, b)).copied();
            let was = index.change(disk(d), block(b), |was| {
                assert_eq!(Some(was), there);
                at(s, m)
            });
            assert_eq!(was, there);
            model.entry((d, b)).and_modify(|entry| *entry = at(s, m));
        }
        Step::Sweep(buckets, d) => {
            index.sweep(buckets, |located| {
                let key = (located.disk.get(), located.block.get());
                assert_eq!(model[&key].slot, located.slot);
                if key.0 == d {
                    model.remove(&key);
                    Sweep::Remove
                } else {
                    Sweep::Keep
                }
            });
        }
    }
}

proptest! {
    #[test]
    fn the_index_agrees_with_an_ordered_map(seed: u64, steps in steps()) {
        let mut index = Index::new(SLOTS, seed);
        let mut model = Model::new();
        for step in steps {
            apply(&mut index, &mut model, step);
            index.self_check();
            prop_assert_eq!(index.len(), model.len());
            for d in 0..3 {
                for b in 0..30 {
                    let expected = model.get(&(d, b)).copied();
                    prop_assert_eq!(index.find(disk(d), block(b)), expected);
                }
            }
        }
    }
}
