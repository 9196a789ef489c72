//! What a pool promises at every step, beside a model of maps and queues.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use frames::{AheadCounts, Frames, Kind, LABELS, Part, Settings};
use policy::replacement::Fraction;
use proptest::prelude::*;
use units::{Bytes, TenantSlot};

/// What a frame holds is the number of the step that put it there: an old copy shows.
type Pool = Frames<u64, usize>;

const TENANTS: u16 = 3;

const POLICIES: [&str; 4] = ["s3-fifo", "w-tinylfu", "lru", "frequency"];

/// A pool for so many staged and so many hot blocks.
fn settings(staged: u64, hot: u64, policy: &str) -> Settings {
    Settings {
        size: Pool::size_with_hot(staged, hot),
        staged,
        hot: policy.parse().unwrap(),
    }
}

fn parts(parts: impl IntoIterator<Item = (u16, u32)>) -> Vec<Part> {
    let parts = parts.into_iter().map(|(tenant, parts)| Part {
        tenant: TenantSlot::new(tenant),
        parts,
        high_priority: tenant == 1,
    });
    parts.collect()
}

#[derive(Clone, Debug)]
enum Step {
    Stage(u16, u64),
    Unstage(u64),
    Ahead(u16, u64),
    Use(u64),
    Read(u16, u64),
    Change(u64),
    Divide([u32; TENANTS as usize]),
    Forget(u16),
    Resize(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0u64..40;
    let tenant = 0..TENANTS;
    let step = prop_oneof![
        6 => (tenant.clone(), key.clone()).prop_map(|(tenant, key)| Step::Stage(tenant, key)),
        3 => key.clone().prop_map(Step::Unstage),
        8 => (tenant.clone(), key.clone()).prop_map(|(tenant, key)| Step::Ahead(tenant, key)),
        3 => key.clone().prop_map(Step::Use),
        12 => (tenant.clone(), key.clone()).prop_map(|(tenant, key)| Step::Read(tenant, key)),
        3 => key.prop_map(Step::Change),
        1 => prop::array::uniform3(0u32..5).prop_map(Step::Divide),
        1 => tenant.prop_map(Step::Forget),
        1 => (0u64..24, 0u64..24).prop_map(|(staged, hot)| Step::Resize(staged, hot)),
    ];
    prop::collection::vec(step, 0..200)
}

/// The slow and obvious one. It does not say who leaves for another: it is told.
#[derive(Default)]
struct Model {
    staged: BTreeMap<u64, usize>,
    ahead: [VecDeque<(u64, usize)>; TENANTS as usize],
    counts: [AheadCounts; TENANTS as usize],
    hot: BTreeMap<u64, usize>,
    /// By label: what of a tenant's has left unread, as the pool has told.
    unread: [BTreeMap<u8, u64>; TENANTS as usize],
}

/// Whose guess a block is.
fn label(key: u64) -> u8 {
    u8::try_from(key % LABELS as u64).unwrap()
}

impl Model {
    fn holder(&self, key: u64) -> Option<usize> {
        let has = |queue: &VecDeque<(u64, usize)>| queue.iter().any(|(other, _)| *other == key);
        self.ahead.iter().position(has)
    }

    /// What each tenant has prefetched.
    fn prefetched(&self) -> Vec<Vec<u64>> {
        let keys = |queue: &VecDeque<(u64, usize)>| queue.iter().map(|(key, _)| *key).collect();
        self.ahead.iter().map(keys).collect()
    }

    fn drop_ahead(&mut self, key: u64, used: bool) -> Option<usize> {
        let holder = self.holder(key)?;
        let at = self.ahead[holder]
            .iter()
            .position(|(other, _)| *other == key);
        let (_, bytes) = self.ahead[holder].remove(at.unwrap()).unwrap();
        let counts = &mut self.counts[holder];
        *(if used {
            &mut counts.used
        } else {
            &mut counts.wasted
        }) += 1;
        Some(bytes)
    }

    /// The pool tells of each block that has left unread once, with its label.
    fn hear(&mut self, pool: &mut Pool, leaving: &[Vec<u64>]) {
        for tenant in 0..TENANTS {
            let of = usize::from(tenant);
            let mut told = [0; LABELS];
            pool.ahead()
                .take_unread(TenantSlot::new(tenant), |label, count| {
                    told[usize::from(label)] += u64::from(count);
                });
            for (label, told) in (0..).zip(told) {
                *self.unread[of].entry(label).or_default() += told;
            }
            assert_eq!(
                self.unread[of].values().sum::<u64>(),
                self.counts[of].wasted
            );
            let here: BTreeSet<u64> = self.ahead[of].iter().map(|(key, _)| *key).collect();
            for (number, told) in (0..).zip(told) {
                let left = leaving[of].iter().filter(|key| !here.contains(key));
                let left = left.filter(|key| label(**key) == number).count();
                assert!(told <= left as u64, "label {number}");
            }
        }
    }

    /// What the pool has let go is the oldest of its tenant.
    fn follow(&mut self, pool: &Pool) {
        for tenant in 0..TENANTS {
            let queue = &mut self.ahead[usize::from(tenant)];
            while pool.len_of(TenantSlot::new(tenant), Kind::Ahead) < count(queue.len()) {
                queue.pop_front();
                self.counts[usize::from(tenant)].wasted += 1;
            }
        }
        let hot: BTreeSet<u64> = pool.keys(Kind::Hot).collect();
        self.hot.retain(|key, _| hot.contains(key));
        assert_eq!(
            self.hot.len(),
            hot.len(),
            "nothing is hot that was not read"
        );
    }

    fn check(&self, pool: &mut Pool) {
        assert!(pool.memory() <= pool.size());
        assert!(pool.len(Kind::Ahead) <= pool.capacity() / 4);
        for (key, bytes) in &self.hot {
            assert_eq!(pool.get(*key), Some((Kind::Hot, bytes)));
        }
        let staged: usize = pool.keys(Kind::Staged).count();
        assert_eq!(staged, self.staged.len());
        for (key, bytes) in &self.staged {
            assert_eq!(pool.get(*key), Some((Kind::Staged, bytes)));
        }
        let ahead: Vec<u64> = self.ahead.iter().flatten().map(|(key, _)| *key).collect();
        assert_eq!(pool.keys(Kind::Ahead).collect::<Vec<_>>(), ahead);
        for (key, bytes) in self.ahead.iter().flatten() {
            assert_eq!(pool.get(*key), Some((Kind::Ahead, bytes)));
        }
        for tenant in 0..TENANTS {
            let counts = pool.ahead().counts(TenantSlot::new(tenant));
            assert_eq!(counts, self.counts[usize::from(tenant)]);
        }
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap()
}

fn stage(pool: &mut Pool, model: &mut Model, (tenant, key): (u16, u64), now: usize) {
    if model.staged.contains_key(&key) {
        return;
    }
    model.drop_ahead(key, false);
    model.hot.remove(&key);
    let has_room = pool.len(Kind::Staged) < pool.capacity();
    let staged = pool.stage(TenantSlot::new(tenant), key, now);
    assert_eq!(staged, if has_room { Ok(()) } else { Err(now) });
    if has_room {
        model.staged.insert(key, now);
    }
}

fn apply(pool: &mut Pool, model: &mut Model, step: &Step, now: usize) {
    match *step {
        Step::Stage(tenant, key) => stage(pool, model, (tenant, key), now),
        Step::Unstage(key) => assert_eq!(pool.unstage(key), model.staged.remove(&key)),
        Step::Ahead(tenant, key) => {
            if pool
                .ahead()
                .put(TenantSlot::new(tenant), key, label(key), now)
            {
                assert_eq!(model.holder(key), None);
                model.ahead[usize::from(tenant)].push_back((key, now));
            }
        }
        Step::Use(key) => {
            let used = model.drop_ahead(key, true);
            assert_eq!(
                pool.ahead().read(key),
                used.map(|bytes| (label(key), bytes))
            );
        }
        Step::Read(tenant, key) => read(pool, model, (tenant, key), now),
        Step::Change(key) => {
            let hot = model.hot.remove(&key).map(|_| Kind::Hot);
            let staged = model.staged.remove(&key).map(|_| Kind::Staged);
            let ahead = model.drop_ahead(key, false).map(|_| Kind::Ahead);
            assert_eq!(pool.change(key), staged.or(ahead).or(hot));
        }
        Step::Divide(shares) => {
            let parts = parts((0..).zip(shares));
            pool.divide(&parts);
            divided(pool, &parts);
        }
        Step::Forget(tenant) => {
            pool.forget_tenant(TenantSlot::new(tenant));
            model.ahead[usize::from(tenant)].clear();
            model.counts[usize::from(tenant)] = AheadCounts::default();
            model.unread[usize::from(tenant)].clear();
        }
        Step::Resize(staged, hot) => {
            let policy = POLICIES[now % POLICIES.len()];
            pool.resize(&settings(staged, hot, policy));
            assert!(u64::from(pool.capacity()) >= staged);
            // Whoever resizes divides anew.
            pool.divide(&parts([(0, 1), (2, 3)]));
        }
    }
}

/// What has a frame is hit; what has none is read, and hot if the pool says so.
fn read(pool: &mut Pool, model: &mut Model, (tenant, key): (u16, u64), now: usize) {
    let is_hot = model.hot.contains_key(&key);
    assert_eq!(pool.hit(key), model.hot.get(&key));
    let had_frame = pool.has(key);
    if pool.read(TenantSlot::new(tenant), key, || now) {
        assert!(!had_frame && !is_hot);
        model.hot.insert(key, now);
    }
}

/// Nobody has more than its part of the quarter.
fn divided(pool: &Pool, parts: &[Part]) {
    let total: u32 = parts.iter().map(|part| part.parts).sum();
    for part in parts {
        let share = pool.capacity() / 4 * part.parts / total.max(1);
        assert!(pool.len_of(part.tenant, Kind::Ahead) <= share);
    }
}

proptest! {
    /// Memory within the size, a quarter prefetched at most, no frame that the model has not, the oldest leaves.
    #[test]
    fn a_pool_is_its_model(steps in steps(), policy in prop::sample::select(&POLICIES[..])) {
        let mut pool = Pool::new(&settings(12, 14, policy));
        pool.divide(&parts([(0, 2), (1, 1), (2, 4)]));
        let mut model = Model::default();
        for (now, step) in steps.iter().enumerate() {
            let before = model.prefetched();
            apply(&mut pool, &mut model, step, now);
            model.follow(&pool);
            model.hear(&mut pool, &before);
            model.check(&mut pool);
        }
    }
}

#[test]
fn a_pool_takes_its_size_for_frames_and_not_a_frame_more() {
    let exact = settings(1000, 0, "lru");
    let size = exact.size;
    let mut pool = Pool::new(&exact);
    assert_eq!(pool.capacity(), 1000);
    let less = Settings {
        size: Bytes::new(size.get() - 1),
        ..exact
    };
    assert_eq!(Pool::new(&less).capacity(), 999);
    for key in 0..1000 {
        assert_eq!(pool.stage(TenantSlot::new(1), key, 0), Ok(()));
    }
    assert_eq!(pool.stage(TenantSlot::new(1), 1000, 7), Err(7));
    assert!(pool.memory() <= size);
    assert!(pool.memory() >= Bytes::new(1000 * 4096));
}

#[test]
fn a_prefetched_block_leaves_for_a_staged_one_and_its_own_tenant_pays_first() {
    let (mine, other) = (TenantSlot::new(0), TenantSlot::new(1));
    let mut pool = Pool::new(&settings(16, 0, "lru"));
    pool.divide(&parts([(0, 1), (1, 1)]));
    for key in 0..2 {
        assert!(pool.ahead().put(mine, key, 0, 0));
        assert!(pool.ahead().put(other, 10 + key, 0, 0));
    }
    for key in 100..115 {
        assert_eq!(pool.stage(mine, key, 0), Ok(()));
    }
    assert_eq!(pool.keys(Kind::Ahead).collect::<Vec<_>>(), [11]);
    assert_eq!(pool.ahead().counts(mine).wasted, 2);
    assert_eq!(pool.ahead().counts(other).wasted, 1);
    assert_eq!(pool.ahead().read(11), Some((0, 0)));
    assert_eq!(pool.ahead().counts(other).used, 1);
}

#[test]
fn the_oldest_guess_leaves_for_a_new_one_and_who_has_no_share_has_none() {
    let mine = TenantSlot::new(0);
    let mut pool = Pool::new(&settings(16, 0, "lru"));
    assert!(!pool.ahead().put(mine, 1, 0, 0), "nothing is divided yet");
    pool.divide(&parts([(0, 3), (1, 1)]));
    for key in 0..5 {
        assert!(pool.ahead().put(mine, key, 0, 0));
    }
    assert!(!pool.ahead().put(mine, 4, 0, 0), "it is here");
    assert_eq!(pool.keys(Kind::Ahead).collect::<Vec<_>>(), [2, 3, 4]);
    pool.divide(&parts([(1, 1)]));
    assert_eq!(pool.len(Kind::Ahead), 0);
    assert_eq!(pool.ahead().counts(mine).wasted, 5);
    assert!(!pool.ahead().put(mine, 9, 0, 0));
}

/// Four prefetched blocks: a turn is eight blocks that are read.
#[test]
fn a_guess_that_nobody_reads_leaves_in_the_second_turn_after_its_own() {
    let mine = TenantSlot::new(3);
    let mut pool = Pool::new(&settings(16, 0, "lru"));
    pool.divide(&parts([(3, 1)]));
    pool.ahead().demanded(TenantSlot::new(9), 1000);
    assert!(pool.ahead().put(mine, 1, 5, 0));
    pool.ahead().demanded(mine, 8);
    assert!(pool.ahead().put(mine, 2, 5, 0));
    pool.ahead().demanded(mine, 7);
    assert_eq!(pool.keys(Kind::Ahead).collect::<Vec<_>>(), [1, 2]);
    pool.ahead().demanded(mine, 1);
    assert_eq!(pool.keys(Kind::Ahead).collect::<Vec<_>>(), [2]);
    let mut unread = Vec::new();
    let mut hear = |label, count| unread.push((label, count));
    pool.ahead().take_unread(mine, &mut hear);
    pool.ahead().demanded(mine, 8);
    pool.ahead().take_unread(mine, &mut hear);
    assert_eq!(unread, [(5, 1), (5, 1)]);
    assert!(pool.is_empty());
}

#[test]
fn what_is_staged_stays_when_the_pool_is_made_smaller() {
    let tenant = TenantSlot::new(5);
    let mut pool = Pool::new(&settings(32, 0, "lru"));
    pool.divide(&parts([(5, 1)]));
    for key in 0..4 {
        assert!(pool.ahead().put(tenant, 50 + key, 0, 0));
        assert_eq!(pool.stage(tenant, key, 1), Ok(()));
    }
    pool.resize(&settings(6, 0, "lru"));
    assert_eq!(pool.keys(Kind::Ahead).collect::<Vec<_>>(), [52, 53]);
    pool.resize(&settings(0, 0, "lru"));
    assert_eq!(pool.keys(Kind::Staged).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(pool.size(), Pool::size_for(4));
    assert!(pool.memory() <= pool.size());
    assert_eq!(pool.ahead().counts(tenant).wasted, 4);
}

#[test]
fn hot_blocks_are_divided_by_shares_and_leave_for_staged_ones_last() {
    let (mine, other) = (TenantSlot::new(0), TenantSlot::new(1));
    let mut pool = Pool::new(&settings(4, 40, "lru"));
    assert!(!pool.read(mine, 1, || 0), "nothing is divided yet");
    pool.divide(&parts([(0, 3), (1, 1)]));
    for key in 0..100 {
        assert!(pool.read(mine, key, || 0));
        assert!(pool.read(other, 1000 + key, || 0));
    }
    // A policy's own memory is two frames of each share.
    assert_eq!(pool.len_of(mine, Kind::Hot), 28);
    assert_eq!(pool.len_of(other, Kind::Hot), 8);
    assert_eq!(pool.hit(99), Some(&0));
    assert_eq!(pool.hit(71), None);
    for key in 200..204 {
        assert_eq!(pool.stage(mine, key, 0), Ok(()));
    }
    assert_eq!(
        pool.len(Kind::Hot),
        36,
        "what may be staged has frames of its own"
    );
    pool.divide(&parts([(0, 1), (1, 1)]));
    assert_eq!(pool.len_of(mine, Kind::Hot), 18);
    assert_eq!(pool.hit(82), Some(&0), "the least recently used have left");
    assert_eq!(pool.hit(81), None);
    pool.forget_tenant(mine);
    assert_eq!(pool.len_of(mine, Kind::Hot), 0);
    assert!(!pool.read(mine, 1, || 0));
}

#[test]
fn a_prefetched_block_takes_the_frame_of_the_least_recently_used() {
    let mine = TenantSlot::new(0);
    let mut pool = Pool::new(&settings(0, 40, "lru"));
    pool.divide(&parts([(0, 1)]));
    for key in 0..38 {
        assert!(pool.read(mine, key, || 0));
    }
    assert_eq!(pool.hit(0), Some(&0));
    for key in 100..110 {
        assert!(pool.ahead().put(mine, key, 0, 0));
    }
    assert_eq!(pool.len(Kind::Ahead), 10);
    assert_eq!(pool.len(Kind::Hot), 30);
    assert_eq!(pool.hit(0), Some(&0), "it was used since");
    assert_eq!(pool.hit(1), None);
    assert!(
        pool.read(mine, 200, || 0),
        "one hot block leaves for another"
    );
    assert_eq!((pool.len(Kind::Ahead), pool.len(Kind::Hot)), (10, 30));
}

/// Reads of a block until it has a frame.
fn reads_needed(pool: &mut Pool, tenant: TenantSlot, key: u64) -> usize {
    1 + (0..20)
        .take_while(|_| !pool.read(tenant, key, || 0))
        .count()
}

#[test]
fn a_weight_says_how_many_reads_a_frame_needs_and_nothing_is_forgotten_for_it() {
    let (light, other) = (TenantSlot::new(0), TenantSlot::new(2));
    let half = Fraction::millionths(500_000);
    let mut pool = Pool::new(&settings(0, 40, "frequency:threshold=2"));
    // Whether it is told before the tenant has a share, or after.
    pool.set_weight(light, half);
    pool.divide(&parts([(0, 1), (2, 1)]));
    assert_eq!(reads_needed(&mut pool, light, 1), 4);
    assert_eq!(reads_needed(&mut pool, other, 2), 2);
    for _ in 0..2 {
        assert!(!pool.read(light, 3, || 0));
    }
    pool.set_weight(light, Fraction::ONE);
    assert!(pool.read(light, 3, || 0), "two reads were counted");
    assert!(pool.hit(1).is_some(), "what has a frame keeps it");
    pool.set_weight(light, half);
    // A share that grows much has a new policy, with the weight.
    pool.divide(&parts([(0, 3), (2, 1)]));
    assert_eq!(reads_needed(&mut pool, light, 4), 4);
    pool.forget_tenant(light);
    pool.divide(&parts([(0, 3), (2, 1)]));
    assert_eq!(
        reads_needed(&mut pool, light, 5),
        2,
        "the slot is another's"
    );
}
