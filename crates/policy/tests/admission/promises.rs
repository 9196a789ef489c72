//! One body for every policy: what `Admission` promises, whatever the policy and its parameters.

use std::collections::BTreeSet;

use policy::admission::limits::FIXED_MEMORY;
use policy::admission::{Admission, Fate, Reason, Share, Spec, Staged, Verdict};
use proptest::prelude::*;
use units::{BLOCK_BYTES, Bytes};

use crate::steps::{Step, access, share, steps};

/// Every policy as it is, and those whose parameters change which branches run, at their limits.
fn specs() -> Vec<Spec> {
    let plain = Spec::ALL.iter().map(|about| about.name);
    let special = [
        "always:cutoff=1MiB",
        "staging:kind=address",
        "staging:kind=address,n=0",
        "staging:kind=address,n=3",
        "staging:kind=data",
        "staging:kind=data,n=2",
        "staging:n=3",
        "larc:cutoff=2KiB",
        "hec:by=region,cutoff=none",
        "frequency:threshold=0.5,age=1",
        "frequency:threshold=15",
        "probation:ghosts=0",
        "probation:data=0",
        "probation:data=20KiB,threshold=1,when=at-once,writes=address",
        "probation:data=1,ghosts=16,writes=ignore",
        "probation:data=64KiB,writes=note",
        "reuse-age:data=0",
        "reuse-age:data=1,ghosts=0,writes=data",
        "reuse-age:data=16KiB,once=1,again=1,writes=address",
        "reuse-age:once=1000000,again=1,writes=ignore",
        "reuse-age:rewrites=0",
        "reuse-age:rewrites=always,cutoff=1MiB",
    ];
    plain
        .chain(special)
        .map(|text| text.parse().unwrap())
        .collect()
}

/// A cache around a policy: which blocks are on flash, which are staged.
struct Cache {
    policy: Box<dyn Admission<u64>>,
    flash: BTreeSet<u64>,
    staged: BTreeSet<u64>,
    share: Share,
    resized: bool,
    last_admitted: Option<u64>,
    history: Vec<String>,
}

impl Cache {
    fn new(spec: &Spec, share: Share) -> Self {
        Self {
            policy: spec.build(share),
            flash: BTreeSet::new(),
            staged: BTreeSet::new(),
            share,
            resized: false,
            last_admitted: None,
            history: Vec::new(),
        }
    }

    fn admit(&mut self, key: u64) {
        assert!(self.flash.insert(key));
        self.last_admitted = Some(key);
    }

    fn settle(&mut self, left: Vec<(u64, Fate)>, asked: Option<u64>) {
        for (key, fate) in left {
            assert_ne!(Some(key), asked, "never the key of the call itself");
            assert!(
                self.staged.remove(&key),
                "only what was staged leaves, once"
            );
            if fate == Fate::Admit {
                self.admit(key);
            }
        }
    }

    fn access(&mut self, key: u64, write: bool) {
        let access = access(key, write);
        let mut left = Vec::new();
        if self.flash.contains(&key) {
            self.policy.hit(key, access);
            if write {
                let stays = self.policy.rewrites(key, access, key.is_multiple_of(2));
                self.history.push(format!("{stays}"));
                if !stays {
                    self.flash.remove(&key);
                    assert!(!self.policy.remove(key), "it was on flash, not staged");
                }
            }
        } else if self.staged.contains(&key) {
            let answer = self.policy.staged_hit(key, access, &mut left);
            self.history.push(format!("{answer:?}"));
            if answer != Staged::Stays {
                self.staged.remove(&key);
            }
            if answer == Staged::Admit {
                self.admit(key);
            }
        } else {
            let verdict = self.policy.missed(key, access, &mut left);
            self.history.push(format!("{verdict:?}"));
            match verdict {
                Verdict::Admit => self.admit(key),
                Verdict::Stage => assert!(self.staged.insert(key)),
                Verdict::Refuse(reason) => assert_ne!(reason, Reason::Budget),
            }
        }
        self.settle(left, Some(key));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Access { key, write } => self.access(key, write),
            Step::Evict(key) => {
                if self.flash.remove(&key) {
                    self.policy.evicted(key);
                }
            }
            Step::Remove(key) => {
                self.flash.remove(&key);
                assert_eq!(self.policy.remove(key), self.staged.remove(&key));
            }
            Step::Withhold => {
                if let Some(key) = self.last_admitted.take()
                    && self.flash.remove(&key)
                {
                    self.policy.withheld(key);
                }
            }
            Step::Resize(blocks, kib) => {
                self.share = share(blocks, kib);
                self.resized = true;
                let mut left = Vec::new();
                self.policy.resize(self.share, &mut left);
                self.settle(left, None);
            }
        }
        self.check();
    }

    fn check(&self) {
        let slack = if self.resized {
            self.share.staging.get() / 7
        } else {
            0
        };
        let bound = self.share.staging + FIXED_MEMORY + Bytes::new(slack);
        let held = self.policy.memory();
        assert!(held <= bound, "{held} where {bound} may be");
        let staged = Bytes::new(self.staged.len() as u64 * BLOCK_BYTES);
        assert!(staged <= held, "what is staged is counted");
    }

    /// In the end the policy lets go of everything that is staged when it is asked.
    fn empty(mut self) -> Vec<String> {
        for key in std::mem::take(&mut self.staged) {
            assert!(self.policy.remove(key), "{key} was staged");
            assert!(!self.policy.remove(key), "once");
        }
        self.history
    }
}

fn run(spec: &Spec, first: Share, steps: &[Step]) -> Vec<String> {
    let mut cache = Cache::new(spec, first);
    for step in steps {
        cache.step(*step);
    }
    cache.empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_policy_keeps_its_promises(
        steps in steps(),
        blocks in 0u64..60,
        kib in 0u64..90,
    ) {
        for spec in specs() {
            let history = run(&spec, share(blocks, kib), &steps);
            prop_assert_eq!(history, run(&spec, share(blocks, kib), &steps), "{} rolls no dice", spec);
        }
    }
}

#[test]
fn every_policy_is_found_and_written_by_its_name() {
    for about in Spec::ALL {
        let spec: Spec = about.name.parse().unwrap();
        assert_eq!(spec.to_string(), about.name);
        for name in about.other_names {
            assert_eq!(name.parse(), Ok(spec.clone()));
        }
        for parameter in about.parameters {
            let value = spec.parameter(parameter.name).unwrap();
            let same = format!("{}:{}={value}", about.name, parameter.name);
            assert_eq!(same.parse(), Ok(spec.clone()), "{same}");
            let wrong = format!("{}:{}=no-such-value", about.name, parameter.name);
            let message = wrong.parse::<Spec>().unwrap_err().to_string();
            assert!(message.contains(parameter.takes), "{message}");
        }
        assert!(spec.parameter("no-such-parameter").is_none());
    }
    for spec in specs() {
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
}

#[test]
fn a_wrong_name_is_answered_with_the_nearest() {
    let message = "reuse-ag".parse::<Spec>().unwrap_err().to_string();
    assert!(message.contains("did you mean 'reuse-age'?"), "{message}");
    let message = "larc:cutof=1MiB".parse::<Spec>().unwrap_err().to_string();
    assert!(message.contains("did you mean 'cutoff'?"), "{message}");
}

/// A run beyond the cut-off is refused, and the policy below never hears of it.
#[test]
fn every_policy_can_refuse_long_runs() {
    for about in Spec::ALL {
        let spec: Spec = format!("{}:cutoff=64KiB", about.name).parse().unwrap();
        let mut policy = spec.build::<u64>(share(1000, 1000));
        let mut left = Vec::new();
        let long = policy::admission::Access {
            run: Bytes::kib(68),
            ..access(1, false)
        };
        let refused = Verdict::Refuse(Reason::Sequential);
        for _ in 0..3 {
            assert_eq!(policy.missed(1, long, &mut left), refused, "{spec}");
        }
        let short = policy.missed(1, access(1, false), &mut left);
        assert_ne!(short, refused, "{spec}");
        assert!(left.is_empty());
    }
}

/// A policy remembers what it may: staging RAM of a megabyte is more than half full after a long scan.
#[test]
fn memory_is_used() {
    for name in [
        "staging",
        "staging:kind=address",
        "staging:kind=data",
        "probation:data=0.5",
        "reuse-age",
    ] {
        let spec: Spec = name.parse().unwrap();
        let mut policy = spec.build::<u64>(share(100_000, 1024));
        let mut left = Vec::new();
        for key in 0..100_000 {
            policy.missed(key, access(key, false), &mut left);
            left.clear();
        }
        assert!(
            policy.memory() > Bytes::kib(960),
            "{name}: {}",
            policy.memory()
        );
    }
}
