//! What the price promises, and what was learned of prices that promise less: a test each.

use policy::replacement::Fraction;
use prefetch::price::{self, MINERS_MAX};
use prefetch::{Answer, Key, Label, Price};
use proptest::prelude::*;
use units::{BlockIndex, Prng};

const TENTH: Fraction = Fraction::millionths(100_000);
const SURE: Fraction = Fraction::ONE;

fn key(block: u64) -> Key {
    Key::new(0, BlockIndex::new(block))
}

fn settings(bucket: u32) -> price::Settings {
    price::Settings {
        waste: TENTH,
        bucket,
        outstanding: 1_000,
        ghosts: 512,
        life: 256,
    }
}

/// What was fetched and is not read yet, as a memory would hold it.
struct Memory {
    price: Price,
    ahead: Vec<(Key, Label)>,
    blocks: usize,
    demanded: u64,
    used: u64,
    wasted: u64,
}

impl Memory {
    fn new(price: Price, blocks: usize) -> Self {
        Self {
            price,
            ahead: Vec::new(),
            blocks,
            demanded: 0,
            used: 0,
            wasted: 0,
        }
    }

    /// A guest reads a block: whether it was fetched ahead.
    fn read(&mut self, key: Key) -> bool {
        self.demanded += 1;
        self.price.demanded(key);
        let Some(at) = self.ahead.iter().position(|(ahead, _)| *ahead == key) else {
            return false;
        };
        let (_, label) = self.ahead.remove(at);
        self.price.used(label);
        self.used += 1;
        true
    }

    /// A miner guesses; whether that was fetched. What is fetched pushes out the oldest.
    fn offer(&mut self, miner: usize, confidence: Fraction, keys: &[Key]) -> bool {
        let lacks = |key: &Key| self.ahead.iter().all(|(ahead, _)| ahead != key);
        let lacking: Vec<Key> = keys.iter().copied().filter(lacks).collect();
        if lacking.is_empty() {
            return true;
        }
        let Answer::Fetch(label) = self.price.offer(miner, confidence, &lacking) else {
            return false;
        };
        self.ahead
            .extend(lacking.into_iter().map(|key| (key, label)));
        while self.ahead.len() > self.blocks {
            self.lose(0);
        }
        true
    }

    fn lose(&mut self, at: usize) {
        let (_, label) = self.ahead.remove(at);
        self.price.wasted(label);
        self.wasted += 1;
    }
}

/// A step of a guest, a miner and a memory that want the worst.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(u64),
    Offer {
        miner: usize,
        eighths: u32,
        first: u64,
        blocks: u64,
    },
    LoseAll,
    Lose(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let offer = (0..4_usize, 0..9_u32, 0..400_u64, 1..64_u64);
    let offer = offer.prop_map(|(miner, eighths, first, blocks)| Step::Offer {
        miner,
        eighths,
        first,
        blocks,
    });
    let one = prop_oneof![
        3 => (0..400_u64).prop_map(Step::Read),
        3 => offer,
        2 => (0..500_usize).prop_map(Step::Lose),
        1 => Just(Step::LoseAll),
    ];
    prop::collection::vec(one, 1..300)
}

proptest! {
    /// Over any span: wasted <= 0.10 x demanded + bucket + the most that were outstanding.
    #[test]
    fn no_span_wastes_more_than_was_promised(
        steps in steps(), bucket in 1..100_u32, blocks in 1..300_usize,
    ) {
        let mut memory = Memory::new(Price::new(settings(bucket), 4), blocks);
        let mut history = vec![(0, 0)];
        let mut outstanding = 0;
        for step in steps {
            match step {
                Step::Read(block) => {
                    memory.read(key(block));
                }
                Step::Offer { miner, eighths, first, blocks } => {
                    let keys: Vec<Key> = (first..first + blocks).map(key).collect();
                    let confidence = Fraction::millionths(eighths * 125_000);
                    memory.offer(miner, confidence, &keys);
                }
                Step::Lose(at) if at < memory.ahead.len() => memory.lose(at),
                Step::Lose(_) => {}
                Step::LoseAll => {
                    while !memory.ahead.is_empty() {
                        memory.lose(0);
                    }
                }
            }
            prop_assert_eq!(memory.price.outstanding(), memory.ahead.len() as u64);
            // A guess may be larger than the memory, which then loses some of it at once.
            outstanding = outstanding.max(memory.price.outstanding() + 64);
            history.push((memory.demanded, memory.wasted));
        }
        for (at, (demanded, wasted)) in history.iter().enumerate() {
            for (later_demanded, later_wasted) in &history[at..] {
                let promised = (later_demanded - demanded).div_ceil(10)
                    + u64::from(bucket) + outstanding;
                prop_assert!(later_wasted - wasted <= promised);
            }
        }
    }
}

/// A guest reads one block after another; `good` of 16 of the good miner's guesses come true. Poor miners, which
/// are asked first and say that they are sure, guess what nobody reads. How many reads hit once that was found out.
fn hits(poor: usize, good: u64, bucket: u32) -> (u64, Memory) {
    let mut memory = Memory::new(Price::new(settings(bucket), poor + 1), 128);
    let mut dice = Prng::new(7);
    let mut hits = 0;
    let mut nonsense = 1 << 30;
    for block in 0..20_000_u64 {
        hits += u64::from(memory.read(key(block)) && block >= 4_000);
        for miner in 0..poor {
            nonsense += 4;
            let keys: Vec<Key> = (nonsense..nonsense + 4).map(key).collect();
            memory.offer(miner, SURE, &keys);
        }
        let is_right = dice.below(16) < good;
        nonsense += 4;
        let guess = if is_right { block + 1 } else { nonsense };
        memory.offer(poor, SURE, &[key(guess)]);
    }
    (hits, memory)
}

/// First come, first served on one bucket lets the poor miner empty it; a part for each wastes its part.
#[test]
fn poor_miners_do_not_starve_a_good_one() {
    for good in [15, 14, 8] {
        let (alone, _) = hits(0, good, 256);
        for poor in [1, 3, MINERS_MAX - 1] {
            let (together, memory) = hits(poor, good, 256);
            assert!(
                together * 100 >= alone * 95,
                "{good} of 16, {poor} poor: {together} of {alone}"
            );
            assert!(memory.wasted <= memory.demanded / 10 + 256 + 128);
        }
    }
}

/// A miner that is right half of the time would waste half a block for each that is demanded: a fifth of its
/// guesses is what a tenth pays for, and that much it gets.
#[test]
fn a_middling_miner_uses_the_whole_tenth() {
    let (_, memory) = hits(0, 8, 256);
    assert!(
        memory.wasted >= memory.demanded * 9 / 100,
        "{}",
        memory.wasted
    );
    assert!(memory.used >= memory.demanded * 7 / 100, "{}", memory.used);
}

/// Charged when it is fetched, a long window would wait for its own first half.
#[test]
fn a_window_longer_than_the_bucket_is_fetched_by_a_miner_that_is_right() {
    let mut memory = Memory::new(Price::new(settings(32), 1), 512);
    let mut ahead = 0;
    for block in 0..4_000_u64 {
        let hit = memory.read(key(block));
        assert!(hit || block < 600, "block {block} was not there");
        // As much as the bucket allows before anything is known, 256 blocks ahead afterwards.
        let window = if block < 300 { 16 } else { 256 };
        ahead = ahead.max(block + 1);
        let end = block + window;
        if end >= ahead + 16 {
            let keys: Vec<Key> = (ahead..ahead + 16).map(key).collect();
            if memory.offer(0, SURE, &keys) {
                ahead += 16;
            }
        }
    }
    assert!(
        memory.price.outstanding() > 200,
        "{}",
        memory.price.outstanding()
    );
    assert_eq!(memory.wasted, 0);
}

/// Without ghosts it would never be measured again.
#[test]
fn a_miner_that_becomes_good_is_heard_again() {
    let mut memory = Memory::new(Price::new(settings(64), 1), 64);
    let mut nonsense = 1 << 30;
    for block in 0..5_000 {
        nonsense += 1;
        memory.read(key(block));
        memory.offer(0, SURE, &[key(nonsense)]);
    }
    let fetched = memory.offer(0, SURE, &[key(nonsense + 1)]);
    assert!(!fetched, "what is always wrong is refused");
    let mut hits = 0;
    for block in 10_000..12_000 {
        hits += u64::from(memory.read(key(block)));
        memory.offer(0, SURE, &[key(block + 1)]);
    }
    assert!(hits > 1_000, "{hits}");
}

/// By the part that a miner is right in all, its sure guesses would be refused with its bold ones.
#[test]
fn sure_guesses_are_fetched_where_bold_ones_of_the_same_miner_are_not() {
    let bold = Fraction::millionths(300_000);
    let mut memory = Memory::new(Price::new(settings(64), 1), 64);
    let mut nonsense = 1 << 30;
    let (mut hits, mut bold_fetched) = (0, 0);
    for block in 0..10_000 {
        hits += u64::from(memory.read(key(block)));
        nonsense += 3;
        let keys: Vec<Key> = (nonsense..nonsense + 3).map(key).collect();
        bold_fetched += u64::from(memory.offer(0, bold, &keys));
        memory.offer(0, SURE, &[key(block + 1)]);
    }
    assert!(hits > 9_500, "{hits}");
    assert!(bold_fetched < 500, "{bold_fetched}");
}

/// Half of memory, as a rule: more would push out what was fetched and not yet read.
#[test]
fn no_more_is_outstanding_than_was_said() {
    let limited = price::Settings {
        outstanding: 10,
        ..settings(1_000)
    };
    let mut memory = Memory::new(Price::new(limited, 1), 1_000);
    let keys = |first: u64, blocks: u64| (first..first + blocks).map(key).collect::<Vec<_>>();
    for block in 10_000..11_000 {
        memory.read(key(block));
        memory.offer(0, SURE, &[key(block + 1)]);
    }
    memory.read(key(11_000));
    assert!(memory.offer(0, SURE, &keys(0, 8)));
    assert!(!memory.offer(0, SURE, &keys(8, 3)));
    memory.read(key(0));
    assert!(memory.offer(0, SURE, &keys(8, 3)));
}

/// First come, first served on the room lets a middling miner that is asked first fill it, however much the bucket has.
#[test]
fn a_middling_miner_does_not_fill_the_room_of_a_good_one() {
    let narrow = price::Settings {
        outstanding: 16,
        ..settings(10_000)
    };
    let mut memory = Memory::new(Price::new(narrow, 2), 1_000);
    let nonsense = 1 << 30;
    let mut hits = 0;
    for block in 0..20_000 {
        hits += u64::from(memory.read(key(block)) && block >= 10_000);
        // Every other guess comes true, forty blocks later; the others leave after as long.
        let guess = block + if block % 2 == 0 { 40 } else { nonsense };
        memory.offer(0, SURE, &[key(guess)]);
        memory.offer(1, SURE, &[key(block + 1)]);
        if block % 40 == 0 {
            let is_old = |(ahead, _): &(Key, Label)| *ahead > key(1 << 29);
            while let Some(at) = memory.ahead.iter().position(is_old) {
                memory.lose(at);
            }
        }
    }
    assert!(hits > 9_000, "{hits} of 10,000");
}

/// Of what is outstanding a part will be wasted, and nothing has paid for that part yet. Without counting it a miner
/// of which nothing is known would fetch as much as there is room for.
#[test]
fn what_is_outstanding_is_expected_to_be_wasted_in_part() {
    let mut memory = Memory::new(Price::new(settings(32), 1), 1_000);
    for block in 0..1_000 {
        memory.offer(0, SURE, &[key(block)]);
    }
    // Half of them is thought to be wasted: no more than twice the bucket, and some of that is kept for the sure.
    let fetched = memory.price.outstanding();
    assert!((16..64).contains(&fetched), "{fetched}");
}

/// A miner that was right for long is wrong all at once: what was outstanding is lost, and until demand has paid for
/// it nothing more is.
#[test]
fn an_empty_bucket_fetches_nothing() {
    let mut memory = Memory::new(Price::new(settings(32), 1), 1_000);
    for block in 0..3_000 {
        memory.read(key(block));
        memory.offer(0, SURE, &[key(block + 1)]);
    }
    for far in 0..100 {
        assert!(memory.offer(0, SURE, &[key(1_000_000 + far)]));
    }
    while !memory.ahead.is_empty() {
        memory.lose(0);
    }
    let lost = memory.wasted;
    assert!(lost >= 100);
    for block in 0..500 {
        memory.read(key(500_000 + block));
        assert!(!memory.offer(0, SURE, &[key(2_000_000 + block)]));
    }
    assert_eq!(memory.wasted, lost);
}

/// A guest that reads what it is told of says nothing of the guess: a miner that is always wrong is not heard because the guest
/// follows it, and one that is right is heard although the guest does not.
#[test]
fn what_the_guest_reads_because_it_was_told_is_no_outcome() {
    let precision_decides = |follows: bool| {
        let mut price = Price::new(settings(64), 1);
        for block in 0..2_000 {
            price.demanded(key(block));
            let Answer::Fetch(label) = price.offer(0, SURE, &[key(1 << 30 | block)]) else {
                continue;
            };
            // One of eight is held out: the guest is not told, and does not read the block.
            match block % 8 {
                0 => price.wasted(label),
                _ if follows => price.read_when_told(label),
                _ => price.wasted_when_told(label),
            }
        }
        price.offer(0, SURE, &[key(1 << 31)])
    };
    assert_eq!(precision_decides(true), Answer::Refuse);
    assert_eq!(precision_decides(false), Answer::Refuse);
}

#[test]
fn what_the_guest_has_not_used_is_paid_for_and_an_exaggeration_ends() {
    let mut price = Price::new(settings(64), 1);
    let fetches = |price: &mut Price, at: u64| {
        let answer = price.offer(0, SURE, &[key(at)]);
        if let Answer::Fetch(label) = answer {
            price.used(label);
        }
        answer != Answer::Refuse
    };
    assert!((0..200).all(|at| fetches(&mut price, at)), "a good miner");
    price.unused_by_guest(u64::MAX);
    assert!(!fetches(&mut price, 300), "the bucket is empty");
    (0..2 * 64 * 10).for_each(|block| price.demanded(key(1 << 20 | block)));
    assert!(fetches(&mut price, 301), "two buckets are paid");
}
