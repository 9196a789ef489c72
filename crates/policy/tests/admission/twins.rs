//! Slow twins: each policy as plainly as it can be said, beside the policy itself.

use std::collections::VecDeque;

use policy::admission::sequential::{Runs, STREAMS};
use policy::admission::staging::Staging;
use policy::admission::{Fate, Reason, Share, Spec, Verdict};
use proptest::prelude::*;
use units::{BLOCK_BYTES, Bytes, Offset};

use crate::steps::{access, share};

const FIRST: Verdict = Verdict::Refuse(Reason::FirstTouch);

type Left = Vec<(u64, Fate)>;

/// What a twin does with an access of a block that is not on flash, and who left.
trait Twin {
    fn access(&mut self, key: u64, write: bool, left: &mut Left) -> Verdict;
}

/// Blocks of flash: FIFO, so that much is evicted; shares are larger, to have room for ghosts.
const FLASH: u64 = 12;

/// Runs both, with blocks admitted on flash until [`FLASH`] others were.
fn compare(mut twin: impl Twin, spec: &str, given: Share, accesses: &[(u64, bool)]) {
    let spec: Spec = spec.parse().unwrap();
    let mut policy = spec.build::<u64>(given);
    let mut flash: VecDeque<u64> = VecDeque::new();
    let mut staged: Vec<u64> = Vec::new();
    for (at, (key, write)) in accesses.iter().copied().enumerate() {
        if flash.contains(&key) {
            policy.hit(key, access(key, write));
            continue;
        }
        let (mut left, mut twins_left) = (Vec::new(), Vec::new());
        let expected = twin.access(key, write, &mut twins_left);
        // A staged hit answers in other words.
        let verdict = if staged.contains(&key) {
            match policy.staged_hit(key, access(key, write), &mut left) {
                policy::admission::Staged::Admit => Verdict::Admit,
                policy::admission::Staged::Stays => Verdict::Stage,
                policy::admission::Staged::Drop => FIRST,
            }
        } else {
            policy.missed(key, access(key, write), &mut left)
        };
        assert_eq!(verdict, expected, "{spec}, access {at} of {key}");
        assert_eq!(left, twins_left, "{spec}, access {at} of {key}");
        staged.retain(|other| *other != key && !left.iter().any(|(gone, _)| gone == other));
        let mut admitted: Vec<u64> = left
            .into_iter()
            .filter(|(_, fate)| *fate == Fate::Admit)
            .map(|(key, _)| key)
            .collect();
        match verdict {
            Verdict::Admit => admitted.insert(0, key),
            Verdict::Stage => staged.push(key),
            Verdict::Refuse(_) => {}
        }
        for key in admitted {
            flash.push_back(key);
            if flash.len() as u64 > FLASH {
                policy.evicted(flash.pop_front().unwrap());
            }
        }
    }
}

fn accesses() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let key = prop_oneof![3 => 0u64..8, 3 => 0u64..40, 1 => 0u64..200];
    prop::collection::vec((key, prop::bool::weighted(0.3)), 1..400)
}

/// Takes a block out of a queue.
fn take<T: Clone>(queue: &mut VecDeque<(u64, T)>, key: u64) -> Option<T> {
    let at = queue.iter().position(|(other, _)| *other == key)?;
    queue.remove(at).map(|(_, what)| what)
}

/// Oldest first, with the number of accesses so far, and whether the bytes are there.
struct StagingTwin {
    addresses: VecDeque<(u64, (u32, bool))>,
    data: VecDeque<(u64, (u32, bool))>,
    addresses_max: usize,
    data_max: usize,
    n: u32,
}

impl Twin for StagingTwin {
    fn access(&mut self, key: u64, write: bool, left: &mut Left) -> Verdict {
        let known = take(&mut self.addresses, key).or_else(|| take(&mut self.data, key));
        let before = known.map_or(0, |known| known.0);
        if before >= self.n {
            return Verdict::Admit;
        }
        let bytes = !write && self.data_max > 0;
        if bytes || self.addresses_max == 0 {
            self.data.push_back((key, (before + 1, bytes)));
        } else {
            self.addresses.push_back((key, (before + 1, bytes)));
        }
        if self.data.len() > self.data_max {
            let (key, (count, had_bytes)) = self.data.pop_front().unwrap();
            if had_bytes {
                left.push((key, Fate::Drop));
            }
            if self.addresses_max > 0 {
                self.addresses.push_back((key, (count, false)));
            }
        }
        if self.addresses.len() > self.addresses_max {
            self.addresses.pop_front();
        }
        if bytes { Verdict::Stage } else { FIRST }
    }
}

const ROW: u64 = Staging::<u64>::address_bytes();

/// LARC with real numbers.
struct LarcTwin {
    queue: VecDeque<(u64, ())>,
    blocks: f64,
    length: f64,
}

impl Twin for LarcTwin {
    fn access(&mut self, key: u64, _write: bool, _left: &mut Left) -> Verdict {
        self.length = (self.length + self.blocks / self.length).min(0.9 * self.blocks);
        if take(&mut self.queue, key).is_some() {
            return Verdict::Admit;
        }
        self.queue.push_back((key, ()));
        while self.queue.len() as f64 > self.length {
            self.queue.pop_front();
        }
        FIRST
    }
}

struct ProbationTwin {
    data: VecDeque<(u64, u32)>,
    ghosts: VecDeque<(u64, ())>,
    data_max: usize,
    ghosts_max: usize,
    threshold: u32,
    at_once: bool,
}

impl Twin for ProbationTwin {
    fn access(&mut self, key: u64, _write: bool, left: &mut Left) -> Verdict {
        if let Some((_, uses)) = self.data.iter_mut().find(|(other, _)| *other == key) {
            *uses += 1;
            if self.at_once && *uses >= self.threshold {
                take(&mut self.data, key);
                return Verdict::Admit;
            }
            return Verdict::Stage;
        }
        if take(&mut self.ghosts, key).is_some() {
            return Verdict::Admit;
        }
        self.data.push_back((key, 0));
        if self.data.len() > self.data_max {
            let (key, uses) = self.data.pop_front().unwrap();
            if uses >= self.threshold {
                left.push((key, Fate::Admit));
            } else {
                left.push((key, Fate::Drop));
                self.ghosts.push_back((key, ()));
            }
        }
        if self.ghosts.len() > self.ghosts_max {
            self.ghosts.pop_front();
        }
        Verdict::Stage
    }
}

/// Reuse age with ghosts that are never too many: last seen, and how often it came back.
struct ReuseAgeTwin {
    data: VecDeque<(u64, u64)>,
    ghosts: VecDeque<(u64, (u64, u32))>,
    data_max: usize,
    blocks: u64,
    once: u64,
    again: u64,
    now: u64,
    misses: u64,
    admitted: u64,
    on_flash: u64,
}

impl Twin for ReuseAgeTwin {
    fn access(&mut self, key: u64, write: bool, left: &mut Left) -> Verdict {
        self.now += 1;
        self.misses += 1;
        if self.misses > self.blocks.max(100) {
            self.misses /= 2;
            self.admitted /= 2;
        }
        if self.data.iter().any(|(other, _)| *other == key) {
            return Verdict::Stage;
        }
        let ghost = take(&mut self.ghosts, key);
        if write {
            let count = ghost.map_or(0, |(_, count)| count);
            self.ghosts.push_back((key, (self.now, count)));
            return Verdict::Refuse(Reason::Write);
        }
        if let Some((seen, count)) = ghost {
            let times = if count == 0 { self.once } else { self.again };
            let full = self.on_flash > FLASH;
            let lasts = (self.now - seen) * times * self.admitted <= self.blocks * self.misses;
            if !full || lasts {
                self.admitted += 1;
                self.on_flash += 1;
                return Verdict::Admit;
            }
            self.ghosts.push_back((key, (self.now, (count + 1).min(3))));
            return Verdict::Refuse(Reason::TooLate);
        }
        self.data.push_back((key, self.now));
        if self.data.len() > self.data_max {
            let (key, seen) = self.data.pop_front().unwrap();
            self.ghosts.push_back((key, (seen, 0)));
            left.push((key, Fate::Drop));
        }
        Verdict::Stage
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn staging_is_its_twin(accesses in accesses(), n in 1u32..4, data in 0u64..30, addresses in 16u64..60) {
        let twin = |addresses_max: u64, data_max: u64| StagingTwin {
            addresses: VecDeque::new(),
            data: VecDeque::new(),
            addresses_max: usize::try_from(addresses_max).unwrap(),
            data_max: usize::try_from(data_max).unwrap(),
            n,
        };
        let ram = |bytes| Share::new(20, Bytes::new(bytes + ROW));
        let spec = format!("staging:kind=address,n={n}");
        compare(twin(addresses, 0), &spec, ram(ROW * addresses), &accesses);
        // Of the RAM an eighth holds addresses, at least 16 of them, the rest data.
        let hybrid = (BLOCK_BYTES + ROW) * data * 8 / 7 + 8;
        let addresses = (hybrid / 8 / ROW).max(16);
        let fits = (hybrid - hybrid / 8) / (BLOCK_BYTES + ROW);
        compare(twin(addresses, fits), &format!("staging:n={n}"), ram(hybrid), &accesses);
        let (addresses, kind) = if data == 0 { (16, "address") } else { (0, "data") };
        let spec = format!("staging:kind={kind},n={n}");
        compare(twin(addresses, data), &spec, ram((BLOCK_BYTES + ROW) * data), &accesses);
    }

    #[test]
    fn larc_is_its_twin_where_nothing_hits(accesses in prop::collection::vec(0u64..300, 1..500), blocks in 10u64..100) {
        // Every block is taken off flash at once, so that only misses adapt; hits are worked by hand.
        let mut twin = LarcTwin {
            queue: VecDeque::new(),
            blocks: blocks as f64,
            length: 0.1 * blocks as f64,
        };
        let spec: Spec = "larc".parse().unwrap();
        let mut policy = spec.build::<u64>(share(blocks, 100));
        for key in accesses {
            let verdict = policy.missed(key, access(key, false), &mut Vec::new());
            prop_assert_eq!(verdict, twin.access(key, false, &mut Vec::new()));
        }
    }

    #[test]
    fn probation_is_its_twin(
        accesses in accesses(),
        threshold in 1u32..4,
        at_once in any::<bool>(),
        data in 1u64..20,
        ghosts in 16u64..60,
    ) {
        let blocks = 64;
        let twin = ProbationTwin {
            data: VecDeque::new(),
            ghosts: VecDeque::new(),
            data_max: usize::try_from(data).unwrap(),
            ghosts_max: usize::try_from(ghosts).unwrap(),
            threshold,
            at_once,
        };
        // Written as a part with six decimals of 64 blocks: n/64 has them all.
        let spec = format!(
            "probation:data={},ghosts={},threshold={threshold},when={}",
            format_args!("{}B", (BLOCK_BYTES + ROW) * data),
            ghosts as f64 / blocks as f64,
            if at_once { "at-once" } else { "leaving" },
        );
        let accesses: Vec<_> = accesses.into_iter().map(|(key, _)| (key, false)).collect();
        compare(twin, &spec, share(blocks, 1000), &accesses);
    }

    #[test]
    fn reuse_age_is_its_twin(
        accesses in accesses(),
        once in 1u64..40,
        again in 1u64..20,
        data in 1u64..20,
        blocks in 100u64..130,
    ) {
        let twin = ReuseAgeTwin {
            data: VecDeque::new(),
            ghosts: VecDeque::new(),
            data_max: usize::try_from(data).unwrap(),
            blocks,
            once,
            again,
            now: 0,
            misses: 0,
            admitted: 0,
            on_flash: 0,
        };
        // 200 buckets of eight at least for 200 keys: none overflows.
        let spec = format!("reuse-age:data={}B,ghosts=16,once={once},again={again}", (BLOCK_BYTES + ROW) * data);
        let given = Share::new(blocks, Bytes::mib(1));
        compare(twin, &spec, given, &accesses);
    }
}

/// The streams of a disk as they are said: in one list, the one that was lengthened last in front.
#[derive(Default)]
struct PlainRuns(VecDeque<(u64, u64)>);

impl PlainRuns {
    fn note(&mut self, begins: u64, length: u64) -> u64 {
        let known = self.0.iter().position(|(next, _)| *next == begins);
        let before = match known {
            Some(at) => self.0.remove(at).unwrap().1,
            None => 0,
        };
        self.0.truncate(STREAMS - usize::from(known.is_none()));
        self.0.push_front((begins + length, before + length));
        before + length
    }
}

proptest! {
    /// Few places, so that streams meet, and more of them than are told apart.
    #[test]
    fn runs_are_those_of_a_plain_list(requests in prop::collection::vec((0_u64..40, 1_u64..4), 0..300)) {
        let (mut runs, mut plain) = (Runs::new(), PlainRuns::default());
        for (begins, length) in requests {
            let run = runs.note(Offset::kib(begins), Bytes::kib(length));
            prop_assert_eq!(run, Bytes::kib(plain.note(begins, length)));
        }
    }
}
